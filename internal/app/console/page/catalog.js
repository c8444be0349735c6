// Catalogs: looks up records by any of their keys, and shows the newest changes.
import { h, set, show, arrange, moment, nothing, plural } from './dom.js';
import { Live, call, exactly, messageOf, untilAsked } from './api.js';
import { name as shown, visible } from './names.js';
import { brief, fieldOf, openRecord, valueText } from './record.js';

const pageTop = 50;
const changesInterval = 5000;

// part splits an index key, such as ssn:digits, into its field and its option.
function part(text) {
  const [, field, rule = ''] = /^(.*?)(?::(lower|digits|exact|text|newest|number:desc|number))?$/s.exec(text);
  return { field, rule };
}

const rules = { digits: 'only digits are compared', exact: 'case-sensitive', newest: 'a time', number: 'a number', 'number:desc': 'a number' };
const pathOf = (name) => (name ? `catalog/${encodeURIComponent(name)}` : 'catalog');
const titleOf = (name) => name || 'default';
const addressOf = (name, query) => `#/catalog/${encodeURIComponent(name || '-')}${query?.size ? `?${query}` : ''}`;

// without returns a copy of the query without a parameter.
function without(query, name) {
  const rest = new URLSearchParams(query);
  rest.delete(name);
  return rest;
}

// showCatalog shows a catalog. The address contains the lookup, so that the browser's back button works. showCatalog returns a function
// that shows another lookup.
export function showCatalog(main, { path, query }) {
  document.title = 'Catalog · Tablesweep';
  const title = h('h1', {}, 'Catalog');
  const body = h('div', {}, h('p', { class: 'empty' }, 'Loading …'));
  main.append(title, body);
  let catalog;
  const live = new Live(async () => {
    if (catalog) return catalog.refresh();
    const { catalogs } = await call('GET', 'catalog');
    if (!catalogs.length) {
      body.replaceChildren(nothing('This app has no catalog. The setting TABLE_CATALOG_NAME creates one. TABLESWEEP_CATALOGS creates more.'));
      return 60_000;
    }
    const named = (n) => catalogs.find((c) => c.name === n);
    const found = path[1] ? named(path[1]) ?? (/^(-|default)$/.test(path[1]) ? named('') : undefined) : catalogs[0], wanted = found?.name ?? path[1];
    body.replaceChildren(choice(catalogs, wanted));
    if (!found) {
      body.append(nothing(`There is no catalog “${visible(wanted)}”.`, catalogs.map((c) => h('a', { class: 'button', href: addressOf(c.name) }, visible(titleOf(c.name))))));
      return 60_000;
    }
    document.title = `${visible(titleOf(wanted))} · Catalog · Tablesweep`;
    catalog = path[2] === 'changes' ? changes(found, body) : records(found, query, body, () => live.now());
    return catalog.refresh();
  }, changesInterval);
  return (at) => {
    if (!catalog?.go?.(at.query)) return false;
    live.now();
    return true;
  };
}

// choice lets the user choose among several catalogs.
function choice(catalogs, wanted) {
  if (catalogs.length < 2) return '';
  const select = h('select', { id: 'catalog', onchange: () => { location.hash = select.value; } }, catalogs.map((c) => h('option', { value: addressOf(c.name), selected: c.name === wanted }, visible(titleOf(c.name)))));
  return h('div', { class: 'choice' }, h('label', { for: 'catalog' }, 'Catalog'), select);
}

function modes(catalog, isChanges) {
  return h('nav', { class: 'tabs', 'aria-label': 'Records or changes' },
    h('a', { href: addressOf(catalog.name), 'aria-current': isChanges ? undefined : 'true' }, 'Records'),
    h('a', { href: `${addressOf(catalog.name)}/changes`, 'aria-current': isChanges ? 'true' : undefined }, 'Newest changes'));
}

// recordRows makes a table of records, with a column for each key and a column for the other fields. first contains the names of the first columns.
function recordRows(catalog, first = []) {
  const columns = [...catalog.indexKeys, catalog.rowKey].map((text) => part(text).field);
  const body = h('tbody');
  const row = ({ record, cells = [], open }) => h('tr', {}, cells, columns.map((name) => {
    const value = fieldOf(record, name);
    return h('td', { class: 'key', 'data-name': visible(name) }, value === undefined ? '' : shown(valueText(value)));
  }), h('td', { class: 'wide' }, brief(record, columns)), h('td', {}, h('button', { class: 'link', onclick: open }, 'All fields')));
  let rows = new Map(); // by id
  const element = h('div', { class: 'scroll', hidden: true, tabindex: 0, role: 'region', 'aria-label': 'Records' }, h('table', { class: 'cards' },
    h('thead', {}, h('tr', {}, [...first, ...columns, 'other fields', ''].map((name) => name ? h('th', { scope: 'col' }, visible(name)) : h('td')))), body));
  return {
    element,
    // update shows the records. Each has an id that changes with its contents, the cells of the first columns, and a
    // function that shows the whole record.
    update(all) {
      rows = new Map(all.map((one) => [one.id, rows.get(one.id) ?? row(one)]));
      arrange(body, [...rows.values()]);
      show(element, all.length > 0);
    },
  };
}

// records looks up records.
function records(catalog, query, body, again) {
  const keys = catalog.indexKeys.map(part);
  const sort = part(catalog.rowKey);
  const fields = [
    ...keys.map((k) => ({ name: k.field, label: k.field, hint: rules[k.rule] })),
    ...(sort.rule.startsWith('number') ? [] : [{ name: 'row_prefix', label: `${sort.field} begins with` }]),
    { name: 'row_from', label: `${sort.field} from`, hint: rules[sort.rule] },
    { name: 'row_to', label: `${sort.field} to` },
  ];
  // An address may have several values for one key, of which one must match. Each value has its own input.
  const given = (name) => { const values = query.getAll(name); return values.length ? values : ['']; };
  const shape = () => fields.map((f) => given(f.name).length).join();
  const drawn = shape();
  const inputs = fields.flatMap((f) => given(f.name).map((value, n) => ({ ...f, n, label: n ? `or ${f.label}` : f.label }))).map((f, i) => {
    const control = h('input', { id: `key-${i}`, name: f.name, value: given(f.name)[f.n] });
    return { ...f, control, element: h('div', { class: 'field' }, h('label', { for: `key-${i}` }, visible(f.label)), control, h('span', { class: 'hint' }, f.hint ?? '')) };
  });
  const trouble = h('p', { class: 'banner', role: 'alert', hidden: true });
  const found = h('p', { class: 'hint', role: 'status', tabindex: -1 });
  const list = recordRows(catalog);
  const next = h('a', { class: 'button', hidden: true }, 'Next page'), first = h('a', { class: 'button', hidden: true }, 'First page');
  const all = h('a', { class: 'button', href: addressOf(catalog.name) }, 'Show all records'), none = nothing('', all);
  show(none, false);
  const total = h('span', { class: 'hint', role: 'status' }), countButton = h('button', { onclick: () => countAll() }, 'Count');
  const form = h('form', { class: 'search', onsubmit: (event) => {
    event.preventDefault();
    const requested = new URLSearchParams(inputs.map((f) => [f.name, f.control.value.trim()]).filter(([, value]) => value !== ''));
    const to = addressOf(catalog.name, requested);
    if (location.hash === to) again();
    else location.hash = to;
  } }, h('div', { class: 'fields' }, inputs.map((f) => f.element)), h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'primary' }, 'Look up'), countButton, total, h('span', { class: 'hint' }, 'A record must match all keys. Without keys, all records are listed.')));
  body.append(modes(catalog, false), form, trouble, found, none, list.element, h('div', { class: 'actions' }, first, next));

  // countAll counts the records of the address's lookup, in several calls if necessary.
  async function countAll() {
    const requested = query, wanted = [...query].filter(([name]) => name !== 'cursor');
    countButton.disabled = true;
    try {
      for (let sum = 0, cursor; requested === query && cursor !== '';) {
        const page = await call('GET', `${pathOf(catalog.name)}/count`, { query: [...wanted, ['cursor', cursor]] });
        sum += page.count;
        cursor = page.cursor ?? '';
        if (requested === query) set(total, `${cursor ? 'at least ' : ''}${plural(sum, 'record')} in all`);
      }
    } catch (error) {
      set(total, messageOf(error));
    }
    countButton.disabled = false;
  }

  return {
    go(to) {
      if ([next, first].includes(document.activeElement)) found.focus(); // the next page starts here
      query = to;
      set(total, '');
      if (shape() !== drawn) return false; // the form needs other inputs
      for (const f of inputs) f.control.value = given(f.name)[f.n];
      set(found, 'Looking up …');
      return true;
    },
    async refresh() {
      const requested = query;
      show(trouble, false);
      let page;
      try {
        page = await call('GET', `${pathOf(catalog.name)}/records`, { query: [...query, ['top', pageTop]], parse: exactly });
      } catch (error) {
        if (error.away || error.needsKey) throw error;
        set(found, '');
        list.update([]); // the shown records are from another lookup
        for (const element of [none, first, next]) show(element, false);
        set(trouble, error.fields.map(({ field = '', detail }) => `${field} ${detail}`.trim()).join(' ') || error.message);
        show(trouble, true);
        return untilAsked;
      }
      if (requested !== query) return untilAsked; // another run follows
      set(found, `${plural(page.records.length, 'record')}${page.cursor ? ' on this page' : ''}`);
      show(first, query.has('cursor'));
      first.href = addressOf(catalog.name, without(query, 'cursor'));
      show(none, !page.records.length && !page.cursor);
      set(none.firstChild, query.size ? 'No record has these keys.' : 'No record yet. POST /api/catalog/records inserts one.');
      show(all, query.size > 0);
      list.update(page.records.map((record, i) => {
        const { id, etag } = page.meta[i];
        return { id: `${id} ${etag}`, record, open: () => openRecord('Record', record, [`id ${id}`, `ETag ${etag}`]) };
      }));
      show(next, Boolean(page.cursor));
      if (page.cursor) {
        const on = without(query, 'cursor');
        on.set('cursor', page.cursor);
        next.href = addressOf(catalog.name, on);
      }
      return untilAsked;
    },
  };
}

// changes lists the newest changes.
function changes(catalog, body) {
  const list = recordRows(catalog, ['time', 'change']);
  const none = nothing('No recent changes.', h('a', { class: 'button', href: addressOf(catalog.name) }, 'Records'));
  show(none, false);
  body.append(modes(catalog, true), none, list.element);
  return {
    async refresh() {
      const { changes: all } = await call('GET', `${pathOf(catalog.name)}/changes`, { query: { top: pageTop }, parse: exactly });
      list.update(all.map(({ id, record, kind, time }) => ({
        id, record, open: () => openRecord(`Record, ${kind}`, record, [`written ${time}`]),
        cells: [h('td', { 'data-name': 'time' }, moment(time)), h('td', { 'data-name': 'change' }, kind)],
      })));
      show(none, !all.length);
      return changesInterval;
    },
  };
}
