// The scans of a group's tables.
import { h, set, show, arrange, count } from './dom.js';
import { call } from './api.js';
import { scanRow, scanHead } from './scans.js';

const interval = 5000, top = 50;

// members lists the group's tables whose scans have started, with the state of each.
export function members(id) {
  const body = h('tbody'), note = h('span', { class: 'hint' });
  const state = h('select', { id: 'of-state', onchange: () => again() }, h('option', { value: '' }, 'all'), ['running', 'succeeded', 'failed', 'canceled'].map((s) => h('option', { value: s }, s)));
  const more = h('button', { hidden: true, onclick: () => { wanted += 10 * top; again(); } }, 'Show more');
  const element = h('section', { hidden: true, 'aria-label': 'Tables' }, h('div', { class: 'title' }, h('h2', {}, 'Tables'), note, h('span', { class: 'grow' }), h('div', { class: 'choice' }, h('label', { for: 'of-state' }, 'State'), state)),
    h('table', { class: 'cards' }, h('caption', { class: 'unseen' }, 'Scans of the tables'), scanHead('Table'), body), more);
  const rows = new Map(); // rows by the scans' ids
  let wanted = top, read = -interval, was;
  const again = () => { read = -interval; load(); };
  async function load() {
    const all = [];
    let cursor = '';
    do {
      const page = await call('GET', `scans/${encodeURIComponent(id)}/members`, { query: { top: Math.min(100, wanted - all.length), cursor, state: state.value } });
      all.push(...page.scans);
      cursor = page.cursor ?? '';
    } while (cursor && all.length < wanted);
    for (const s of all) {
      if (!rows.has(s.id)) rows.set(s.id, scanRow(s.id));
      rows.get(s.id).update(s);
    }
    arrange(body, all.map((s) => rows.get(s.id).element));
    show(more, Boolean(cursor));
  }
  return {
    element,
    // update reads the tables again if they may have changed. It returns true if no further change is possible.
    async update(s) {
      show(element, true);
      const m = s.members, running = s.state === 'running';
      set(note, `${count(m.succeeded + m.failed + m.canceled + m.leftOut)} of ${count(m.all)} ended${m.failed ? `, ${count(m.failed)} failed` : ''}${m.leftOut ? `, ${count(m.leftOut)} left out` : ''}${m.waiting ? `, ${count(m.waiting)} waiting` : ''}`);
      const is = JSON.stringify([s.state, m]), now = performance.now();
      if (is !== was || (running && now - read >= interval)) {
        read = now;
        await load();
        was = is;
      }
      return !running;
    },
  };
}
