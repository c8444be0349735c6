// Elements and formats. These functions never use markup, so all data is shown as text.

const svgNamespace = 'http://www.w3.org/2000/svg';

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) element.append(child);
  }
  return element;
}

const usual = { button: { type: 'button' }, input: { type: 'text', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false' } };

// h makes an HTML element with the usual attributes of its kind, and svg makes an SVG element. A property onNAME is a listener. Other properties are attributes.
export const h = (tag, properties, ...children) => fill(document.createElement(tag), { ...usual[tag], ...properties }, children);
export const svg = (tag, properties, ...children) => fill(document.createElementNS(svgNamespace, tag), properties, children);

// set changes an element's text only if it differs, so that selections remain and screen readers do not repeat the text.
export function set(element, text) {
  text = String(text ?? '');
  const only = element.firstChild;
  if (element.textContent === text) return;
  if (only?.nodeType === Node.TEXT_NODE && !only.nextSibling) only.data = text;
  else element.textContent = text;
}

// show shows or hides an element. If a hidden element had the focus, the content gets the focus, and not the start of the page.
export function show(element, shown) {
  if (element.hidden !== shown) return;
  if (!shown && element.contains(document.activeElement)) document.getElementById('main').focus({ preventScroll: true });
  element.hidden = !shown;
}

// arrange gives an element these children in this order. It does not move children that keep their position, so they keep the focus.
export function arrange(parent, children) {
  const stay = new Set(children);
  for (const child of [...parent.children]) if (!stay.has(child)) child.remove();
  children.forEach((child, i) => { if (parent.children[i] !== child) parent.insertBefore(child, parent.children[i] ?? null); });
}

// nothing explains that there is nothing to show, and offers the next actions.
export const nothing = (text, ...offers) => h('div', { class: 'nothing' }, h('p', { class: 'empty' }, text), h('p', { class: 'actions' }, offers));

// announce makes screen readers read a text aloud.
export const announce = (text) => set(document.getElementById('announcement'), text);

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const rounded = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 3 });

export const count = (n) => whole.format(n ?? 0);
export const rate = (n) => (n === undefined || n === null ? '–' : n >= 100 ? whole.format(n) : rounded.format(n));
export const percent = (share) => `${Math.floor(share * 100)} %`;
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// money shows small costs as the command line does.
export function money(dollars) {
  if (dollars === undefined || dollars === null) return '–';
  if (dollars < 0.0001) return 'less than $0.0001';
  const digits = dollars < 1 ? 4 : 2;
  return `$${dollars.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  const s = Math.round(seconds);
  if (s < 90) return `${s} s`;
  if (s < 5400) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 2 * 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

const clock = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });
const day = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium' });
const zone = new Intl.DateTimeFormat('en-GB', { timeZoneName: 'short', hour: '2-digit' });

export const zoneOf = (date) => zone.formatToParts(date).find((p) => p.type === 'timeZoneName').value;

export const time = (at) => clock.format(new Date(at));

// when returns the time of a moment, with the day if the day is not today.
export function when(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return String(at);
  const today = day.format(date) === day.format(new Date());
  return today ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
}

// both returns a moment with its day, in local time and in UTC.
export function both(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return String(at);
  const here = zoneOf(date);
  const utc = date.toISOString().slice(0, 19).replace('T', ' ');
  return here === 'UTC' ? `${utc} UTC` : `${day.format(date)}, ${clock.format(date)} ${here} (${utc} UTC)`;
}

let ahead = 0; // milliseconds by which the app's clock is ahead of this computer's clock

// setClock sets the app's clock from the date of an answer. Ages use the app's clock, so they are right even if this computer's clock is wrong.
export function setClock(date) {
  const at = Date.parse(date);
  if (at) ahead = at - Date.now();
}

// age returns how long ago a moment is. It returns "" for a text that is not a time, and for a time in the future, because an event's writer has its own clock.
function age(at) {
  const s = (Date.now() + ahead - Date.parse(at)) / 1000;
  if (!(s > -60)) return '';
  if (s < 5) return 'just now';
  for (const [seconds, unit] of [[86400, 'd'], [3600, 'h'], [60, 'min']]) if (s >= seconds) return `${Math.floor(s / seconds)} ${unit} ago`;
  return `${Math.floor(s)} s ago`;
}

// moment returns an element with a time and its age. The element's title is the time in local time and in UTC.
export const moment = (at, exactly = when) => h('time', { datetime: at, title: both(at) }, exactly(at), ' ', h('span', { class: 'sub ago' }, age(at)));

// The shown ages are updated.
setInterval(() => { for (const e of document.querySelectorAll('time > .ago')) set(e, age(e.parentNode.getAttribute('datetime'))); }, 5000);
