// The form for a new scan: the app checks and estimates the scan, and starts it after a confirmation.
import { h, set, show, money, duration, plural, announce } from './dom.js';
import { Live, call, messageOf } from './api.js';
import { ownStorage, partOf, tableOf } from './scans.js';

const lookInterval = 15_000;
const draftPlace = 'tablesweep-draft'; // in the tab's own storage

const made = 'created if missing';
const [rows, put] = [['copy', 'export', 'count', 'enqueue', 'delete'], ['copy', 'export', 'enqueue']];

// fields contains the fields of a request, by name, in their groups. Blanks around a value are removed unless the field is exact. of lists the actions that use the field.
// from and strategy list the other choices with which the field is shown. suggests describes the app's suggestions, and the field with their connection. Only the form has
// the field from and the action export, which is sent as a copy.
const fields = [
  { name: 'from', label: 'Rows of', group: 'From', options: [['table', 'a table'], ['export', 'an export in a blob container'], ['tables', 'many tables'], ['exports', 'an export of many tables']] },
  { name: 'source.table', suggests: ['tables', 'source.connection'], label: 'Table', group: 'From', from: ['table'], required: true },
  { name: 'source.tables', label: 'Tables', group: 'From', from: ['tables', 'exports'], required: true, hint: '* for all tables, or patterns such as logs*,Orders' },
  { name: 'source.container', label: 'Container', group: 'From', from: ['export', 'exports'], required: true },
  { name: 'source.prefix', label: 'Blob prefix', group: 'From', from: ['export', 'exports'], hint: 'such as backup/orders' },
  { name: 'source.connection', suggests: ['connections'], label: 'Connection', group: 'From', hint: 'the name of a setting; the app’s own storage if empty' },
  { name: 'action.type', label: 'Action', group: 'Action', options: [['copy', 'copy the rows to a table'], ['export', 'copy the rows to blobs'], ['count', 'count the rows'], ['keys', 'write the partition keys to a table'], ['enqueue', 'send a queue message for each row'], ['delete', 'delete the rows']] },
  { name: 'action.destination.table', suggests: ['tables', 'action.destination.connection'], label: 'Destination table', group: 'Action', of: ['copy', 'keys'], from: ['table', 'export'], required: true, hint: made },
  { name: 'action.destination.container', label: 'Destination container', group: 'Action', of: ['export'], required: true, hint: made },
  { name: 'action.destination.prefix', label: 'Destination prefix', group: 'Action', of: ['export'], hint: 'such as backup/orders; must not be in use' },
  { name: 'action.destination.connection', suggests: ['connections'], label: 'Destination connection', group: 'Action', of: ['copy', 'keys', 'export'] },
  { name: 'action.mode', label: 'Rows that already exist', group: 'Action', of: ['copy'], options: [['', 'replace'], ['merge', 'merge'], ['skip', 'skip'], ['fail', 'fail']] },
  { name: 'action.overwrite', label: 'If the tables have rows', group: 'Action', of: ['copy'], from: ['tables', 'exports'], options: [['', 'do not start'], ['true', 'overwrite their rows']], flag: true },
  { name: 'action.queue.name', suggests: ['queues', 'action.queue.connection'], label: 'Queue', group: 'Action', of: ['enqueue'], required: true, hint: made },
  { name: 'action.queue.connection', suggests: ['connections'], label: 'Queue’s connection', group: 'Action', of: ['enqueue'] },
  { name: 'action.message', exact: true, label: 'Message', group: 'Action', of: ['enqueue'], hint: 'such as {{.PartitionKey}}/{{.RowKey}}; the row as JSON if empty' },
  { name: 'action.map', exact: true, label: 'Map', group: 'Action', of: put, hint: 'a jq program that turns each row into new rows' },
  { name: 'name', label: 'Name', group: 'Action', hint: 'the list of scans can be filtered by name' },
  { name: 'range.prefix', exact: true, label: 'PartitionKey begins with', group: 'Range' },
  { name: 'range.after', exact: true, label: 'PartitionKey after', group: 'Range', hint: 'strictly greater' },
  { name: 'range.before', exact: true, label: 'PartitionKey before', group: 'Range', hint: 'strictly less' },
  { name: 'filter', exact: true, label: 'Filter', group: 'Range', hint: 'OData, such as Total gt 100.0' },
  { name: 'select', label: 'Properties', group: 'Range', of: put, hint: 'separated by commas; all if empty, [] for keys only', list: true },
  { name: 'strategy', label: 'Strategy', group: 'How', of: rows, options: [['', 'adaptive'], ['prefix', 'prefix'], ['serial', 'serial']] },
  { name: 'segmentsPerFirstPrefix', label: 'Queries for the first prefix', group: 'How', of: rows, strategy: ['prefix'], number: true },
  { name: 'segmentsPerSubsequentPrefix', label: 'Queries for other prefixes', group: 'How', of: rows, strategy: ['prefix'], number: true },
  { name: 'segmentSize', label: 'Rows per query', group: 'How', number: true, hint: '1 to 1,000' },
  { name: 'segmentsPerInvocation', label: 'Queries per invocation', group: 'How', number: true, hint: '1 to 24' },
  { name: 'limits.rowsPerSecond', label: 'Rows per second, at most', group: 'How', number: true },
  { name: 'limits.requestsPerSecond', label: 'Requests per second, at most', group: 'How', number: true },
];
const groups = { From: 'Source', Action: 'Action', Range: 'Range and filter', How: 'Advanced: strategy and limits' };

function input(field) {
  const id = `field-${field.name.replaceAll('.', '-')}`;
  const error = h('span', { class: 'error', id: `${id}-error` });
  const properties = { id, name: field.name, 'aria-describedby': `${id}-hint ${id}-error`, 'aria-required': field.required ? 'true' : undefined };
  const list = field.suggests && h('datalist', { id: `${id}-list` });
  const control = field.options
    ? h('select', properties, field.options.map(([value, text]) => h('option', { value }, text)))
    : h('input', { ...properties, inputmode: field.number ? 'numeric' : undefined, list: list?.id });
  const element = h('div', { class: field.required ? 'field required' : 'field' }, h('label', { for: id }, field.label), control, list, h('span', { class: 'hint', id: `${id}-hint` }, field.hint ?? ''), error);
  return { ...field, control, element, error, offers: list };
}

// chosen reports whether a field is shown with the values of the action, from and strategy.
const chosen = (f, by) => ['action.type', 'from', 'strategy'].every((name, i) => {
  const wanted = [f.of, f.from, f.strategy][i];
  return !wanted || wanted.includes(by[name].control.value);
});

// requestOf returns the form's request, without empty fields.
function requestOf(inputs, by) {
  const request = {};
  for (const f of inputs) {
    let value = f.exact ? f.control.value : f.control.value.trim();
    if (value === '' || f.name === 'from' || !chosen(f, by)) continue;
    if (f.number) value = /^\d+$/.test(value) ? Number(value) : value; // for any other value, the app's error explains the mistake
    if (f.flag) value = true;
    if (f.list) value = value === '[]' ? [] : value.split(',').map((name) => name.trim()).filter(Boolean);
    const names = f.name.split('.');
    let at = request;
    for (const name of names.slice(0, -1)) at = at[name] ??= {};
    at[names.at(-1)] = value;
  }
  request.source ??= { table: '' };
  if (request.action.type === 'export') request.action.type = 'copy';
  return request;
}

const size = ({ rows: [n], counted }) => (counted ? (n === 0 ? 'no rows' : plural(n, 'row')) : `at least ${plural(n, 'row')}`);

// threat returns the text about what a deletion deletes, from the estimate.
function threat(request, estimate) {
  const part = partOf({ ...request, strategy: '', limits: undefined });
  return `Delete ${size(estimate)} of ${tableOf(request.source)}${part ? ` (${part})` : ''}. ${part ? '' : 'This is the whole table, because no range or filter is set. '}Deleted rows cannot be restored.`;
}

// estimateText returns the text of an estimate. If the count ran out of time, it contains only some of the rows.
function estimateText(e) {
  const beyond = !e.counted && e.dollarsPerMillion !== undefined && `${money(e.dollarsPerMillion)} for each further million rows`;
  return [size(e), `about ${plural(e.requests, 'request')}`, money(e.dollars), beyond, e.leastSeconds && `at least ${duration(e.leastSeconds)}, because of its limits`, e.creates && 'the destination will be created'].filter(Boolean).join(' · ');
}

// unread returns the text about a scan of many tables, whose rows are not counted beforehand.
const unread = ({ action: { type, destination: to } }) => `Each table has its own scan${type === 'copy' && !to?.container ? ` and is copied to the table of the same name in ${to?.connection ?? ownStorage}` : ''}. Rows are not counted first.`;

// newScan shows the form. The scan starts only after the app has checked the request.
export function newScan(main, { query }) {
  document.title = 'New scan · Tablesweep';
  const inputs = fields.map(input);
  const by = Object.fromEntries(inputs.map((f) => [f.name, f]));
  const type = by['action.type'].control;
  const trouble = h('p', { class: 'banner', role: 'alert', hidden: true });
  const outcome = h('p', { class: 'estimate', role: 'status' });
  const sure = h('input');
  const deletes = h('strong');
  const confirmation = h('div', { class: 'confirmation', hidden: true }, h('p', { id: 'deletes' }, deletes), h('label', { class: 'field' }, 'Type the table’s name to confirm.', sure));
  sure.setAttribute('aria-describedby', 'deletes');
  const check = h('button', { type: 'submit', class: 'primary' }, 'Check and estimate');
  const start = h('button', { hidden: true, onclick: () => begin() }, 'Start the scan');
  const parts = Object.entries(groups).map(([group, title]) => {
    const body = inputs.filter((f) => f.group === group).map((f) => f.element);
    return group === 'How' ? h('details', {}, h('summary', {}, title), h('div', { class: 'fields' }, body)) : h('fieldset', {}, h('legend', {}, title), body);
  });
  const form = h('form', { class: 'new', novalidate: true, onsubmit: (event) => { event.preventDefault(); if (document.activeElement === sure) begin(); else estimate(); }, oninput: (event) => { if (event.target !== sure) changed(); }, onreset: () => setTimeout(() => { clear(); changed(); }) },
    h('div', { class: 'parts' }, parts.slice(0, 3)), parts[3], h('p', { class: 'hint star' }, 'required'), trouble, outcome, confirmation, h('div', { class: 'actions' }, check, start, h('button', { type: 'reset' }, 'Clear'), h('a', { class: 'button', href: '#/scans' }, 'Back')));
  main.append(h('p', { class: 'crumbs' }, h('a', { href: '#/scans' }, 'Scans')), h('h1', {}, 'New scan'), form);
  const address = location.hash, draft = JSON.parse(sessionStorage.getItem(draftPlace) ?? '{}');
  for (const [name, value] of draft.address === address ? Object.entries(draft.values) : query) if (by[name]) by[name].control.value = value;
  const lost = draft.address === address ? [] : [...query.keys()].filter((name) => !by[name]);
  set(trouble, `This form has no field for ${lost.join(', ')}, so the new scan will not have it.`);
  show(trouble, lost.length > 0);
  if (by['action.destination.container'].control.value && type.value === 'copy') type.value = 'export';
  const many = by['source.tables'].control.value && 's';
  if (many || by['source.container'].control.value) by.from.control.value = (by['source.container'].control.value ? 'export' : 'table') + many;
  for (const group of form.querySelectorAll('details')) group.open ||= inputs.some((f) => group.contains(f.control) && f.control.value !== '');
  let checked; // the request that the app has accepted; undefined after a change
  let changes = 0;

  function changed() {
    changes++;
    checked = undefined;
    sure.value = '';
    show(start, false);
    show(confirmation, false);
    set(outcome, '');
    check.classList.add('primary');
    for (const f of inputs) show(f.element, chosen(f, by));
    sessionStorage.setItem(draftPlace, JSON.stringify({ address, values: Object.fromEntries(inputs.map((f) => [f.name, f.control.value])) }));
  }

  // suggest gives a field the app's suggestions. The user may enter other values.
  async function suggest(f) {
    const [what, of] = f.suggests;
    const path = of ? `scans/connections/${encodeURIComponent(by[of].control.value.trim() || ownStorage)}/${what}` : 'scans/connections';
    if (f.suggested === path) return;
    f.suggested = path;
    const names = await call('GET', path).then((answer) => answer[what], () => []);
    if (f.suggested === path) f.offers.replaceChildren(...names.map((value) => h('option', { value })));
  }

  // fieldFor finds the field for an error. The app may name the field's parent, such as action.queue, or a field that this form replaces by another, such as the table.
  const visibly = (f) => f && !f.element.hidden;
  const below = (name) => inputs.find((f) => name && f.name.startsWith(`${name}.`) && visibly(f));
  const fieldFor = (name) => (visibly(by[name]) ? by[name] : below(name) ?? below(name?.replace(/\.\w+$/, '')));

  // blame shows errors beside their fields, and errors without a field above the buttons.
  function blame(error) {
    const rest = [];
    let first;
    for (const { field, detail } of error.fields) {
      const f = fieldFor(field);
      if (!f) {
        rest.push(field ? `${field} ${detail}` : detail);
        continue;
      }
      set(f.error, detail);
      f.control.setAttribute('aria-invalid', 'true');
      const group = f.element.closest('details');
      if (group) group.open = true;
      first ??= f.control;
    }
    if (!error.fields.length) rest.push(messageOf(error));
    set(trouble, rest.join(' '));
    show(trouble, rest.length > 0);
    first?.focus();
  }

  function clear() {
    show(trouble, false);
    for (const f of inputs) {
      set(f.error, '');
      f.control.removeAttribute('aria-invalid');
    }
  }

  async function estimate() {
    clear();
    const request = requestOf(inputs, by);
    check.disabled = true;
    set(outcome, 'Counting …');
    const requested = changes;
    let estimate, wrong;
    try {
      estimate = request.source.tables ? undefined : await call('POST', 'scans/estimate', { body: request });
    } catch (error) {
      wrong = error;
    }
    check.disabled = false;
    if (changes !== requested) return; // the form has changed since this request
    set(outcome, wrong ? '' : estimate ? estimateText(estimate) : unread(request));
    if (wrong) {
      blame(wrong);
      return;
    }
    checked = request;
    const danger = request.action.type === 'delete' && estimate !== undefined;
    if (danger) set(deletes, threat(request, estimate));
    show(confirmation, danger);
    start.className = danger ? 'danger' : 'primary';
    check.classList.remove('primary');
    show(start, true);
    (danger ? sure : start).focus();
  }

  async function begin() {
    if (!checked || start.disabled) return; // the scan is already starting, because the key was pressed twice
    if (checked.action.type === 'delete' && sure.value.trim() !== checked.source.table) {
      set(trouble, 'This is not the name of the table. Nothing was started.');
      show(trouble, true);
      sure.focus();
      return;
    }
    clear();
    start.disabled = true;
    try {
      const { id } = await call('POST', 'scans', { body: checked });
      announce('The scan has started.');
      sessionStorage.removeItem(draftPlace);
      if (form.isConnected) location.hash = `#/scans/${encodeURIComponent(id)}`;
    } catch (error) {
      if (error.status === 0) error.message += ' It may have started the scan. Check the list of scans before you try again.';
      blame(error);
    }
    start.disabled = false;
  }

  for (const f of inputs) if (f.offers) f.control.addEventListener('focus', () => suggest(f));
  changed();
  by['source.table'].control.focus();
  // This call shows a wrong key or an unavailable app before the user fills in the form.
  new Live(async () => { await call('GET', 'scans', { query: { top: 1 } }); }, lookInterval);
}
