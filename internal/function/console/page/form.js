// The form for a new scan: the app checks and estimates the scan, and starts it after a confirmation.
import { h, set, show, money, plural, announce } from './dom.js';
import { Live, call, told } from './api.js';

const lookInterval = 15_000;

// fields are the fields of a request, by name; of lists the actions that take them.
const fields = [
  { name: 'source.table', label: 'Table', required: true },
  { name: 'source.connection', label: 'Connection', hint: 'the name of a setting; the app’s own storage if empty' },
  { name: 'action.type', label: 'Action', options: [['copy', 'copy the rows to a table'], ['count', 'count the rows'], ['keys', 'list the partition keys in a table'], ['enqueue', 'put a message a row into a queue'], ['delete', 'delete the rows']] },
  { name: 'action.destination.table', label: 'Destination table', of: ['copy', 'keys'], required: true, hint: 'it is created if it is missing' },
  { name: 'action.destination.connection', label: 'Destination connection', of: ['copy', 'keys'] },
  { name: 'action.mode', label: 'Rows that exist there', of: ['copy'], options: [['', 'replace'], ['merge', 'merge'], ['skip', 'skip'], ['fail', 'fail']] },
  { name: 'action.queue.name', label: 'Queue', of: ['enqueue'], required: true, hint: 'it is created if it is missing' },
  { name: 'action.queue.connection', label: 'Queue’s connection', of: ['enqueue'] },
  { name: 'action.message', label: 'Message', of: ['enqueue'], hint: 'such as {{.PartitionKey}}/{{.RowKey}}; the row as JSON if empty' },
  { name: 'range.prefix', label: 'PartitionKey begins with', group: 'Range' },
  { name: 'range.after', label: 'PartitionKey after', group: 'Range', hint: 'strictly greater' },
  { name: 'range.before', label: 'PartitionKey before', group: 'Range', hint: 'strictly less' },
  { name: 'filter', label: 'Filter', group: 'Range', hint: 'OData, such as Total gt 100.0' },
  { name: 'select', label: 'Properties', group: 'Range', of: ['copy', 'enqueue'], hint: 'separated by commas; all if empty', list: true },
  { name: 'strategy', label: 'Strategy', group: 'How', of: ['copy', 'count', 'enqueue', 'delete'], options: [['', 'adaptive'], ['prefix', 'prefix'], ['serial', 'serial']] },
  { name: 'segmentSize', label: 'Rows a query', group: 'How', number: true, hint: '1 to 1,000' },
  { name: 'segmentsPerInvocation', label: 'Queries an invocation', group: 'How', number: true, hint: '1 to 24' },
];

function input(field) {
  const id = `field-${field.name.replaceAll('.', '-')}`;
  const error = h('span', { class: 'error', id: `${id}-error` });
  const properties = { id, name: field.name, 'aria-describedby': `${id}-hint ${id}-error`, 'aria-required': field.required ? 'true' : undefined };
  const control = field.options
    ? h('select', properties, field.options.map(([value, text]) => h('option', { value }, text)))
    : h('input', { ...properties, type: 'text', inputmode: field.number ? 'numeric' : undefined, autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false' });
  const element = h('div', { class: 'field' }, h('label', { for: id }, field.label), control, h('span', { class: 'hint', id: `${id}-hint` }, field.hint ?? ''), error);
  return { ...field, control, element, error };
}

// requestOf returns the form's request, without empty fields.
function requestOf(inputs, type) {
  const request = {};
  for (const f of inputs) {
    if (f.control.value === '' || (f.of && !f.of.includes(type))) continue;
    let value = f.control.value;
    if (f.number) value = /^\d+$/.test(value.trim()) ? Number(value) : value; // the app explains what is wrong with anything else
    if (f.list) value = value.split(',').map((name) => name.trim()).filter(Boolean);
    const names = f.name.split('.');
    let at = request;
    for (const name of names.slice(0, -1)) at = at[name] ??= {};
    at[names.at(-1)] = value;
  }
  request.source ??= { table: '' };
  return request;
}

// words tells what an estimate knows: a count that ran out of time has met some of the rows.
function words(e) {
  const [n] = e.rows;
  const rows = e.counted ? (n === 0 ? 'no rows' : plural(n, 'row')) : `at least ${plural(n, 'row')}`;
  const beyond = !e.counted && e.dollarsPerMillion !== undefined && `${money(e.dollarsPerMillion)} for each million beyond`;
  return [rows, `about ${plural(e.requests, 'request')}`, money(e.dollars), beyond, e.creates && 'what it writes to is created'].filter(Boolean).join(' · ');
}

// newScan shows the form. It starts nothing before the app has checked the request.
export function newScan(main, { query }) {
  document.title = 'New scan · Tablesweep';
  const inputs = fields.map(input);
  const by = Object.fromEntries(inputs.map((f) => [f.name, f]));
  const type = by['action.type'].control;
  const trouble = h('p', { class: 'banner', role: 'alert', hidden: true });
  const outcome = h('p', { class: 'estimate', role: 'status' });
  const sure = h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false' });
  const confirmation = h('label', { class: 'field', hidden: true }, 'This deletes rows for good. Type the table’s name to go on.', sure);
  const check = h('button', { type: 'submit', class: 'primary' }, 'Check and estimate');
  const start = h('button', { type: 'button', hidden: true, onclick: () => begin() }, 'Start the scan');
  const groups = ['', 'Range', 'How'].map((name) => {
    const body = inputs.filter((f) => (f.group ?? '') === name).map((f) => f.element);
    return name ? h('details', { open: name === 'Range' && query.size > 0 }, h('summary', {}, name === 'Range' ? 'Which rows' : 'How it is split'), h('div', { class: 'fields' }, body)) : h('div', { class: 'fields' }, body);
  });
  const form = h('form', { class: 'new', novalidate: true, onsubmit: (event) => { event.preventDefault(); if (document.activeElement === sure) begin(); else estimate(); }, oninput: (event) => { if (event.target !== sure) changed(); } },
    groups, trouble, outcome, confirmation, h('div', { class: 'actions' }, check, start, h('a', { class: 'button', href: '#/scans' }, 'Back')));
  main.append(h('p', { class: 'crumbs' }, h('a', { href: '#/scans' }, 'Scans')), h('h1', {}, 'New scan'), form);
  for (const [name, value] of query) if (by[name]) by[name].control.value = value;
  let checked; // the request that the app has accepted, if it has not changed since
  let changes = 0;

  function changed() {
    changes++;
    checked = undefined;
    sure.value = '';
    show(start, false);
    show(confirmation, false);
    set(outcome, '');
    check.classList.add('primary');
    for (const f of inputs) show(f.element, !f.of || f.of.includes(type.value));
  }

  // fieldFor finds the field of an error: the app may name its parent, such as action.queue.
  const fieldFor = (name) => by[name] ?? inputs.find((f) => name && f.name.startsWith(`${name}.`) && !f.element.hidden);

  // blame shows errors beside their fields, and the others above the buttons.
  function blame(error) {
    const rest = [];
    let first;
    for (const { field, detail } of error.fields) {
      const f = fieldFor(field);
      if (!f || f.element.hidden) {
        rest.push(field ? `${field} ${detail}` : detail);
        continue;
      }
      set(f.error, detail);
      f.control.setAttribute('aria-invalid', 'true');
      const group = f.element.closest('details');
      if (group) group.open = true;
      first ??= f.control;
    }
    if (!error.fields.length) rest.push(told(error));
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
    const request = requestOf(inputs, type.value);
    check.disabled = true;
    set(outcome, 'Counting …');
    const asked = changes;
    let answer, wrong;
    try {
      answer = words(await call('POST', 'scans/estimate', { body: request }));
    } catch (error) {
      wrong = error;
    }
    check.disabled = false;
    if (changes !== asked) return; // the form has changed since this request
    set(outcome, answer);
    if (wrong) {
      blame(wrong);
      return;
    }
    checked = request;
    const deletes = request.action.type === 'delete';
    show(confirmation, deletes);
    start.className = deletes ? 'danger' : 'primary';
    check.classList.remove('primary');
    show(start, true);
    (deletes ? sure : start).focus();
  }

  async function begin() {
    if (!checked || start.disabled) return; // it is starting already: somebody pressed the key twice
    if (checked.action.type === 'delete' && sure.value !== checked.source.table) {
      set(trouble, 'The name of the table is another one. Nothing was started.');
      show(trouble, true);
      sure.focus();
      return;
    }
    clear();
    start.disabled = true;
    try {
      const { id } = await call('POST', 'scans', { body: checked });
      announce('The scan is started.');
      if (form.isConnected) location.hash = `#/scans/${encodeURIComponent(id)}`;
    } catch (error) {
      if (error.status === 0) error.message += ' It may have started the scan all the same: look at the list before you try again.';
      blame(error);
    }
    start.disabled = false;
  }

  changed();
  by['source.table'].control.focus();
  // This shows a wrong key before the form is filled in, and an app that is away before it is sent.
  new Live(async () => { await call('GET', 'scans', { query: { top: 1 } }); }, lookInterval);
}
