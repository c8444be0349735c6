// A scan's page.
import { h, set, show, count, rate, percent, money, duration, time, when, plural, quoted, announce } from './dom.js';
import { Live, call, told } from './api.js';
import { TimeChart, Strip } from './chart.js';
import { titleOf, stateBadge, progressBar } from './scans.js';

const statusInterval = 2000, endedInterval = 30_000;
const detailInterval = 15_000; // the app keeps a timeline and ranges for as long
const lateInterval = 5000;
const failedTop = 50, moreFailed = 500, failedInterval = 5000;

// figure is a number with a label and a note.
function figure(name) {
  const value = h('dd'), remark = h('dd', { class: 'remark' });
  return {
    element: h('div', {}, h('dt', {}, name), value, remark),
    update(text, more = '') {
      set(value, text);
      set(remark, more);
    },
  };
}

// ask shows a question, and resolves to true if the answer is yes.
function ask(title, text, yes, danger) {
  return new Promise((resolve) => {
    const dialog = h('dialog', { 'aria-labelledby': 'ask-title' }, h('h2', { id: 'ask-title' }, title), h('p', {}, text),
      h('div', { class: 'actions' }, h('button', { type: 'button', class: danger ? 'danger' : 'primary', onclick: () => dialog.close('yes') }, yes),
        h('button', { type: 'button', autofocus: true, onclick: () => dialog.close() }, 'No, leave it')));
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(dialog.returnValue === 'yes');
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// figures are the numbers at the top.
function figures() {
  const all = { rows: figure('Rows read'), written: figure('Rows written'), rate: figure('Rows a second'), left: figure('Time'), steps: figure('Steps'), requests: figure('Requests'), cost: figure('Cost') };
  return {
    element: h('dl', { class: 'figures' }, Object.values(all).map((f) => f.element)),
    update(s) {
      const running = s.state === 'running';
      all.rows.update(count(s.rows.scanned), running && s.progress !== undefined ? `about ${percent(s.progress)} of them` : '');
      show(all.written.element, s.action?.type !== 'count');
      all.written.update(count(s.rows.written), s.rows.failed ? `${count(s.rows.failed)} failed` : '');
      all.rate.update(running ? rate(s.rate) : rate(s.seconds > 0 ? s.rows.scanned / s.seconds : undefined), running ? 'over the last minute' : 'on average');
      all.left.update(duration(s.seconds), running ? (s.secondsLeft === undefined ? 'time left not known' : `about ${duration(s.secondsLeft)} left`) : s.finishedAt ? `ended ${when(s.finishedAt)}` : '');
      all.steps.update(count(s.steps.done), [s.steps.pending && `${count(s.steps.pending)} pending`, s.leased && `${count(s.leased.steps)} in hand`].filter(Boolean).join(', '));
      all.requests.update(count(s.transactions), [plural(s.queries, 'query', 'queries'), s.throttled && `${count(s.throttled)} throttled`].filter(Boolean).join(', '));
      show(all.cost.element, Boolean(s.cost));
      if (s.cost) all.cost.update(money(s.cost.dollars), plural(s.cost.requests, 'paid request'));
    },
  };
}

// failedRows lists rows that could not be written, page by page, on demand.
function failedRows(id) {
  const body = h('tbody');
  const note = h('p', { class: 'hint' });
  const more = h('button', { type: 'button', hidden: true, onclick: () => { readsOn = true; load(true); } }, 'Show more');
  const table = h('table', {}, h('caption', { class: 'unseen' }, 'Failed rows'), h('thead', {}, h('tr', {}, ['PartitionKey', 'RowKey', 'Reason'].map((name) => h('th', { scope: 'col' }, name)))), body);
  const element = h('section', { hidden: true }, h('h2', {}, 'Failed rows'), note, h('div', { class: 'scroll', tabindex: 0 }, table), more);
  let cursor = '', total = -1, asked = 0, readsOn = false;
  let last = Promise.resolve(); // pages are read one after the other
  const load = (goesOn) => { last = last.then(() => read(goesOn)); };
  async function read(goesOn) {
    const from = goesOn ? cursor : '';
    if (goesOn && !from) return; // the page before was the last one
    try {
      const page = await call('GET', `scans/${encodeURIComponent(id)}/failed`, { query: { top: from ? moreFailed : failedTop, cursor: from } });
      if (!from) body.replaceChildren();
      body.append(...page.rows.map((r) => h('tr', {}, h('td', { class: 'key' }, r.partitionKey), h('td', { class: 'key' }, r.rowKey), h('td', {}, r.reason))));
      cursor = page.cursor ?? '';
      show(more, Boolean(cursor));
      const kept = page.kept < page.total ? ` Of them, ${count(page.kept)} were kept to be shown.` : '';
      set(note, `${plural(page.total, 'row')} could not be written.${kept}`);
      total = page.total; // it may be up to 15 s old: then this asks again
    } catch (error) {
      set(note, told(error));
    }
  }
  return {
    element,
    update(failed) {
      show(element, failed > 0);
      if (!failed || failed === total || readsOn) return; // never takes a reader back to the first page
      if (Date.now() - asked < failedInterval) return;
      asked = Date.now();
      load(false);
    },
  };
}

// detail shows the ranges and the timeline, which may be older than the figures.
function detail(id) {
  const strip = new Strip();
  const rows = new TimeChart('Rows a second', ['rows/s']);
  const requests = new TimeChart('Requests a second', ['requests/s', 'throttled/s']);
  const asOf = h('span', { class: 'hint' });
  const note = h('p', { class: 'hint', hidden: true });
  const element = h('div', {}, h('section', {}, h('div', { class: 'title' }, h('h2', {}, 'Key space'), asOf), note, strip.element),
    h('section', { class: 'charts' }, rows.element, requests.element));
  let read = 0, changed = 0, state;
  async function load(s) {
    const path = `scans/${encodeURIComponent(id)}`;
    const [ranges, timeline] = await Promise.all([call('GET', `${path}/ranges`), call('GET', `${path}/timeline`)]);
    const running = s.state === 'running';
    strip.update(ranges.ranges, running ? s.progress : undefined);
    set(note, 'There are too many pending steps to show them all: some ranges that count as done are pending.');
    show(note, Boolean(ranges.sampled));
    const at = Math.min(Date.parse(ranges.at), Date.parse(timeline.at)); // two instances may have answered
    const points = pointsOf(timeline, Date.parse(s.startedAt), running ? Date.parse(timeline.at) : Date.parse(s.finishedAt));
    rows.update(points((p) => [p.rows]), running ? at : undefined);
    requests.update(points((p) => [p.requests, p.throttled]), running ? at : undefined);
    set(asOf, `as of ${time(at)}`);
  }
  return {
    element,
    // update reads again if the shown detail is old, or the scan has ended. It returns true if nothing can change any more:
    // the scan has ended, and no instance can still have a cached answer from before its last step.
    async update(s) {
      const now = Date.now();
      const is = s.state === 'running' ? s.state : `${s.state} ${s.steps.done}`; // steps under way end after a cancellation
      const other = is !== state;
      if (other) [state, changed] = [is, now];
      const final = () => s.state !== 'running' && read >= changed + detailInterval;
      if (!final() && (other || now - read >= (s.state === 'running' ? detailInterval : lateInterval))) {
        await load(s);
        read = now;
      }
      return final();
    },
  };
}

// pointsOf returns the rates of a timeline. The first interval starts with the scan, and the last one ends with it, or now:
// with whole intervals, their rates would be too low.
function pointsOf({ points, interval }, began, ended) {
  const inside = (at, from, to) => (at >= from && at < to ? at : undefined);
  const spans = points.map((p) => ({ p, from: Date.parse(p.at), to: Date.parse(p.at) + 1000 * interval }));
  const first = spans[0], last = spans.at(-1);
  if (first) first.from = Math.min(inside(began, first.from, first.to) ?? first.from, first.to - 1000);
  if (last) last.to = Math.max(inside(ended, last.from, last.to) ?? last.to, last.from + 1000);
  return (of) => spans.map(({ p, from, to }) => ({ from, to, values: of(p).map((n) => (1000 * n) / (to - from)) }));
}

// part returns the part of the table that a scan reads, and how, in words.
function part({ range, filter, select, strategy }) {
  const bound = (text, key) => key && `${text} ${quoted(key)}`;
  return [bound('keys that start with', range?.prefix), bound('keys after', range?.after), bound('keys before', range?.before), bound('where', filter),
    select && (select.length ? `properties ${select.map(quoted).join(', ')}` : 'keys alone'), strategy && `strategy ${strategy}`].filter(Boolean).join(', ');
}

// showScan shows one scan, and the actions on it.
export function showScan(main, { path }) {
  const id = path[1];
  const address = `scans/${encodeURIComponent(id)}`;
  const badge = stateBadge(), bar = progressBar('progress of the scan');
  const title = h('h1', {}, 'Scan');
  const stop = h('button', { type: 'button', hidden: true, onclick: () => act('DELETE', address, 'Cancel this scan?', 'Steps under way end; the others are kept, so that the scan can go on later.', 'Cancel the scan', true) }, 'Cancel …');
  const retry = h('button', { type: 'button', hidden: true, onclick: () => act('POST', `${address}/retry`, 'Go on with this scan?', 'It goes on with the steps that are kept. Rows that were done are not done again.', 'Go on') }, 'Retry …');
  const failure = h('p', { class: 'banner', hidden: true });
  const acted = h('p', { class: 'banner', role: 'alert', hidden: true });
  const numbers = figures(), failed = failedRows(id), more = detail(id);
  const about = h('p', { class: 'about' }, h('span', { class: 'key' }, id));
  main.append(h('p', { class: 'crumbs' }, h('a', { href: '#/scans' }, 'Scans')), h('div', { class: 'title' }, title, badge.element, h('span', { class: 'grow' }), stop, retry), about, failure, acted, bar.element, numbers.element, more.element, failed.element);
  let state;

  async function act(method, to, question, text, yes, danger) {
    if (!(await ask(question, text, yes, danger))) return;
    show(acted, false);
    try {
      await call(method, to);
    } catch (error) {
      set(acted, told(error));
      show(acted, true);
    }
    live.now();
  }

  function update(s) {
    const name = titleOf(s);
    document.title = `${s.state === 'running' ? (s.progress === undefined ? '' : `${percent(s.progress)} · `) : `${s.state} · `}${name} · Tablesweep`;
    set(title, name);
    if (!about.dataset.known) {
      about.dataset.known = 'yes';
      const account = (ref) => (ref?.connection ? ` (${ref.connection})` : '');
      about.append(` · started ${when(s.startedAt)} · from ${s.source?.table ?? ''}${account(s.source)}`, s.action?.destination ? ` to ${s.action.destination.table}${account(s.action.destination)}, ${s.action.mode ?? 'replace'}` : '', part(s) && ` · ${part(s)}`);
    }
    badge.update(s.state, s.phase);
    bar.update(s);
    show(bar.element, s.state === 'running');
    numbers.update(s);
    set(failure, s.error ?? '');
    show(failure, Boolean(s.error));
    show(stop, s.state === 'running');
    show(retry, s.state === 'canceled' || (s.state === 'failed' && (s.steps.pending > 0 || !s.rows.failed))); // the same rule as the app's
    failed.update(s.rows?.failed ?? 0);
    if (state && state !== s.state) announce(`${name}: ${s.state}`);
    state = s.state;
  }

  const live = new Live(async () => {
    const s = await call('GET', address);
    update(s);
    const final = await more.update(s);
    return s.state !== 'running' && final ? endedInterval : statusInterval;
  }, statusInterval);
}
