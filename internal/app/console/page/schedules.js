// The schedules, and the backups that they have made.
import { h, set, arrange, nothing, count, moment, plural, show, both } from './dom.js';
import { Live, call, messageOf } from './api.js';
import { command } from './names.js';
import { stateBadge, tableOf, titleOf } from './scans.js';

const interval = 15_000, few = 10;
const scan = (id, text) => h('a', { href: `#/scans/${encodeURIComponent(id)}` }, text);
const keepText = (keep) => Object.entries(keep).map(([rule, n]) => `${n} ${rule}`).join(', ');

const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const dayOf = (text) => days[/^[0-6]$/.test(text) ? text : days.findIndex((day) => day.slice(0, 3).toLowerCase() === text.toLowerCase())];

// cronText returns a text for a simple cron expression, and any other expression unchanged.
function cronText(cron) {
  const [second, minute, hour, day, month, weekday] = cron.trim().split(/\s+/), whole = (text) => /^\d+$/.test(text);
  const two = (n) => String(Number(n)).padStart(2, '0'), seconds = Number(second) ? `:${two(second)}` : '';
  const every = (text, of) => { const n = Number(/^(?:\*|0)\/(\d+)$/.exec(text)?.[1]); return n > 0 && of % n === 0 ? n : text === '*' && 1; };
  if (month === '*' && whole(second)) {
    const always = day === '*' && weekday === '*', minutes = every(minute, 60), hours = every(hour, 24);
    const week = weekday.split('-').map(dayOf);
    if (always && hour === '*' && minutes && second === '0') return minutes === 1 ? 'each minute' : `every ${minutes} minutes`;
    if (always && hours && whole(minute)) return hours === 1 ? `each hour at ${two(minute)}${seconds} past` : `every ${hours} hours from 00:${two(minute)}${seconds} UTC`;
    if (whole(hour) && whole(minute)) {
      const at = `at ${two(hour)}:${two(minute)}${seconds} UTC`;
      if (always) return `each day ${at}`;
      if (day === '*' && week.length <= 2 && week.every(Boolean)) return `${week.length === 1 ? 'each ' : ''}${week.join(' to ')} ${at}`;
      if (whole(day) && weekday === '*') return `each month on day ${Number(day)} ${at}`;
    }
  }
  return `${cron} UTC`;
}

// facts describes a schedule in rows of a name and a value.
function facts(s) {
  const omitted = (o, why) => o.count > 0 && [plural(o.count, 'occurrence'), ` ${why}, the last `, moment(o.last)];
  return [
    ['Scan', s.request && titleOf(s.request).split(/(?<=\/)/).flatMap((part) => [part, h('wbr')])],
    ['Starts', s.removed ? 'never again: it was removed from the settings' : [cronText(s.cron), h('span', { class: 'sub' }, `next ${both(s.next)}`)]],
    ['Last run', s.last && [scan(s.last.id, moment(s.last.occurrence)), s.last.error && h('span', { class: 'sub bad' }, s.last.error)]],
    ['Newest success', s.success ? [scan(s.success.id, moment(s.success.occurrence)), s.overdue && h('span', { class: 'sub bad' }, 'older than two periods')] : 'none yet'],
    ['Missed', omitted(s.missed, 'came while the app was not running')],
    ['Skipped', omitted(s.skipped, 'came while the previous run lasted')],
    ['Keeps', s.keep && [keepText(s.keep), s.keepDryRun && h('span', { class: 'sub' }, 'dry run: nothing is deleted')]],
  ].filter(([, what]) => what).map(([name, what]) => h('div', { class: name === 'Scan' && 'whole' }, h('dt', {}, name), h('dd', { class: 'remark' }, what)));
}

// restoreForm is the address of the form that restores a backup. It does not contain a destination, so the user chooses where rows are written.
const restoreForm = ({ place, tables }) => `#/scans/new?${new URLSearchParams(Object.entries({
  'source.container': place.container, 'source.prefix': place.prefix, 'source.connection': place.connection,
  'source.tables': tables && '*', 'action.type': 'copy',
}).filter(([, value]) => value))}`;

const proofs = { proved: ['', 'proved'], differs: ['', 'proved; the source has changed since'], running: ['', 'is being proved'], failed: ['bad', 'proof failed'] };

function proofOf(proof) {
  if (!proof) return h('td', { 'data-name': 'Proof' }, 'none');
  const [kind, text] = proofs[proof.state] ?? ['', proof.state];
  return h('td', { class: kind, 'data-name': 'Proof' }, scan(proof.id, text), (proof.error || proof.note) && h('span', { class: 'sub' }, proof.error || proof.note));
}

function backupRow(b, trial) {
  const state = b.deleting ? ['bad', b.error ? `cannot be deleted: ${b.error}` : 'is being deleted'] : b.outdated ? ['warn', trial ? 'would be deleted' : 'will be deleted soon'] : ['', 'kept'];
  return h('tr', {},
    h('td', { class: 'wide' }, scan(b.id, moment(b.occurrence)), h('span', { class: 'sub' }, tableOf(b.place))),
    h('td', { class: 'number', 'data-name': 'Rows' }, count(b.rows)),
    proofOf(b.proof),
    h('td', { class: state[0], 'data-name': 'State' }, state[1], b.note && h('span', { class: 'sub' }, b.note)),
    h('td', { class: 'wide', 'data-name': 'Restore' }, !b.deleting && [command(b.restore), ' ', h('a', { class: 'button', href: restoreForm(b) }, 'Restore …')]));
}

function section(name) {
  const badge = stateBadge(), list = h('dl', { class: 'figures large' }), body = h('tbody'), none = h('p', { class: 'hint' });
  const table = h('table', { class: 'cards', hidden: true }, h('caption', { class: 'unseen' }, `Backups of ${name}`),
    h('thead', {}, h('tr', {}, ['Backup', 'Rows', 'Proof', 'State', 'Restore'].map((t) => h('th', { scope: 'col', class: t === 'Rows' && 'number' }, t)))), body);
  let most = few, shown = '';
  const more = h('button', { hidden: true, onclick: () => { most = 1000; Live.current.now(); } }, 'All backups');
  const run = h('button', { hidden: true, onclick: () => start() }, 'Run now'), outcome = h('p', { class: 'hint', role: 'status' });
  const element = h('section', { 'aria-label': name }, h('div', { class: 'title' }, h('h2', {}, name), badge.element, h('div', { class: 'actions' }, run)), outcome, h('div', { class: 'numbers' }, list), table, none, more);

  // start runs the schedule now.
  async function start() {
    run.disabled = true;
    try {
      const { id } = await call('POST', `schedules/${encodeURIComponent(name)}/run`);
      outcome.replaceChildren('Started: ', scan(id, id));
    } catch (error) {
      set(outcome, messageOf(error));
    }
    run.disabled = false;
    Live.current?.now();
  }

  return {
    element,
    async update(s) {
      const answer = await call('GET', `schedules/${encodeURIComponent(name)}/backups`, { query: { top: most } });
      const text = JSON.stringify([s, answer]);
      if (shown === text) return; // keep the user's selection and the focus
      shown = text;
      show(run, !s.removed);
      show(badge.element, Boolean(s.last));
      if (s.last) badge.update(s.last);
      list.replaceChildren(...facts(s));
      body.replaceChildren(...answer.backups.map((b) => backupRow(b, s.keepDryRun)));
      show(table, answer.backups.length > 0);
      set(none, answer.backups.length > 0 ? '' : s.request?.action.destination?.container ? 'No backup yet.' : '');
      show(more, Boolean(answer.cursor) && most === few);
    },
  };
}

// showSchedules shows all schedules, each with its newest backups.
export function showSchedules(main) {
  document.title = 'Schedules · Tablesweep';
  const wrong = h('p', { class: 'banner', role: 'alert', hidden: true }), list = h('div', {}, h('p', { class: 'empty' }, 'Loading …'));
  main.append(h('div', { class: 'title' }, h('h1', {}, 'Schedules')), wrong, list);
  const sections = new Map();
  new Live(async () => {
    const { schedules, error } = await call('GET', 'schedules');
    set(wrong, error);
    show(wrong, Boolean(error));
    for (const { name } of schedules) if (!sections.has(name)) sections.set(name, section(name));
    await Promise.all(schedules.map((s) => sections.get(s.name).update(s)));
    arrange(list, schedules.length ? schedules.map((s) => sections.get(s.name).element) : [nothing('There are no schedules. The setting TABLESWEEP_SCHEDULES defines them, and how long their backups are kept.')]);
    return interval;
  }, interval);
}
