// A scan's page.
import { h, set, show, count, rate, percent, money, duration, time, both, moment, nothing, plural, announce } from './dom.js';
import { Live, call, messageOf, untilAsked } from './api.js';
import { TimeChart, Strip } from './chart.js';
import { failedRows } from './failed.js';
import { members } from './members.js';
import { copy, json, name, quoted, visible } from './names.js';
import { causeText, titleOf, tableOf, partOf, ownStorage, stateBadge, progressBar, verdict } from './scans.js';

const statusInterval = 2000, endedInterval = 30_000;
const detailInterval = 15_000; // the app keeps timelines and ranges for this time
const lateInterval = 5000;

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

// confirmed shows a question, and resolves to true if the user answers yes.
function confirmed(title, text, yes, danger) {
  return new Promise((resolve) => {
    const dialog = h('dialog', { 'aria-labelledby': 'question-title' }, h('h2', { id: 'question-title' }, title), h('p', {}, text),
      h('div', { class: 'actions' }, h('button', { class: danger ? 'danger' : 'primary', onclick: () => dialog.close('yes') }, yes),
        h('button', { autofocus: true, onclick: () => dialog.close() }, 'No, leave it')));
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(dialog.returnValue === 'yes');
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// figures are the numbers at the top. The most important ones are large.
function figures() {
  const large = { rows: figure('Rows read'), took: figure('Time'), share: figure('Progress'), left: figure('Time left') }; // figures that are not always shown come last
  const small = { written: figure('Rows written'), rate: figure('Rows per second'), steps: figure('Steps'), instances: figure('Instances'), requests: figure('Requests'), cost: figure('Cost') };
  const all = { ...large, ...small };
  const list = (kind, some) => h('dl', { class: `figures ${kind}` }, Object.values(some).map((f) => f.element));
  return {
    element: h('div', { class: 'numbers' }, list('large', large), list('small', small)),
    update(s) {
      const running = s.state === 'running', { leased } = s;
      all.rows.update(count(s.rows.scanned), s.rows.failed ? `${count(s.rows.failed)} failed` : '');
      show(all.share.element, running && s.progress !== undefined);
      show(all.left.element, running && s.secondsLeft !== undefined);
      all.share.update(percent(s.progress), 'estimated');
      all.left.update(duration(s.secondsLeft), 'estimated');
      show(all.written.element, s.action?.type !== 'count');
      all.written.update(count(s.rows.written), s.rows.gone ? `${count(s.rows.gone)} gone from the source` : '');
      all.rate.update(running ? rate(s.rate) : rate(s.seconds > 0 ? s.rows.scanned / s.seconds : undefined), running ? 'over the last minute' : 'on average');
      all.took.update(duration(s.seconds), running ? 'so far' : '');
      all.steps.update(count(s.steps.done), [s.steps.pending && `${count(s.steps.pending)} pending`, leased && `${count(leased.steps)} in progress`, running && s.lastStepAt && `last at ${time(s.lastStepAt)}`].filter(Boolean).join(', '));
      show(all.instances.element, Boolean(leased?.instances));
      if (leased?.instances) all.instances.update(count(leased.instances.length), leased.instances.length ? `${leased.instances.map((i) => count(i.steps)).join(' + ')} steps` : 'no heartbeat yet');
      all.requests.update(count(s.transactions), [plural(s.queries, 'query', 'queries'), s.throttled && `${count(s.throttled)} throttled`].filter(Boolean).join(', '));
      show(all.cost.element, Boolean(s.cost));
      if (s.cost) all.cost.update(money(s.cost.dollars), plural(s.cost.requests, 'paid request'));
    },
  };
}

// detail shows the ranges and the timeline, which may be older than the figures.
function detail(id) {
  const strip = new Strip();
  const rows = new TimeChart('Rows per second', ['rows/s']);
  const requests = new TimeChart('Requests per second', ['requests/s', 'throttled/s']);
  const asOf = h('span', { class: 'hint' });
  const note = h('p', { class: 'hint', hidden: true });
  const element = h('div', {}, h('section', {}, h('div', { class: 'title' }, h('h2', {}, 'Key space'), asOf), note, strip.element),
    h('section', { class: 'charts' }, rows.element, requests.element));
  let read = -detailInterval, changed = 0, state;
  async function load(s) {
    const path = `scans/${encodeURIComponent(id)}`;
    const [ranges, timeline] = await Promise.all([call('GET', `${path}/ranges`), call('GET', `${path}/timeline`)]);
    const running = s.state === 'running';
    strip.update(ranges.ranges, running ? s.progress : undefined);
    set(note, 'Not all pending steps are shown, because there are too many. Some ranges that look done still have pending steps.');
    show(note, Boolean(ranges.sampled));
    const at = Math.min(Date.parse(ranges.at), Date.parse(timeline.at)); // two instances may have answered
    const points = pointsOf(timeline, Date.parse(s.startedAt), running ? Date.parse(timeline.at) : Date.parse(s.finishedAt));
    rows.update(points((p) => [p.rows]), running ? at : undefined);
    requests.update(points((p) => [p.requests, p.throttled]), running ? at : undefined);
    set(asOf, `as of ${time(at)}`);
  }
  return {
    element,
    // update reads the details again if they are old, or if the scan has ended. It returns true if no further change is possible,
    // because the scan has ended and no instance can still have a cached answer from before the last step.
    async update(s) {
      const now = performance.now();
      const is = s.state === 'running' ? s.state : `${s.state} ${s.steps.done}`; // steps in progress end after a cancellation
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

// pointsOf returns the rates of a timeline. The first interval starts when the scan starts. The last interval ends when the scan ends, or now.
// If these intervals had the full length, their rates would be too low.
function pointsOf({ points, interval }, began, ended) {
  const inside = (at, from, to) => (at >= from && at < to ? at : undefined);
  const spans = points.map((p) => ({ p, from: Date.parse(p.at), to: Date.parse(p.at) + 1000 * interval }));
  const first = spans[0], last = spans.at(-1);
  if (first) first.from = Math.min(inside(began, first.from, first.to) ?? first.from, first.to - 1000);
  if (last) last.to = Math.max(inside(ended, last.from, last.to) ?? last.to, last.from + 1000);
  return (of) => spans.map(({ p, from, to }) => ({ from, to, values: of(p).map((n) => (1000 * n) / (to - from)) }));
}

// again returns the address of the form with a scan's request filled in.
function again(s) {
  const values = new URLSearchParams();
  const put = (path, value) => {
    if (value !== null && typeof value === 'object') Object.entries(value).forEach(([name, v]) => put(path ? `${path}.${name}` : name, v));
    else if (value !== undefined && value !== '') values.set(path, value);
  };
  const { source, action, range, filter, select, strategy, segmentSize, segmentsPerInvocation, segmentsPerFirstPrefix, segmentsPerSubsequentPrefix, limits, name } = s;
  put('', { source, action, range, filter, strategy, segmentSize, segmentsPerInvocation, segmentsPerFirstPrefix, segmentsPerSubsequentPrefix, limits, name });
  for (const name of ['source.export', 'action.mapHash']) values.delete(name); // the start sets these fields
  if (select) values.set('select', select.length ? select.join(', ') : '[]');
  return `#/scans/new?${values}`;
}

// raw shows the app's answer unchanged.
function raw(s) {
  const dialog = h('dialog', { class: 'large', 'aria-labelledby': 'raw-title' }, h('h2', { id: 'raw-title' }, 'The scan as JSON'), h('pre', { class: 'scroll key', tabindex: 0 }, json(s)),
    h('div', { class: 'actions' }, h('button', { onclick: () => copy(JSON.stringify(s, null, 2)) }, 'Copy'), h('button', { autofocus: true, onclick: () => dialog.close() }, 'Close')));
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// showScan shows one scan, and the actions on it.
export function showScan(main, { path }) {
  const id = path[1];
  const address = `scans/${encodeURIComponent(id)}`;
  const badge = stateBadge(), bar = progressBar('progress of the scan');
  const title = h('h1', {}, 'Scan');
  const button = (text, onclick) => h('button', { hidden: true, onclick }, text);
  const stop = button('Cancel …', () => act('DELETE', undefined, 'Cancel this scan?', 'Within a second, no new step starts. Pending steps are kept, so you can retry the scan later.', 'Cancel the scan', true));
  const retry = button('Retry …', () => act('POST', undefined, 'Retry this scan?', 'The scan continues with its pending steps. Steps that are done are not repeated.', 'Retry the scan'));
  const failedAgain = button('Retry the failed rows …', () => act('POST', { rows: 'failed' }, `Retry ${plural(shown.rows.failed, 'failed row')}?`,
    `The failed rows are read and processed again. Rows that no longer exist do not count as failed.${shown.steps.pending ? ' Pending steps also continue.' : ''}`, 'Retry the rows', shown.action?.type === 'delete'));
  const repeat = h('a', { class: 'button', hidden: true }, 'Start again …');
  const source = button('JSON', () => raw(shown));
  const banner = (properties) => h('p', { class: 'banner', hidden: true, ...properties });
  const failure = banner(), noted = banner({ class: 'banner waits' }), acted = banner({ role: 'alert' }), waits = banner({ class: 'banner waits', role: 'status' });
  const numbers = figures(), more = detail(id), failed = failedRows(id), tables = members(id);
  const about = h('p', { class: 'about' }, name(id)), ended = h('span'), verified = verdict(' · ');
  const crumbs = h('p', { class: 'crumbs' }, h('a', { href: '#/scans' }, 'Scans'));
  main.append(crumbs, h('div', { class: 'title' }, title, badge.element, h('div', { class: 'actions' }, stop, retry, failedAgain, repeat, source)), about, waits, failure, noted, acted, failed.element, numbers.element, bar.element, tables.element, more.element);
  let shown;

  async function act(method, body, question, text, yes, danger) {
    if (!(await confirmed(question, text, yes, danger))) return;
    show(acted, false);
    try {
      await call(method, method === 'POST' ? `${address}/retry` : address, { body });
    } catch (error) {
      set(acted, messageOf(error));
      show(acted, true);
    }
    live.now();
  }

  function update(s) {
    const is = titleOf(s), running = s.state === 'running', cause = causeText(s), state = s.phase ?? s.state;
    document.title = `${running ? (s.progress === undefined ? '' : `${percent(s.progress)} · `) : `${s.state} · `}${is} · Tablesweep`;
    set(title, is);
    if (!shown) {
      const place = (ref) => `${tableOf(ref, ref)} (${quoted(ref?.connection ?? ownStorage)})`, to = s.action?.destination, verifies = s.action?.type === 'verify';
      about.append(...[s.name && [' · named ', name(s.name)], ' · started ', moment(s.startedAt, both), ended, ` · from ${place(s.source)}`,
        to && ` ${verifies ? 'against' : 'to'} ${place(to)}${to.container || verifies ? '' : `, ${s.action.mode ?? 'replace'}`}`,
        s.verifies && [' · verifies ', h('a', { href: `#/scans/${encodeURIComponent(s.verifies)}` }, s.verifies)], partOf(s) && ` · ${partOf(s)}`].flat().filter(Boolean), verified.element);
      repeat.href = again(s);
      for (const element of [repeat, source]) show(element, true);
    }
    const end = running ? undefined : s.finishedAt; // removed by a retry
    if (ended.at !== end) ended.replaceChildren(...(end ? [' · ended ', moment(end)] : []));
    ended.at = end;
    badge.update(s);
    verified.update(s);
    bar.update(s);
    numbers.update(s);
    const goesOn = s.state === 'canceled' || (s.state === 'failed' && !s.leftOut && (Boolean(s.members) || s.steps.pending > 0 || !s.rows.failed)); // the same rule as in the app
    set(waits, cause && `${state[0].toUpperCase()}${state.slice(1)}: ${cause}`);
    show(waits, Boolean(cause));
    set(failure, s.error ? visible(s.error) : '');
    show(failure, Boolean(s.error) && (goesOn || !s.rows.failed)); // otherwise the box of failed rows shows the error
    set(noted, s.note ? visible(s.note) : '');
    show(noted, Boolean(s.note));
    show(stop, running);
    show(retry, goesOn);
    show(failedAgain, !running && !s.members && !s.leftOut && s.rows.failed > 0);
    failed.update(s.members ? 0 : s.rows?.failed ?? 0);
    show(more.element, !s.members);
    if (shown && shown.state !== s.state) announce(`${is}: ${s.state}`);
    shown = s;
  }

  const live = new Live(async () => {
    let s;
    try {
      s = await call('GET', address);
    } catch (error) {
      if (error.status !== 404) throw error;
      document.title = 'No such scan · Tablesweep';
      main.replaceChildren(crumbs, h('h1', {}, 'No such scan'), h('p', { class: 'about' }, name(id)),
        nothing('No scan was started under this id, or it ended long ago and was removed.', h('a', { class: 'button primary', href: '#/scans' }, 'All scans'), h('a', { class: 'button', href: '#/scans/new' }, 'New scan')));
      return untilAsked;
    }
    update(s);
    const final = await (s.members ? tables : more).update(s);
    return s.state !== 'running' && !s.cause && final ? endedInterval : statusInterval;
  }, statusInterval);
}
