// Charts as SVG, drawn to the width that there is: values over time, and a strip of ranges.
import { h, svg, set, show, time, rate, count, plural } from './dom.js';

// onWidth calls back with the width inside an element when it has got another.
function onWidth(element, draw) {
  let last = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.max(200, Math.floor(entry.contentRect.width));
    if (width !== last) draw(last = width);
  }).observe(element);
}

// steps returns the nicest number of which the largest value has at most four.
function steps(largest) {
  if (!(largest > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(largest / 4));
  return [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => largest / n <= 4);
}

// TimeChart shows one or two values a second over time as steps; the second lies within the first.
export class TimeChart {
  constructor(title, names) {
    this.names = names;
    this.reading = h('output', { class: 'reading' });
    this.picture = svg('svg', { class: 'plot', height: 150, tabindex: 0, role: 'img', onpointermove: (e) => this.point(e), onpointerleave: () => this.point(null), onkeydown: (e) => this.step(e), onblur: () => this.point(null) });
    this.element = h('figure', { class: 'chart' }, h('figcaption', {}, h('span', {}, title), this.reading), this.picture);
    this.title = title;
    this.points = [];
    onWidth(this.element, (width) => { this.width = width; this.draw(); });
  }

  // update takes points of {at, values} in order of time, each an interval of so many seconds; times without are zero.
  // until is where the time axis ends at least.
  update(points, interval, until) {
    const key = JSON.stringify([points, interval, until]);
    if (key === this.key) return;
    Object.assign(this, { key, points, interval, until });
    this.draw();
  }

  draw() {
    const { width } = this;
    if (!width) return; // it is not shown yet
    const height = 150, left = 52, right = 6, top = 8, bottom = 20;
    const { points, interval } = this;
    this.picture.setAttribute('width', width);
    if (!points.length) {
      this.picture.replaceChildren(svg('text', { x: width / 2, y: height / 2, 'text-anchor': 'middle' }, 'Nothing yet'));
      this.picture.setAttribute('aria-label', `${this.title}: nothing yet`);
      return;
    }
    const start = Date.parse(points[0].at), length = interval * 1000;
    const end = Math.max(Date.parse(points.at(-1).at) + length, this.until ?? 0);
    const largest = Math.max(...points.map((p) => p.values[0]));
    const grid = steps(largest), most = grid * Math.max(1, Math.ceil(largest / grid));
    const x = (at) => left + ((at - start) / (end - start)) * (width - left - right);
    const y = (value) => top + (1 - value / most) * (height - top - bottom);
    this.place = { x, y, left, top, bottom: height - bottom, width };
    const lines = [];
    for (let value = 0; value <= most + grid / 2; value += grid) {
      lines.push(svg('line', { class: value ? 'grid' : 'axis', x1: left, x2: width - right, y1: y(value), y2: y(value) }),
        svg('text', { x: left - 6, y: y(value) + 4, 'text-anchor': 'end' }, rate(value)));
    }
    const places = width < 500 ? [0, 1] : [0, 0.5, 1];
    const times = places.map((share) => svg('text', { x: left + share * (width - left - right), y: height - 4, 'text-anchor': share === 0 ? 'start' : share === 1 ? 'end' : 'middle' }, time(start + share * (end - start))));
    const areas = this.names.map((_, n) => svg('path', { class: `area area${n}`, d: this.outline(points, n, x, y, length) }));
    this.cursor = svg('line', { class: 'cursor', y1: top, y2: height - bottom, visibility: 'hidden' });
    this.picture.replaceChildren(...lines, ...areas, ...times, this.cursor);
    const last = points.at(-1);
    this.picture.setAttribute('aria-label', `${this.title}, from ${time(start)} to ${time(end)}: at most ${rate(largest)}, ` +
      `${rate(last.values[0])} at ${time(last.at)}. Arrow keys read single values.`);
  }

  outline(points, n, x, y, length) {
    const zero = y(0).toFixed(1);
    let path = '', open = NaN;
    for (const p of points) {
      if (!p.values[n]) continue;
      const at = Date.parse(p.at);
      if (at > open + length / 2) path += `V${zero}`;
      if (!(at <= open + length / 2)) path += `M${x(at).toFixed(1)} ${zero}`;
      path += `V${y(p.values[n]).toFixed(1)}H${x(at + length).toFixed(1)}`;
      open = at + length;
    }
    return path && `${path}V${zero}`;
  }

  point(event) {
    if (!this.points.length) return;
    if (!event) return this.read(-1);
    const at = event.clientX - this.picture.getBoundingClientRect().left;
    const length = this.interval * 1000;
    this.read(this.points.findLastIndex((p) => this.place.x(Date.parse(p.at)) <= at && at <= this.place.x(Date.parse(p.at) + 3 * length)));
  }

  step(event) {
    const to = { ArrowLeft: (this.at ?? this.points.length) - 1, ArrowRight: (this.at ?? -1) + 1, Home: 0, End: this.points.length - 1 }[event.key];
    if (to === undefined || !this.points.length) return;
    event.preventDefault();
    this.read(Math.max(0, Math.min(this.points.length - 1, to)));
  }

  read(at) {
    const p = this.points[at];
    this.at = p ? at : undefined;
    set(this.reading, p ? `${time(p.at)}: ${this.names.map((name, n) => `${rate(p.values[n])} ${name}`).join(', ')}` : '');
    if (!this.cursor) return;
    this.cursor.setAttribute('visibility', p ? 'visible' : 'hidden');
    if (p) {
      const x = this.place.x(Date.parse(p.at) + this.interval * 500);
      this.cursor.setAttribute('x1', x);
      this.cursor.setAttribute('x2', x);
    }
  }
}

// keyText writes a bound of a range: a key, or a place in a partition.
export function keyText(bound) {
  if (bound === undefined || bound === null || bound === '') return '';
  if (typeof bound === 'string') return JSON.stringify(bound);
  return JSON.stringify(bound.partitionKey) + (bound.rowKey ? ` / ${JSON.stringify(bound.rowKey)}` : '');
}

const rangeText = (r) => `${r.from ? `from ${keyText(r.from)}` : 'from the beginning'} ${r.to ? `to ${keyText(r.to)}` : 'to the end'}`;

// Strip shows ranges in table order: each as wide as its rows, those to come by what is left.
export class Strip {
  constructor() {
    this.picture = svg('svg', { class: 'strip', height: 34, tabindex: 0, role: 'img', onpointermove: (e) => this.point(e), onpointerleave: () => this.read(-1), onkeydown: (e) => this.step(e), onblur: () => this.read(-1) },
      svg('defs', {}, svg('pattern', { id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' },
        svg('rect', { class: 'failed', width: 6, height: 6 }), svg('rect', { class: 'stripe', width: 2, height: 6 }))));
    this.reading = h('output', { class: 'reading key' });
    this.legend = h('p', { class: 'legend' });
    this.rows = h('tbody');
    this.table = h('details', { ontoggle: () => this.list() }, h('summary', {}, 'Ranges as a table'),
      h('div', { class: 'scroll' }, h('table', {}, h('thead', {}, h('tr', {}, ['State', 'From', 'To', 'Rows'].map((name) => h('th', { scope: 'col', class: name === 'Rows' && 'number' }, name)))), this.rows)));
    this.element = h('div', { class: 'ranges' }, this.picture, h('div', { class: 'under' }, this.legend, this.reading), this.table);
    this.ranges = [];
    this.group = svg('g');
    this.picture.append(this.group);
    onWidth(this.element, (width) => { this.width = width; this.draw(); });
  }

  update(ranges, progress) {
    const key = JSON.stringify([ranges, progress]);
    if (key === this.key) return;
    Object.assign(this, { key, ranges, progress });
    const sums = {};
    for (const r of ranges) {
      sums[r.state] ??= { ranges: 0, rows: 0 };
      sums[r.state].ranges += 1;
      sums[r.state].rows += r.rows ?? 0;
    }
    const words = ['done', 'pending', 'failed'].filter((state) => sums[state])
      .map((state) => h('span', { class: `mark ${state}` }, `${state}: ${plural(sums[state].ranges, 'range')}${sums[state].rows ? `, ${plural(sums[state].rows, 'row')}` : ''}`));
    this.legend.replaceChildren(...words);
    this.picture.setAttribute('aria-label', `Key space: ${words.map((w) => w.textContent).join('; ') || 'nothing yet'}. Arrow keys read single ranges.`);
    this.draw();
    this.list();
  }

  // widths weighs the ranges: by rows, and what is pending by the rows that progress tells are left.
  widths() {
    const { ranges } = this;
    const pending = ranges.filter((r) => r.state === 'pending').length;
    const rows = ranges.reduce((sum, r) => sum + (r.rows ?? 0), 0);
    const p = this.progress > 0 && this.progress < 1 ? this.progress : 0.5;
    const each = pending ? (rows ? (rows * (1 - p)) / p / pending : 1) : 0;
    const weights = ranges.map((r) => (r.rows ?? 0) + (r.state === 'pending' ? each : 0));
    const all = weights.reduce((a, b) => a + b, 0) || 1;
    const least = Math.min(0.004, 0.5 / ranges.length);
    const shares = weights.map((w) => Math.max(least, w / all));
    const sum = shares.reduce((a, b) => a + b, 0);
    return shares.map((share) => share / sum);
  }

  draw() {
    const { width } = this;
    if (!width) return; // it is not shown yet
    this.picture.setAttribute('width', width);
    let x = 0;
    this.places = this.widths().map((share) => [x, (x += share * width)]);
    this.group.replaceChildren(...this.ranges.map((r, i) => {
      const [from, to] = this.places[i];
      return svg('rect', { class: r.state, x: from.toFixed(2), y: 4, width: Math.max(0.5, to - from - (to - from > 4 ? 1 : 0)).toFixed(2), height: 26, fill: r.state === 'failed' ? 'url(#hatch)' : undefined });
    }));
    this.cursor = svg('rect', { class: 'frame', y: 2, height: 30, visibility: 'hidden' });
    this.group.append(this.cursor);
  }

  list() {
    if (!this.table.open) return;
    this.rows.replaceChildren(...this.ranges.map((r) => h('tr', {}, h('td', {}, h('span', { class: `mark ${r.state}` }, r.state)),
      h('td', { class: 'key' }, keyText(r.from) || 'the beginning'), h('td', { class: 'key' }, keyText(r.to) || 'the end'), h('td', { class: 'number' }, count(r.rows)))));
  }

  point(event) {
    const x = event.clientX - this.picture.getBoundingClientRect().left;
    this.read(this.places?.findIndex(([from, to]) => from <= x && x < to) ?? -1);
  }

  step(event) {
    const to = { ArrowLeft: (this.at ?? this.ranges.length) - 1, ArrowRight: (this.at ?? -1) + 1, Home: 0, End: this.ranges.length - 1 }[event.key];
    if (to === undefined || !this.ranges.length) return;
    event.preventDefault();
    this.read(Math.max(0, Math.min(this.ranges.length - 1, to)));
  }

  read(at) {
    const r = this.ranges[at];
    this.at = r ? at : undefined;
    set(this.reading, r ? `${r.state}, ${plural(r.rows ?? 0, 'row')}, ${rangeText(r)}` : '');
    if (!this.cursor) return;
    this.cursor.setAttribute('visibility', r ? 'visible' : 'hidden');
    if (r) {
      const [from, to] = this.places[at];
      this.cursor.setAttribute('x', from);
      this.cursor.setAttribute('width', Math.max(2, to - from));
    }
  }
}
