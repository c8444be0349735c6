// Records and events as they were written, with the type of every field.
import { h } from './dom.js';
import { Exact } from './api.js';
import { name as shown, visible, shorten } from './names.js';

const annotation = '@odata.type';

// typeOf returns the type of a field: its annotation, or the type of its JSON.
function typeOf(record, name) {
  const given = record[name + annotation];
  if (typeof given === 'string') return given.replace(/^Edm\./, '');
  const value = record[name];
  if (value instanceof Exact) {
    if (/[.eE]/.test(value.text)) return 'Double';
    return BigInt.asIntN(32, BigInt(value.text)) === BigInt(value.text) ? 'Int32' : 'Int64';
  }
  if (typeof value === 'boolean') return 'Boolean';
  return typeof value === 'object' ? 'JSON' : 'String';
}

const names = (record) => Object.keys(record).filter((name) => !(name.endsWith(annotation) && name.slice(0, -annotation.length) in record));

// valueText returns a value as text for users.
export const valueText = (value) => (typeof value === 'string' ? value : value instanceof Exact ? value.text : JSON.stringify(value) ?? '');

// fieldOf finds a field by its name, in upper or lower case.
export function fieldOf(record, name) {
  const found = names(record).find((n) => n.toLowerCase() === name.toLowerCase());
  return found === undefined ? undefined : record[found];
}

const longest = 200; // maximum number of characters of a value in a line

// cut shows a value in one line. The record's own table shows the whole value.
function cut(text) {
  const [head, left, tail] = shorten(text, longest);
  return left ? [head, h('span', { class: 'gap' }, ` ⋯ ${left} ⋯ `), tail] : head;
}

// brief returns a record in one line, with long values shortened.
export function brief(record, without = []) {
  const skip = without.map((name) => name.toLowerCase());
  return h('span', { class: 'brief' }, names(record).filter((name) => !skip.includes(name.toLowerCase()))
    .map((name) => [h('bdi', { class: 'name' }, visible(name)), ' ', h('bdi', { class: 'value' }, cut(valueText(record[name]))), ' ']));
}

// levelOf returns the field with an event's severity, its value, and "error" or "warn" for a severe event.
export function levelOf(record) {
  const name = names(record).find((n) => /^(level|severity|lvl|log_?level)$/i.test(n) && typeof record[n] === 'string');
  const value = name && record[name];
  return { name, value, bad: /^(err|fatal|crit|panic|alert|emerg)/i.test(value) ? 'error' : /^warn/i.test(value) ? 'warn' : '' };
}

// recordTable shows all fields of a record with their types.
export function recordTable(record) {
  return h('table', { class: 'record' }, h('thead', {}, h('tr', {}, ['Field', 'Type', 'Value'].map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', {}, names(record).map((name) => h('tr', {}, h('th', { scope: 'row', class: 'key' }, shown(name)), h('td', {}, visible(typeOf(record, name))), h('td', { class: 'key' }, shown(valueText(record[name]), { most: 1000, always: true }))))));
}

// openRecord shows a record in a dialog over the page.
export function openRecord(title, record, remarks = []) {
  const dialog = h('dialog', { class: 'large', 'aria-labelledby': 'record-title' }, h('h2', { id: 'record-title' }, title),
    remarks.filter(Boolean).map((remark) => h('p', { class: 'hint key' }, visible(remark))), h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Fields' }, recordTable(record)),
    h('div', { class: 'actions' }, h('button', { autofocus: true, onclick: () => dialog.close() }, 'Close')));
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
