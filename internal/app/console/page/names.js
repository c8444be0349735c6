// Names as data has them, shown so that two different ones never look alike.
import { h, set, announce } from './dom.js';

// unclear has the characters that can't be seen or told from others: controls, formats, lone surrogates, private and
// unassigned ones, blanks of other kinds, parts of Korean syllables, strokes through letters, and what fonts leave out.
const unclear = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\u0334-\u0338\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]|(?! )\p{Zs}/u;
const clear = /^([!-[\]-~]+ )*[!-[\]-~]+$/; // what most texts are: nothing to escape
const escaped = (c) => `\\u{${c.codePointAt(0).toString(16)}}`;

// pieces returns what is shown for each character of a text. No text is shown as another one: a backslash begins an escape,
// and is escaped itself.
function pieces(text) {
  const all = [...text];
  if (clear.test(text)) return all;
  let base = ''; // the character that marks stand on, with these
  return all.map((c, i) => {
    if (c === ' ') {
      base = '';
      return i === 0 || i === all.length - 1 || all[i - 1] === ' ' ? escaped(c) : c;
    }
    if (c === '\\') return base = '\\\\';
    const mark = /\p{M}/u.test(c);
    // What else could look like it: one character for a letter and its mark, the same mark twice.
    if (unclear.test(c) || (mark ? !base || base === '\\\\' || base.includes(c) || (base + c).normalize() !== base + c : c.normalize() !== c)) {
      base = '';
      return escaped(c);
    }
    base = mark ? base + c : c;
    return c;
  });
}

// visible returns a text as it is shown. An empty one has a name that no other text is shown as.
export const visible = (text) => (text === '' ? '\\empty' : pieces(text).join(''));

// quoted returns a text as it is shown within a sentence: a plain word as it is, others between quotes.
export const quoted = (text) => (/^[\w.:@/+-]+$/.test(text) ? text : `"${pieces(text).join('').replaceAll('"', '\\"')}"`);

// json returns a value as JSON for people, with characters that can't be seen as JSON's own escapes.
export const json = (value) => [...JSON.stringify(value, null, 2)].map((c) => (c !== '\n' && unclear.test(c) ? c.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`) : c)).join('');

// shorten cuts a text as it is shown in the middle. It returns the first part, how many characters are left out, and the last part.
export function shorten(text, most) {
  const all = pieces(text);
  if (all.length <= most + 20) return [visible(text), 0, ''];
  const head = Math.ceil(most * 0.6), tail = most - head;
  return [all.slice(0, head).join(''), all.length - most, all.slice(-tail).join('')];
}

// Letters that are written from right to left turn digits and signs beside them round, and may make two texts alike.
const leftwards = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const others = /[^\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}\p{M} ]/u;

// copy puts the exact text into the clipboard. A lone surrogate can't be there: such a text is copied as JSON.
export async function copy(text) {
  const whole = text.isWellFormed();
  try {
    await navigator.clipboard.writeText(whole ? text : JSON.stringify(text));
    announce(whole ? 'Copied.' : 'Copied as JSON, because the text contains half a character.');
  } catch {
    announce('The browser does not let this page copy.');
  }
}

const copier = (what, text) => h('button', { class: 'copy', 'aria-label': what, title: what, onclick: () => copy(text) }, '⧉');

// command shows a command, and a button that copies it.
export const command = (text) => [h('code', { class: 'value' }, text), copier('Copy the command', text)];

const longest = 120; // characters of a name in a line

// rename shows a text of the data in an element, unless it shows it already: what a reader has opened or selected stays.
// What differs from the text, or is cut, has a button that copies the exact text; with always, everything has.
export function rename(element, text, { most = longest, always = false } = {}) {
  if (element.exact === text) return;
  element.exact = text;
  const [head, left, tail] = shorten(text, most);
  let shown = element.firstChild;
  const differs = always || left > 0 || head !== text;
  if (shown?.nextSibling || shown?.children?.length || !shown || differs) {
    shown = h('bdi', {}, head);
    if (left) shown.append(h('button', { class: 'more', 'aria-label': `${left} more characters`, onclick: () => shown.replaceChildren(visible(text)) }, `⋯ ${left} ⋯`), tail);
    element.replaceChildren(shown);
    if (differs) element.append(copier('Copy the exact text', text));
  } else set(shown, head);
  shown.className = leftwards.test(text) && others.test(text) ? 'name order' : 'name';
}

// name returns an element that shows a text of the data.
export function name(text, options) {
  const element = h('span', { class: 'named' });
  rename(element, text, options);
  return element;
}
