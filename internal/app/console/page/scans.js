// The list of scans.
import { h, set, show, arrange, count, rate, percent, duration, moment, plural, when, zoneOf, announce } from './dom.js';
import { Live, call } from './api.js';
import { quoted, rename, shorten, visible } from './names.js';

const busyInterval = 3000, idleInterval = 10_000;
const top = 50;
export const ownStorage = 'AzureWebJobsStorage'; // the connection of a request that does not name one

// tableOf returns the name of a table, or of the export in a container, with its connection unless from has the same connection.
export function tableOf(ref, from) {
  const place = ref?.container ? `blob:${ref.container}/${ref.prefix ?? ''}${ref.tables ? ` tables ${ref.tables}` : ''}` : ref?.table ?? ref?.tables ?? (ref ? '*' : '?');
  return quoted(ref?.connection && ref.connection !== from?.connection ? `${ref.connection}:${place}` : place);
}

// partOf returns a text about the part of the table that a scan reads, its strategy and its limits. The filter has at most most characters.
export function partOf({ range, filter, select, strategy, action, limits }, most = 400) {
  const bound = (text, key) => key && `${text} ${quoted(key)}`;
  const [head, left, tail] = shorten(filter ?? '', most);
  return [bound('prefix', range?.prefix), bound('after', range?.after), bound('before', range?.before), filter && `where ${head}${left ? ` … ${tail}` : ''}`,
    select && (select.length ? `properties ${select.map(quoted).join(', ')}` : 'keys only'), action?.map && 'mapped', strategy && `strategy ${strategy}`,
    ...['row', 'request'].map((of) => limits?.[`${of}sPerSecond`] && `at most ${plural(limits[`${of}sPerSecond`], of)} per second`)].filter(Boolean).join(', ');
}

// titleOf describes a scan in one line. A scan of a part of a table has another description than a scan of the whole table.
export function titleOf(s) {
  const { action, source } = s;
  const from = tableOf(source), part = partOf(s, 60);
  const of = part ? `${from} (${part})` : from;
  switch (action?.type) {
    case 'copy': return `copy ${of} → ${tableOf(action.destination, source)}`;
    case 'keys': return `keys of ${of} → ${tableOf(action.destination, source)}`;
    case 'enqueue': return `enqueue ${of} → ${quoted(action.queue?.name ?? '?')}`;
    case 'verify': return `verify ${of} against ${tableOf(action.destination, source)}`;
    default: return `${action?.type ?? '?'} ${of}`;
  }
}

// stateBadge shows a state as a word, and as a sign for users who cannot distinguish the colours.
export function stateBadge() {
  const element = h('span', { class: 'badge' });
  return {
    element,
    update({ state, phase, leased }) {
      if (state !== 'running') phase = leased?.steps ? `${plural(leased.steps, 'step')} still running` : undefined;
      set(element, phase && phase !== 'working' ? `${state}: ${phase}` : state);
      element.dataset.state = state;
      element.dataset.phase = phase ?? '';
    },
  };
}

// progressBar shows the share of the work that is done. It is hidden if the share is unknown, because it would look like 0 %.
export function progressBar(label) {
  const bar = h('progress', { max: 1, 'aria-label': label });
  const text = h('span', { class: 'share' });
  const element = h('span', { class: 'progress', hidden: true }, bar, text);
  return {
    element,
    update(s) {
      const share = s.state === 'running' ? s.progress : undefined;
      show(element, share !== undefined);
      if (share === undefined) return;
      bar.value = share;
      set(text, percent(share));
    },
  };
}

// causeText returns why a running scan waits or is throttled, and since when, or what an ended scan may still do. It returns "" if there is no such cause. The text comes from the app.
export function causeText({ cause, phase, leased }) {
  if (!cause) return '';
  const since = (phase && leased?.waiting || []).map((w) => w.since).sort()[0];
  return visible(cause) + (since ? `, since ${when(since)}` : '');
}

const verdicts = { running: ['', 'is being verified'], succeeded: ['', 'verified'], failed: ['bad', 'verification failed'], canceled: ['warn', 'verification canceled'] };

// verdict returns an element with the result of a copy's verification, after a given text.
export function verdict(before = '') {
  const element = h('span');
  let shown;
  return {
    element,
    update({ verification: v }) {
      const is = JSON.stringify(v);
      if (shown === is) return;
      shown = is;
      const [kind, text] = verdicts[v?.state] ?? (v?.error ? ['bad', 'not verified'] : ['', 'verification starts soon']);
      if (v) element.replaceChildren(before, h('a', { class: kind, href: `#/scans/${encodeURIComponent(v.id)}` }, text), v.error ? `: ${visible(v.error)}` : '');
    },
  };
}

export function scanRow(id) {
  const badge = stateBadge(), bar = progressBar('progress');
  const title = h('a', { href: `#/scans/${encodeURIComponent(id)}` });
  const name = h('span'), failed = h('span', { class: 'bad' }), verified = verdict(), cause = h('span', { class: 'sub warn' });
  // Each cell has two lines: a number, and details of it.
  const cell = (label, kind) => {
    const [first, second] = [h('span'), h('span', { class: 'sub' })];
    return { element: h('td', { class: `number ${kind}`, 'data-name': label }, first, ' ', second), update(a, b) { set(first, a); set(second, b); } };
  };
  const rows = cell('Rows', 'rows'), steps = cell('Steps', 'steps'), time = h('span', { class: 'sub' });
  const started = h('td', { class: 'started', 'data-name': 'Started' });
  const element = h('tr', {}, h('td', { class: 'wide' }, title, h('span', { class: 'sub parts' }, name, failed, verified.element), cause), h('td', { class: 'state' }, badge.element), h('td', { class: 'doing' }, bar.element, time), rows.element, steps.element, started);
  return {
    element,
    update(s) {
      const running = s.state === 'running';
      badge.update(s);
      bar.update(s);
      if (s.name) rename(name, s.name);
      set(title, titleOf(s));
      set(failed, s.rows?.failed ? plural(s.rows.failed, 'failed row') : '');
      set(cause, causeText(s));
      verified.update(s);
      set(time, !running ? `took ${duration(s.seconds)}` : s.secondsLeft === undefined ? `for ${duration(s.seconds)}` : `${duration(s.secondsLeft)} left`);
      rows.update(count(s.rows?.scanned), running && s.rate !== undefined ? `${rate(s.rate)}/s` : '');
      steps.update(count(s.steps?.done), s.steps?.pending ? `${count(s.steps.pending)} pending` : '');
      if (!started.firstChild) started.append(moment(s.startedAt));
    },
  };
}

// scanHead returns the head of a table of scans.
export const scanHead = (first) => h('thead', {}, h('tr', {}, [first, 'State', 'Progress'].map((name) => h('th', { scope: 'col' }, name)),
  ['Rows', 'Steps'].map((name) => h('th', { scope: 'col', class: `number ${name.toLowerCase()}` }, name)), h('th', { scope: 'col' }, `Started, ${zoneOf(new Date())}`)));

const filters = [
  { name: 'state', label: 'State', options: ['running', 'succeeded', 'failed', 'canceled'] },
  { name: 'action', label: 'Action', options: ['copy', 'count', 'keys', 'enqueue', 'delete', 'verify'] },
  { name: 'table', label: 'Table' },
  { name: 'name', label: 'Name' },
  { name: 'since', label: 'Since', hint: '2h, 2026-11-20' },
];

// listScans shows the open scans and the newest other scans, and refreshes them with one call each time. The address contains the filters.
export function listScans(main, { query }) {
  document.title = 'Scans · Tablesweep';
  const body = h('tbody');
  const table = h('table', { class: 'cards', hidden: true }, h('caption', { class: 'unseen' }, 'Scans: open ones first, then the newest'), scanHead('Scan'), body);
  const empty = h('p', { class: 'empty' }, 'Loading …');
  const offer = h('a', { class: 'button', hidden: true, href: '#/scans/new' }, 'Start one');
  const nothing = h('div', { class: 'nothing' }, empty, offer);
  const trouble = h('p', { class: 'banner', role: 'alert', hidden: true });
  const inputs = filters.map((f) => {
    const properties = { id: `filter-${f.name}`, name: f.name, onchange: () => go() };
    const control = f.options ? h('select', properties, h('option', { value: '' }, 'any'), f.options.map((o) => h('option', { value: o }, o)))
      : h('input', { ...properties, placeholder: f.hint });
    return { ...f, control, element: h('div', { class: 'field' }, h('label', { for: properties.id }, f.label), control) };
  });
  const form = h('form', { class: 'filters', 'aria-label': 'Filters', onsubmit: (event) => { event.preventDefault(); go(); } }, inputs.map((f) => f.element),
    h('button', { type: 'submit' }, 'Filter'), h('a', { href: '#/scans', class: 'button' }, 'All'));
  const next = h('a', { class: 'button', hidden: true }, 'Older scans'), newest = h('a', { class: 'button', hidden: true }, 'Newest scans');
  main.append(h('div', { class: 'title' }, h('h1', {}, 'Scans'), h('a', { class: 'button primary', href: '#/scans/new' }, 'New scan')), form, trouble, nothing, table, h('div', { class: 'actions' }, newest, next));
  let rows = new Map(), states = new Map(); // rows and states by the scans' ids
  const addressOf = (values) => { const to = new URLSearchParams(Object.entries(values).filter(([, v]) => v)); return to.size ? `#/scans?${to}` : '#/scans'; };
  const go = () => { location.hash = addressOf(Object.fromEntries(inputs.map((f) => [f.name, f.control.value.trim()]))); };
  const take = (to) => {
    query = to;
    for (const f of inputs) f.control.value = query.get(f.name) ?? '';
  };
  take(query);
  const live = new Live(async () => {
    const requested = query, wanted = Object.fromEntries(query);
    let answer = { scans: [] };
    show(trouble, false);
    try {
      answer = await call('GET', 'scans', { query: { ...wanted, top } });
    } catch (error) {
      if (error.status !== 400) throw error;
      set(trouble, error.fields.map(({ field = '', detail }) => `${field} ${detail}`.trim()).join(' ') || error.message);
      show(trouble, true);
    }
    if (requested !== query) return undefined; // another run follows
    const { cursor } = answer, verifications = new Set(answer.scans.map((s) => s.verification?.id));
    const scans = answer.scans.filter((s) => !verifications.has(s.id)); // a copy's row shows its verification
    rows = new Map(scans.map((s) => [s.id, rows.get(s.id) ?? scanRow(s.id)]));
    for (const s of scans) {
      rows.get(s.id).update(s);
      if (states.get(s.id) === 'running' && s.state !== 'running') announce(`${titleOf(s)}: ${s.state}`);
    }
    states = new Map(scans.map((s) => [s.id, s.state]));
    arrange(body, [...rows.values()].map((row) => row.element));
    set(empty, cursor ? 'No match so far. Older scans have not been searched yet.' : query.size ? 'No scan matches.' : 'No scan yet. A scan copies, counts, deletes or enqueues the rows of a table.');
    offer.href = query.size ? '#/scans' : '#/scans/new';
    set(offer, query.size ? 'Show all scans' : 'Start one');
    show(offer, true);
    show(nothing, !scans.length && trouble.hidden);
    show(table, Boolean(scans.length));
    show(next, Boolean(cursor));
    if (cursor) next.href = addressOf({ ...wanted, cursor });
    show(newest, query.has('cursor'));
    newest.href = addressOf({ ...wanted, cursor: '' });
    return scans.some((s) => s.state === 'running') ? busyInterval : idleInterval;
  }, busyInterval);
  return (at) => {
    if (at.query.get('cursor') !== query.get('cursor')) { // another page, which starts at the top
      window.scrollTo(0, 0);
      main.focus({ preventScroll: true });
    }
    take(at.query);
    live.now();
    return true;
  };
}
