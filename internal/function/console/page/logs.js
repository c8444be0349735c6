// Streams of events: the newest events, and new ones as they come.
import { h, set, show, arrange, moment, plural } from './dom.js';
import { Live, call, exactly, told, untilAsked } from './api.js';
import { name, visible } from './names.js';
import { brief, openRecord } from './record.js';

const pageTop = 100, followTop = 1000;
const followInterval = 2000, streamsInterval = 15_000;
const kept = 2000; // events on the page

// showLogs shows the list of streams, or the events of one.
export function showLogs(main, { path }) {
  document.title = 'Logs · Tablesweep';
  main.append(h('h1', {}, 'Logs'));
  const body = h('div', {}, h('p', { class: 'empty' }, 'Loading …'));
  main.append(body);
  if (!path[1]) streams(body);
  else events(body, path.slice(1).join('/'));
}

function streams(body) {
  const list = h('ul', { class: 'streams', hidden: true });
  const note = body.firstChild;
  let items = new Map(); // by name and shards
  const item = (s) => h('li', {}, h('a', { href: `#/logs/${encodeURIComponent(s.name)}` }, h('bdi', {}, visible(s.name))), s.shards > 1 && h('span', { class: 'hint' }, ` ${s.shards} shards`));
  body.prepend(list);
  new Live(async () => {
    const { streams: all, cursor } = await call('GET', 'log', { query: { top: 500 } });
    items = new Map(all.map((s) => [`${s.shards} ${s.name}`, s]).map(([key, s]) => [key, items.get(key) ?? item(s)]));
    arrange(list, [...items.values()]);
    show(list, all.length > 0);
    set(note, cursor ? 'There are more streams than are listed here.' : all.length ? '' : 'No stream yet. POST /api/log?stream=NAME appends an event, and makes its stream.');
    show(note, note.textContent !== '');
  }, streamsInterval);
}

function events(body, stream) {
  document.title = `${visible(stream)} · Logs · Tablesweep`;
  const follow = h('input', { type: 'checkbox', checked: true, onchange: () => live.now() });
  const note = h('p', { class: 'hint', role: 'status' });
  const rows = h('tbody');
  const older = h('button', { hidden: true, onclick: () => { most += pageTop; read().catch((error) => set(note, told(error))); } }, 'Older events');
  const table = h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Events' }, h('table', { class: 'events' }, h('caption', { class: 'unseen' }, 'Events, the newest first'),
    h('thead', { class: 'unseen' }, h('tr', {}, ['Time', 'Event'].map((name) => h('th', { scope: 'col' }, name)), h('td'))), rows));
  body.replaceChildren(h('p', { class: 'crumbs' }, h('a', { href: '#/logs' }, 'Streams')), h('div', { class: 'title' }, h('h2', {}, name(stream)), h('span', { class: 'grow' }), h('label', { class: 'check' }, follow, 'Follow')), note, table, older);
  const shown = new Map(); // rows by event id; ids sort newest first
  let after = '', cursor = '', most = kept;

  function row(event) {
    return h('tr', { 'data-id': event.id }, h('td', {}, moment(event.time)), h('td', { class: 'wide' }, brief(event.event)),
      h('td', {}, h('button', { class: 'link', onclick: () => openRecord('Event', event.event, [`at ${event.time}`, `id ${event.id}`]) }, 'All fields')));
  }

  // put inserts an event where it belongs: mostly the top or the bottom, but some come late.
  function put(event) {
    if (shown.has(event.id)) return;
    const last = rows.lastChild;
    let below = last && last.dataset.id < event.id ? null : rows.firstChild;
    while (below && below.dataset.id < event.id) below = below.nextSibling;
    shown.set(event.id, row(event));
    rows.insertBefore(shown.get(event.id), below);
  }

  // read adds older events below.
  async function read() {
    const page = await call('GET', 'log', { query: { stream, top: pageTop, cursor }, parse: exactly });
    page.events.forEach(put);
    cursor = page.cursor ?? '';
    show(older, Boolean(cursor));
  }

  // cut removes the oldest events if there are too many. They can be loaded again.
  function cut() {
    if (rows.children.length <= most) return;
    while (rows.children.length > most) {
      shown.delete(rows.lastChild.dataset.id);
      rows.lastChild.remove();
    }
    cursor = rows.lastChild.dataset.id;
    show(older, true);
  }

  const live = new Live(async () => {
    let more = false;
    if (!after) { // before the first page, so that no event is missed
      const { next } = await call('GET', 'log', { query: { stream, after: 'now', top: 1 }, parse: exactly });
      await read();
      after = next;
    } else if (follow.checked) {
      const page = await call('GET', 'log', { query: { stream, after, top: followTop }, parse: exactly });
      [after, more] = [page.next, page.more];
      page.events.forEach(put);
      cut();
    }
    const size = rows.children.length;
    set(note, size ? `${plural(size, 'event')}, the newest first${more ? '; more are coming in' : follow.checked ? '; new ones come on top' : ''}` : 'No event yet.');
    return !follow.checked ? untilAsked : more ? 100 : followInterval;
  }, followInterval);
}
