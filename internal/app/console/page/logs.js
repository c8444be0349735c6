// Streams of events: the newest events, and new events as they are written.
import { h, set, show, arrange, moment, nothing, plural } from './dom.js';
import { Live, call, exactly, messageOf, untilAsked } from './api.js';
import { name, visible } from './names.js';
import { brief, levelOf, openRecord } from './record.js';

const pageTop = 100, followTop = 1000;
const followInterval = 2000, streamsInterval = 15_000;
const kept = 2000; // maximum number of events on the page

// showLogs shows the list of streams, or the events of one stream.
export function showLogs(main, { path }) {
  document.title = 'Logs · Tablesweep';
  if (path[1]) events(main, path.slice(1).join('/'));
  else streams(main);
}

const howToAppend = 'POST /api/log?stream=NAME appends an event. It creates the stream if it is missing.';

function streams(main) {
  const rows = h('tbody');
  const list = h('table', { class: 'streams', hidden: true }, h('thead', {}, h('tr', {}, ['Stream', 'Shards'].map((name, i) => h('th', { scope: 'col', class: i && 'number' }, name)))), rows);
  const note = h('p', { class: 'empty' }, 'Loading …');
  let items = new Map(); // by name and shards
  const item = (s) => h('tr', {}, h('td', { class: 'wide' }, h('a', { href: `#/logs/${encodeURIComponent(s.name)}` }, h('bdi', {}, visible(s.name)))), h('td', { class: 'number' }, Math.max(1, s.shards ?? 1)));
  main.append(h('h1', {}, 'Logs'), list, note);
  new Live(async () => {
    const { streams: all, cursor } = await call('GET', 'log', { query: { top: 500 } });
    items = new Map(all.map((s) => [`${s.shards} ${s.name}`, s]).map(([key, s]) => [key, items.get(key) ?? item(s)]));
    arrange(rows, [...items.values()]);
    show(list, all.length > 0);
    set(note, cursor ? 'Only the first 500 streams are listed.' : all.length ? '' : `No stream yet. ${howToAppend}`);
    show(note, note.textContent !== '');
  }, streamsInterval);
}

function events(main, stream) {
  document.title = `${visible(stream)} · Logs · Tablesweep`;
  const follow = h('input', { type: 'checkbox', checked: true, onchange: () => live.now() });
  const note = h('p', { class: 'hint', role: 'status' });
  const rows = h('tbody');
  const older = h('button', { hidden: true, onclick: () => { most += pageTop; read().catch((error) => set(note, messageOf(error))); } }, 'Older events');
  const table = h('table', { class: 'events', hidden: true }, h('caption', { class: 'unseen' }, 'Events, the newest first'),
    h('thead', {}, h('tr', {}, ['Time', 'Event'].map((name) => h('th', { scope: 'col' }, name)), h('td'))), rows);
  const none = nothing(`No event yet. ${howToAppend}`, h('a', { class: 'button', href: '#/logs' }, 'All streams'));
  show(none, false);
  main.append(h('p', { class: 'crumbs' }, h('a', { href: '#/logs' }, 'Logs')), h('div', { class: 'title' }, h('h1', {}, name(stream)), h('span', { class: 'grow' }), h('label', { class: 'check' }, follow, 'Follow')), note, none, table, h('div', { class: 'actions' }, older));
  const shown = new Map(); // rows by event id; ids sort newest first
  let after = '', cursor = '', most = kept;

  function row(event) {
    const level = levelOf(event.event);
    return h('tr', { 'data-id': event.id, 'data-level': level.bad }, h('td', {}, moment(event.time)), h('td', { class: 'wide' }, level.name && h('span', { class: 'level' }, visible(level.value)), ' ', brief(event.event, level.name ? [level.name] : [])),
      h('td', {}, h('button', { class: 'link', onclick: () => openRecord('Event', event.event, [`at ${event.time}`, `id ${event.id}`]) }, 'All fields')));
  }

  // put inserts an event at its place. This is usually the top or the bottom, but some events arrive late.
  function put(event) {
    if (shown.has(event.id)) return;
    const last = rows.lastChild;
    let below = last && last.dataset.id < event.id ? null : rows.firstChild;
    while (below && below.dataset.id < event.id) below = below.nextSibling;
    shown.set(event.id, row(event));
    rows.insertBefore(shown.get(event.id), below);
  }

  // read adds older events at the bottom.
  async function read() {
    const page = await call('GET', 'log', { query: { stream, top: pageTop, cursor }, parse: exactly });
    page.events.forEach(put);
    cursor = page.cursor ?? '';
    show(older, Boolean(cursor));
  }

  // cut removes the oldest events if there are too many. The user can load them again.
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
    if (!after) { // read before the first page, so that no event is missed
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
    set(note, size ? `${plural(size, 'event')}, the newest first${more ? '; more are being read' : follow.checked ? '; new events appear at the top' : ''}` : '');
    show(table, size > 0);
    show(none, !size);
    return !follow.checked ? untilAsked : more ? 100 : followInterval;
  }, followInterval);
}
