// The list of scans.
import { h, set, show, arrange, count, rate, percent, duration, moment, plural, announce } from './dom.js';
import { Live, call } from './api.js';

const busyInterval = 3000, idleInterval = 10_000;
const top = 50;

const place = (table, from) => (table?.connection && table.connection !== from?.connection ? `${table.connection}:${table.table}` : table?.table ?? '?');

// titleOf describes a scan in one line.
export function titleOf({ action, source }) {
  const from = place(source);
  switch (action?.type) {
    case 'copy': return `copy ${from} → ${place(action.destination, source)}`;
    case 'keys': return `keys of ${from} → ${place(action.destination, source)}`;
    case 'enqueue': return `enqueue ${from} → ${action.queue?.name ?? '?'}`;
    default: return `${action?.type ?? '?'} ${from}`;
  }
}

// stateBadge shows a state as a word, and as a sign for people who can't see the colours.
export function stateBadge() {
  const element = h('span', { class: 'badge' });
  return {
    element,
    update(state, phase) {
      if (state !== 'running') phase = undefined;
      set(element, phase && phase !== 'working' ? `${state}: ${phase}` : state);
      element.dataset.state = state;
      element.dataset.phase = phase ?? '';
    },
  };
}

// progressBar shows the share done, if it is known.
export function progressBar(label) {
  const bar = h('progress', { max: 1, 'aria-label': label });
  const text = h('span', { class: 'share' });
  return {
    element: h('span', { class: 'progress' }, bar, text),
    update(s) {
      const share = s.state === 'succeeded' ? 1 : s.progress;
      bar.dataset.state = s.state;
      if (share !== undefined) bar.value = share;
      else if (s.state === 'running') bar.removeAttribute('value');
      else bar.value = 0;
      set(text, s.state === 'running' ? (share === undefined ? '' : percent(share)) : '');
      show(bar, s.state === 'running');
    },
  };
}

// leftText returns the time left, or the duration of an ended scan.
export function leftText(s) {
  if (s.state !== 'running') return `took ${duration(s.seconds)}`;
  return s.secondsLeft === undefined ? '' : `${duration(s.secondsLeft)} left`;
}

function scanRow(id) {
  const badge = stateBadge(), bar = progressBar('progress');
  const cells = { rows: h('td', { class: 'number', 'data-name': 'Rows' }), rate: h('td', { class: 'number', 'data-name': 'Rows a second' }), steps: h('td', { class: 'number', 'data-name': 'Steps' }), left: h('span', { class: 'left' }) };
  const title = h('a', { href: `#/scans/${encodeURIComponent(id)}` });
  const started = h('td', { 'data-name': 'Started' });
  const failed = h('span', { class: 'bad' });
  const element = h('tr', {}, h('td', { class: 'wide' }, title, failed), h('td', {}, badge.element), h('td', { class: 'doing' }, bar.element, cells.left), cells.rows, cells.rate, cells.steps, started);
  return {
    element,
    update(s) {
      badge.update(s.state, s.phase);
      bar.update(s);
      set(title, titleOf(s));
      set(cells.rows, count(s.rows?.scanned));
      set(cells.rate, s.state === 'running' ? rate(s.rate) : '');
      set(cells.steps, s.state === 'running' ? `${count(s.steps?.done)}, ${count(s.steps?.pending)} pending` : count(s.steps?.done));
      set(cells.left, leftText(s));
      set(failed, s.rows?.failed ? ` ${plural(s.rows.failed, 'failed row')}` : '');
      if (!started.firstChild) started.append(moment(s.startedAt));
      started.firstChild.title = s.id;
    },
  };
}

// listScans shows the newest scans, and refreshes them with one call a turn.
export function listScans(main) {
  document.title = 'Scans · Tablesweep';
  const body = h('tbody');
  const head = h('thead', {}, h('tr', {}, ['Scan', 'State', 'Progress'].map((name) => h('th', { scope: 'col' }, name)),
    ['Rows', 'Rows/s', 'Steps'].map((name) => h('th', { scope: 'col', class: 'number' }, name)), h('th', { scope: 'col' }, 'Started')));
  const table = h('table', { class: 'cards', hidden: true }, h('caption', { class: 'unseen' }, 'The newest scans'), head, body);
  const empty = h('p', { class: 'empty' }, 'Loading …');
  main.append(h('div', { class: 'title' }, h('h1', {}, 'Scans'), h('a', { class: 'button primary', href: '#/scans/new' }, 'New scan')), empty, table);
  let rows = new Map(), states = new Map(); // by the scans' ids
  new Live(async () => {
    const { scans } = await call('GET', 'scans', { query: { top } });
    rows = new Map(scans.map((s) => [s.id, rows.get(s.id) ?? scanRow(s.id)]));
    for (const s of scans) {
      rows.get(s.id).update(s);
      if (states.get(s.id) === 'running' && s.state !== 'running') announce(`${titleOf(s)}: ${s.state}`);
    }
    states = new Map(scans.map((s) => [s.id, s.state]));
    arrange(body, [...rows.values()].map((row) => row.element));
    set(empty, scans.length ? '' : 'No scan yet. Start one: a scan copies, counts, deletes or enqueues the rows of a table.');
    show(empty, !scans.length);
    show(table, Boolean(scans.length));
    return scans.some((s) => s.state === 'running') ? busyInterval : idleInterval;
  }, busyInterval);
}
