// Names in data, shown so that two different names never look alike.
import { h, set, announce } from './dom.js';

// unclear matches characters that are invisible or look like others: control and format characters, lone surrogates, private and
// unassigned characters, unusual blanks, parts of Korean syllables, strokes through letters, and characters that fonts leave out.
const unclear = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\u0334-\u0338\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]|(?! )\p{Zs}/u;
const clear = /^([!-[\]-~]+ )*[!-[\]-~]+$/; // matches most texts, which need no escapes
const escaped = (c) => `\\u{${c.codePointAt(0).toString(16)}}`;

// pieces returns the shown form of each character of a text. Different texts have different shown forms. A backslash begins an escape,
// and is escaped itself.
function pieces(text) {
  const all = [...text];
  if (clear.test(text)) return all;
  let base = ''; // the character to which the marks belong, with its marks so far
  return all.map((c, i) => {
    if (c === ' ') {
      base = '';
      return i === 0 || i === all.length - 1 || all[i - 1] === ' ' ? escaped(c) : c;
    }
    if (c === '\\') return base = '\\\\';
    const mark = /\p{M}/u.test(c);
    // Two things could look the same: one character for a letter and its mark, or the same mark twice.
    if (unclear.test(c) || (mark ? !base || base === '\\\\' || base.includes(c) || (base + c).normalize() !== base + c : c.normalize() !== c)) {
      base = '';
      return escaped(c);
    }
    base = mark ? base + c : c;
    return c;
  });
}

// visible returns a text's shown form. The shown form of the empty text differs from every other.
export const visible = (text) => (text === '' ? '\\empty' : pieces(text).join(''));

// quoted returns a text's shown form within a sentence: a plain word unchanged, any other text in quotes.
export const quoted = (text) => (/^[\w.:@/+-]+$/.test(text) ? text : `"${pieces(text).join('').replaceAll('"', '\\"')}"`);

// json returns a value as JSON for users. Unclear characters are written as JSON escapes.
export const json = (value) => [...JSON.stringify(value, null, 2)].map((c) => (c !== '\n' && unclear.test(c) ? c.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`) : c)).join('');

// shorten removes the middle of a text's shown form. It returns the first part, the number of removed characters, and the last part.
export function shorten(text, most) {
  const all = pieces(text);
  if (all.length <= most + 20) return [visible(text), 0, ''];
  const head = Math.ceil(most * 0.6), tail = most - head;
  return [all.slice(0, head).join(''), all.length - most, all.slice(-tail).join('')];
}

// Letters that are written from right to left reverse the order of digits and signs beside them, so two texts may look alike.
const leftwards = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const others = /[^\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}\p{M} ]/u;

// copy puts the exact text into the clipboard. The clipboard cannot contain a lone surrogate, so a text with one is copied as JSON.
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

const longest = 120; // maximum number of characters of a name in a line

// rename shows a text of the data in an element. If the element already shows this text, it is unchanged, so that the user's selection remains.
// If the shown form differs from the text or is shortened, or if always is set, there is a button that copies the exact text.
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
