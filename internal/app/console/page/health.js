// The app's checks of its own setup.
import { h, arrange, moment } from './dom.js';
import { Live, call } from './api.js';
import { command, visible } from './names.js';

const interval = 15_000; // the app keeps a report for 10 s
const states = ['failed', 'warning', 'unknown', 'ok']; // the worst state first

// showHealth shows the app's checks. The status 503 is a valid answer.
export function showHealth(main) {
  document.title = 'Health · Tablesweep';
  const summary = h('p', { class: 'about', role: 'status' }, 'Loading …'), body = h('tbody');
  const table = h('table', { class: 'cards', hidden: true }, h('caption', { class: 'unseen' }, 'Checks, the worst first'), h('thead', {}, h('tr', {}, ['Check', 'State', 'Details'].map((name) => h('th', { scope: 'col' }, name)))), body);
  main.append(h('h1', {}, 'Health'), summary, table, h('p', { class: 'actions hint' }, 'Run doctor on your computer to check roles, settings and the app’s address as well:', command(`tablesweep doctor --url ${location.origin}`)));
  let rows = new Map(); // by their content
  new Live(async () => {
    const { status, at, checks } = await call('GET', 'health', { also: 503 });
    const textOf = (c) => [c.name, c.state, c.detail].join('|');
    const sorted = checks.toSorted((a, b) => states.indexOf(a.state) - states.indexOf(b.state));
    rows = new Map(sorted.map((c) => [textOf(c), rows.get(textOf(c)) ?? h('tr', {}, h('td', {}, h('strong', {}, visible(c.name))), h('td', {}, h('span', { class: 'badge', 'data-state': c.state === 'ok' ? 'succeeded' : c.state }, c.state)), h('td', { class: 'wide' }, visible(c.detail)))]));
    arrange(body, [...rows.values()]);
    table.hidden = false;
    const bad = checks.filter((c) => c.state === 'failed' || c.state === 'warning').length;
    const text = { failed: 'Scans cannot run', warning: 'Scans work, but something needs attention' }[status] ?? 'All is well';
    if (summary.shown !== text + bad) summary.replaceChildren(`${text}${bad ? `: ${bad} of ${checks.length} checks found a problem` : ''}. As of `, moment(at));
    else summary.querySelector('time').replaceWith(moment(at));
    summary.shown = text + bad;
    return interval;
  }, interval);
}
