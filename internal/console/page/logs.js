// Streams of events: the newest first, and those that come.
import { h, set, show, moment, plural } from './dom.js';
import { Live, call, exactly } from './api.js';
import { brief, openRecord } from './record.js';

const pageTop = 100;
const followInterval = 2000, streamsInterval = 15_000;
const kept = 2000; // events on the page

// showLogs shows the streams, and the events of one.
export function showLogs(main, { path }) {
  document.title = 'Logs · Tablesweep';
  main.append(h('h1', {}, 'Logs'));
  const body = h('div', {}, h('p', { class: 'empty' }, 'Loading …'));
  main.append(body);
  if (path[1] === undefined) streams(body);
  else events(body, path.slice(1).join('/'));
}

function streams(body) {
  let listed;
  new Live(async () => {
    const { streams: all, cursor } = await call('GET', 'log', { query: { top: 500 } });
    const key = JSON.stringify(all);
    if (key === listed) return;
    listed = key;
    body.replaceChildren(all.length
      ? h('ul', { class: 'streams' }, all.map((s) => h('li', {}, h('a', { href: `#/logs/${encodeURIComponent(s.name)}` }, s.name), s.shards > 1 && h('span', { class: 'hint' }, ` ${s.shards} shards`))))
      : h('p', { class: 'empty' }, 'No stream yet. POST /api/log/NAME appends an event, and makes its stream.'));
    if (cursor) body.append(h('p', { class: 'hint' }, 'There are more streams than are listed here.'));
  }, streamsInterval);
}

function events(body, stream) {
  document.title = `${stream} · Logs · Tablesweep`;
  const follow = h('input', { type: 'checkbox', checked: true, onchange: () => live.now() });
  const note = h('p', { class: 'hint', role: 'status' });
  const rows = h('tbody');
  const older = h('button', { type: 'button', hidden: true, onclick: () => read().catch((error) => set(note, error.message)) }, 'Older events');
  const table = h('div', { class: 'scroll' }, h('table', { class: 'events' }, h('caption', { class: 'unseen' }, 'Events, the newest first'),
    h('thead', { class: 'unseen' }, h('tr', {}, ['Time', 'Event', ''].map((name) => h('th', { scope: 'col' }, name)))), rows));
  body.replaceChildren(h('p', { class: 'crumbs' }, h('a', { href: '#/logs' }, 'Streams')), h('div', { class: 'title' }, h('h2', {}, stream), h('span', { class: 'grow' }), h('label', { class: 'check' }, follow, 'Follow')), note, table, older);
  const seen = new Set();
  let after = '', cursor = '';

  function row(event) {
    return h('tr', {}, h('td', {}, moment(event.time)), h('td', { class: 'wide' }, brief(event.event)),
      h('td', {}, h('button', { type: 'button', class: 'link', onclick: () => openRecord('Event', event.event, [`at ${event.time}`, `id ${event.id}`]) }, 'All fields')));
  }

  const fresh = (all) => all.filter((event) => !seen.has(event.id) && seen.add(event.id));

  // read adds older events below.
  async function read() {
    const page = await call('GET', 'log', { query: { stream, top: pageTop, cursor }, parse: exactly });
    rows.append(...fresh(page.events).map(row));
    cursor = page.cursor ?? '';
    show(older, Boolean(cursor));
  }

  const live = new Live(async () => {
    if (!after) { // before the first page, so that nothing falls between
      const { next } = await call('GET', 'log', { query: { stream, after: 'now', top: 1 }, parse: exactly });
      await read();
      after = next;
    } else if (follow.checked) {
      const page = await call('GET', 'log', { query: { stream, after, top: pageTop }, parse: exactly });
      after = page.next;
      rows.prepend(...fresh(page.events).reverse().map(row));
      while (rows.children.length > kept) {
        rows.lastChild.remove();
        show(older, false); // it would leave out what was removed
      }
      if (page.more) return 100;
    }
    set(note, rows.children.length ? `${plural(rows.children.length, 'event')}, the newest first${follow.checked ? '; new ones come on top' : ''}` : 'No event yet.');
    return followInterval;
  }, followInterval);
}
