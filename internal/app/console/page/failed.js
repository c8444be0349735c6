// A scan's failed rows, by reason and one by one.
import { h, set, show, count, plural } from './dom.js';
import { call, messageOf } from './api.js';
import { name, visible } from './names.js';

const failedTop = 50, moreFailed = 500, failedInterval = 5000;
const whole = 1000; // rows in each call of a download

// failedRows lists the failed rows, page by page, on demand.
export function failedRows(id) {
  const address = `scans/${encodeURIComponent(id)}/failed`;
  const body = h('tbody');
  const note = h('p', { class: 'hint', role: 'status' });
  const reasons = h('ul', { class: 'reasons' });
  const more = h('button', { hidden: true, onclick: () => { readsOn = true; load(true); } }, 'Show more');
  const save = h('button', { onclick: () => download() }, 'Download');
  const table = h('table', {}, h('caption', { class: 'unseen' }, 'Failed rows'), h('thead', {}, h('tr', {}, ['PartitionKey', 'RowKey', 'Reason'].map((name) => h('th', { scope: 'col' }, name)))), body);
  const element = h('section', { class: 'failures', hidden: true }, h('div', { class: 'title' }, h('h2', {}, 'Failed rows'), note, h('span', { class: 'grow' }), save), reasons,
    h('details', {}, h('summary', {}, 'Rows'), h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Failed rows' }, table), more));
  let cursor = '', total = -1, requested = -failedInterval, readsOn = false;
  let last = Promise.resolve(); // pages are read one after the other
  const load = (goesOn) => { last = last.then(() => read(goesOn)); };
  async function read(goesOn) {
    const from = goesOn ? cursor : '';
    if (goesOn && !from) return; // the previous page was the last one
    try {
      const page = await call('GET', address, { query: { top: from ? moreFailed : failedTop, cursor: from } });
      if (!from) {
        body.replaceChildren();
        group(page);
      }
      body.append(...page.rows.map((r) => h('tr', {}, h('td', { class: 'key' }, name(r.partitionKey, { always: true })), h('td', { class: 'key' }, name(r.rowKey, { always: true })), h('td', {}, visible(r.reason)))));
      cursor = page.cursor ?? '';
      show(more, Boolean(cursor));
      const kept = page.kept < page.total ? ` ${count(page.kept)} of them are listed.` : '';
      set(note, `${plural(page.total, 'row')} could not be written.${kept}`);
      total = page.total; // may be up to 15 s old, and is then read again
    } catch (error) {
      set(note, messageOf(error));
    }
  }

  // group shows the number of kept rows for each reason, and the first of these rows.
  function group({ groups = [], grouped, total: all }) {
    reasons.replaceChildren(...groups.map((g) => h('li', {}, h('strong', {}, visible(g.code)), ` ${plural(g.count, 'row')}${grouped < all ? `, of ${count(all)}` : ''}`,
      h('ul', {}, g.first.map((r) => h('li', { class: 'key' }, name(r.partitionKey), ' / ', name(r.rowKey)))))));
  }

  // download saves all kept rows as JSON lines, in the form that --rows reads.
  async function download() {
    save.disabled = true;
    try {
      const lines = [];
      for (let from = '', first = true; first || from; first = false) {
        const page = await call('GET', address, { query: { top: whole, cursor: from } });
        lines.push(...page.rows.map((r) => `${JSON.stringify({ PartitionKey: r.partitionKey, RowKey: r.rowKey, reason: r.reason })}\n`));
        from = page.cursor ?? '';
      }
      const link = h('a', { href: URL.createObjectURL(new Blob(lines, { type: 'application/x-ndjson' })), download: `failed-${id}.jsonl` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    } catch (error) {
      set(note, messageOf(error));
    }
    save.disabled = false;
  }

  return {
    element,
    update(failed) {
      show(element, failed > 0);
      if (!failed || failed === total || readsOn) return; // do not move the user back to the first page
      if (performance.now() - requested < failedInterval) return;
      requested = performance.now();
      load(false);
    },
  };
}
