// Charts as SVG in the available width: values over time, and a strip of ranges.
import { h, svg, set, show, when, rate, count, plural } from './dom.js';
import { quoted, rename } from './names.js';

// onWidth calls a function with an element's inner width whenever the width changes.
function onWidth(element, draw) {
  let last = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.max(200, Math.floor(entry.contentRect.width));
    if (width !== last) draw(last = width);
  }).observe(element);
}

// steps returns a round step for an axis, so that the largest value is at most four steps.
function steps(largest) {
  if (!(largest > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(largest / 4));
  return [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => largest / n <= 4);
}

// grow gives an element the given number of children, and reuses its existing children.
function grow(element, size, make) {
  while (element.children.length > size) element.lastChild.remove();
  while (element.children.length < size) element.append(make());
  return element.children;
}

// put sets those attributes whose values differ.
function put(element, values) {
  for (const [name, value] of Object.entries(values)) {
    if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
  return element;
}

// Reader shows the text of single items of a picture, by pointer and by arrow keys. of contains the number of items, and functions for the item at
// a position, the position of an item, and its text.
class Reader {
  constructor(picture, top, height, of) {
    Object.assign(this, { of, at: -1 });
    this.element = h('output', { class: 'reading key' });
    this.cursor = svg('rect', { class: 'cursor', y: top, height, visibility: 'hidden' });
    picture.addEventListener('pointermove', (e) => this.read(of.find(e.clientX - picture.getBoundingClientRect().left)));
    for (const name of ['pointerleave', 'blur']) picture.addEventListener(name, () => this.read(-1));
    picture.addEventListener('keydown', (e) => this.step(e));
  }

  step(event) {
    const size = this.of.size();
    const to = { ArrowLeft: (this.at < 0 ? size : this.at) - 1, ArrowRight: this.at + 1, Home: 0, End: size - 1 }[event.key];
    if (to === undefined || !size) return;
    event.preventDefault();
    this.read(Math.max(0, Math.min(size - 1, to)));
  }

  read(at) {
    this.at = at < this.of.size() ? at : -1;
    set(this.element, this.at < 0 ? '' : this.of.text(this.at));
    this.cursor.setAttribute('visibility', this.at < 0 ? 'hidden' : 'visible');
    if (this.at < 0) return;
    const [from, to] = this.of.place(this.at);
    this.cursor.setAttribute('x', from);
    this.cursor.setAttribute('width', Math.max(2, to - from));
  }
}

const plotHeight = 150, plotTop = 8, plotBottom = 20;

// TimeChart shows one or two rates over time, as steps. The second rate is a part of the first.
export class TimeChart {
  constructor(title, names) {
    this.picture = svg('svg', { class: 'plot', height: plotHeight, tabindex: 0, role: 'img', 'aria-label': title });
    this.reader = new Reader(this.picture, plotTop, plotHeight - plotTop - plotBottom, {
      size: () => this.points.length,
      find: (x) => this.points.findIndex((_, i) => this.place(i)[0] <= x && x < this.place(i)[1]),
      place: (i) => this.place(i),
      text: (i) => `${when(this.points[i].from)}: ${names.map((name, n) => `${rate(this.points[i].values[n])} ${name}`).join(', ')}`,
    });
    this.element = h('figure', { class: 'chart' }, h('figcaption', {}, h('span', {}, title), this.reader.element), this.picture);
    Object.assign(this, { title, names, points: [], lines: svg('g'), numbers: svg('g'), areas: svg('g'), times: svg('g') });
    this.picture.append(this.lines, this.areas, this.numbers, this.times, this.reader.cursor);
    onWidth(this.element, (width) => { this.width = width; this.draw(); });
  }

  // update shows points of {from, to, values} in order of time. At times without a point, the values are zero. The time axis ends at
  // until or later.
  update(points, until) {
    const key = JSON.stringify([points, until]);
    if (key === this.key) return;
    Object.assign(this, { key, points, until });
    this.draw();
  }

  draw() {
    const { width } = this;
    if (!width) return; // not visible yet
    const right = 6, bottom = plotHeight - plotBottom;
    const { points } = this;
    put(this.picture, { width });
    if (!points.length) {
      for (const group of [this.lines, this.areas, this.numbers]) grow(group, 0);
      const [text] = grow(this.times, 1, () => svg('text'));
      set(put(text, { x: width / 2, y: plotHeight / 2, 'text-anchor': 'middle' }), 'Nothing yet');
      put(this.picture, { 'aria-label': `${this.title}: nothing yet` });
      return;
    }
    const start = points[0].from, end = Math.max(points.at(-1).to, this.until ?? 0);
    const largest = Math.max(...points.map((p) => p.values[0]));
    const grid = steps(largest), most = grid * Math.max(1, Math.ceil(largest / grid));
    const left = 12 + 6.5 * Math.max(rate(most).length, rate(grid).length);
    const x = (at) => left + ((at - start) / (end - start)) * (width - left - right);
    const y = (value) => plotTop + (1 - value / most) * (bottom - plotTop);
    this.place = (i) => [x(points[i].from), x(points[i].to)];
    const values = [];
    for (let value = 0; value <= most + grid / 2; value += grid) values.push(value);
    const lines = grow(this.lines, values.length, () => svg('line')), numbers = grow(this.numbers, values.length, () => svg('text', { 'text-anchor': 'end' }));
    values.forEach((value, i) => {
      put(lines[i], { class: value ? 'grid' : 'axis', x1: left, x2: width - right, y1: y(value), y2: y(value) });
      set(put(numbers[i], { x: left - 6, y: y(value) + 4 }), rate(value));
    });
    const places = width < 500 ? [0, 1] : [0, 0.5, 1];
    const times = grow(this.times, places.length, () => svg('text'));
    places.forEach((share, i) => set(put(times[i], { x: left + share * (width - left - right), y: plotHeight - 4, 'text-anchor': share === 0 ? 'start' : share === 1 ? 'end' : 'middle' }), when(start + share * (end - start))));
    const areas = grow(this.areas, this.names.length, () => svg('path'));
    this.names.forEach((_, n) => put(areas[n], { class: `area area${n}`, d: this.outline(n, x, y) }));
    this.reader.read(this.reader.at);
    const last = points.at(-1);
    put(this.picture, { 'aria-label': `${this.title}, from ${when(start)} to ${when(end)}: at most ${rate(largest)}, ` +
      `${rate(last.values[0])} at ${when(last.from)}. Use the arrow keys to read single values.` });
  }

  outline(n, x, y) {
    const zero = y(0).toFixed(1);
    let path = '', open;
    for (const { from, to, values } of this.points) {
      if (!values[n]) continue;
      if (from !== open) path += `${path && `V${zero}`}M${x(from).toFixed(1)} ${zero}`;
      path += `V${y(values[n]).toFixed(1)}H${x(to).toFixed(1)}`;
      open = to;
    }
    return path && `${path}V${zero}`;
  }
}

// keyText returns the text of a range's bound, which is a partition key, or a partition key and a row key.
const keyText = (bound) => bound && quoted(bound.partitionKey) + (bound.rowKey ? ` / ${quoted(bound.rowKey)}` : '');

const words = { done: 'done', leased: 'in progress', pending: 'pending', failed: 'with failures' };

// Strip shows ranges in table order. A range's width is proportional to its rows. A pending range's width is proportional to the rows that remain.
export class Strip {
  constructor() {
    this.picture = svg('svg', { class: 'strip', height: 34, tabindex: 0, role: 'img', 'aria-label': 'Key space' });
    this.reader = new Reader(this.picture, 2, 30, {
      size: () => this.ranges.length,
      find: (x) => this.places.findIndex(([from, to]) => from <= x && x < to),
      place: (i) => this.places[i],
      text: (i) => {
        const { state, rows, from, to } = this.ranges[i];
        return `${words[state] ?? state}, ${plural(rows ?? 0, 'row')} read, from ${keyText(from) || 'the beginning'} to ${keyText(to) || 'the end'}`;
      },
    });
    this.marks = Object.keys(words).map((state) => h('span', { class: `mark ${state}`, hidden: true }));
    this.legend = h('p', { class: 'legend' }, this.marks);
    this.rows = h('tbody');
    this.table = h('details', { ontoggle: () => this.list() }, h('summary', {}, 'Ranges as a table'),
      h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Ranges' }, h('table', { class: 'fixed' }, h('thead', {}, h('tr', {}, ['State', 'From', 'To', 'Rows read'].map((name) => h('th', { scope: 'col', class: name === 'Rows read' && 'number' }, name)))), this.rows)));
    this.element = h('div', { class: 'ranges' }, this.picture, h('div', { class: 'under' }, this.legend, this.reader.element), this.table);
    [this.ranges, this.places, this.group] = [[], [], svg('g')];
    this.picture.append(this.group, this.reader.cursor);
    onWidth(this.element, (width) => { this.width = width; this.draw(); });
  }

  update(ranges, progress) {
    const key = JSON.stringify([ranges, progress]);
    if (key === this.key) return;
    Object.assign(this, { key, ranges, progress });
    Object.keys(words).forEach((state, i) => {
      const size = ranges.filter((r) => r.state === state).length;
      const wide = state === 'pending' && !progress ? ', size unknown' : '';
      show(this.marks[i], size > 0);
      set(this.marks[i], size ? `${words[state]}: ${plural(size, 'range')}${wide}` : '');
    });
    put(this.picture, { 'aria-label': `Key space: ${this.marks.filter((m) => !m.hidden).map((m) => m.textContent).join('; ') || 'nothing yet'}. Use the arrow keys to read single ranges.` });
    this.draw();
    this.list();
  }

  // widths returns the ranges' weights: a done range's rows, and a pending range's share of the rows that remain by the estimated progress.
  widths() {
    const { ranges } = this;
    const left = (r) => r.state === 'pending' || r.state === 'leased';
    const pending = ranges.filter(left).length;
    const rows = ranges.reduce((sum, r) => sum + (r.rows ?? 0), 0);
    const p = this.progress > 0 && this.progress < 1 ? this.progress : 0.5;
    const each = pending ? (rows ? (rows * (1 - p)) / p / pending : 1) : 0;
    const weights = ranges.map((r) => (r.rows ?? 0) + (left(r) ? each : 0));
    const all = weights.reduce((a, b) => a + b, 0) || 1;
    const least = Math.min(0.004, 0.5 / ranges.length);
    const shares = weights.map((w) => Math.max(least, w / all));
    const sum = shares.reduce((a, b) => a + b, 0);
    return shares.map((share) => share / sum);
  }

  draw() {
    const { width } = this;
    if (!width) return; // not visible yet
    put(this.picture, { width });
    let x = 0;
    this.places = this.widths().map((share) => [x, (x += share * width)]);
    const rects = grow(this.group, this.ranges.length, () => svg('rect', { y: 4, height: 26 }));
    this.ranges.forEach((r, i) => {
      const [from, to] = this.places[i];
      put(rects[i], { class: r.state, x: from.toFixed(1), width: Math.max(0.5, to - from - (to - from > 4 ? 1 : 0)).toFixed(1) });
    });
    this.reader.read(this.reader.at);
  }

  list() {
    if (!this.table.open) return;
    const rows = grow(this.rows, this.ranges.length, () => h('tr', {}, h('td', {}, h('span')), h('td', { class: 'key' }), h('td', { class: 'key' }), h('td', { class: 'number' })));
    this.ranges.forEach((r, i) => {
      const [state, from, to, count_] = rows[i].children;
      put(state.firstChild, { class: `mark ${r.state}` });
      set(state.firstChild, words[r.state] ?? r.state);
      bound(from, r.from, 'the beginning');
      bound(to, r.to, 'the end');
      set(count_, count(r.rows));
    });
  }
}

// bound shows a range's bound in a cell.
function bound(cell, at, none) {
  if (!at) {
    cell.exact = undefined;
    set(cell, none);
  } else rename(cell, at.rowKey ? `${at.partitionKey} / ${at.rowKey}` : at.partitionKey);
}
