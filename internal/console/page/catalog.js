// Catalogs: records by any of their keys, and the newest changes.
import { h, set, show, moment, plural } from './dom.js';
import { Live, call, exactly } from './api.js';
import { brief, fieldOf, openRecord, valueText } from './record.js';

const pageTop = 50;
const changesInterval = 5000;

// part splits a key as the settings have it, such as ssn:digits, into its field and what is said of it.
function part(text) {
  const [, field, rule = ''] = /^(.*?)(?::(lower|digits|exact|text|newest|number:desc|number))?$/s.exec(text);
  return { field, rule };
}

const rules = { digits: 'digits alone count', exact: 'upper and lower case differ', newest: 'a time', number: 'a number', 'number:desc': 'a number' };
const pathOf = (name) => (name ? `catalog/${encodeURIComponent(name)}` : 'catalog');
const titleOf = (name) => name || 'default';
const addressOf = (name, query) => `#/catalog/${encodeURIComponent(name || '-')}${query?.size ? `?${query}` : ''}`;

// showCatalog shows a catalog; its address has what is looked up, so that one can go back.
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
      body.replaceChildren(h('p', { class: 'empty' }, 'This app has no catalog. The setting TABLE_CATALOG_NAME makes one; more come by TABLESWEEP_CATALOGS.'));
      return 60_000;
    }
    const wanted = path[1] === undefined ? catalogs[0].name : path[1] === '-' ? '' : path[1];
    const found = catalogs.find((c) => c.name === wanted);
    body.replaceChildren(choice(catalogs, wanted));
    if (!found) {
      body.append(h('p', { class: 'empty' }, `There is no catalog “${wanted}”.`));
      return 60_000;
    }
    document.title = `${titleOf(wanted)} · Catalog · Tablesweep`;
    catalog = path[2] === 'changes' ? changes(found, body) : records(found, query, body);
    return catalog.refresh();
  }, changesInterval);
  body.addEventListener('refresh', () => live.now());
}

function choice(catalogs, wanted) {
  const links = catalogs.map((c) => h('a', { href: addressOf(c.name), 'aria-current': c.name === wanted ? 'true' : undefined }, titleOf(c.name)));
  return catalogs.length > 1 ? h('nav', { class: 'tabs', 'aria-label': 'Catalogs' }, links) : '';
}

function modes(catalog, isChanges) {
  return h('nav', { class: 'tabs', 'aria-label': 'Records or changes' },
    h('a', { href: addressOf(catalog.name), 'aria-current': isChanges ? undefined : 'true' }, 'Records'),
    h('a', { href: `${addressOf(catalog.name)}/changes`, 'aria-current': isChanges ? 'true' : undefined }, 'Newest changes'));
}

// rowsOf makes a table of records: a column for each key, and one for the rest. open shows all of one; first names
// the columns before, whose cells cells makes.
function rowsOf(catalog, records, open, first = [], cells = () => []) {
  const columns = [...catalog.indexKeys, catalog.rowKey].map((text) => part(text).field);
  return h('div', { class: 'scroll' }, h('table', { class: 'cards' },
    h('thead', {}, h('tr', {}, [...first, ...columns, 'other fields', ''].map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', {}, records.map((record, i) => h('tr', {}, cells(i), columns.map((name) => {
      const value = fieldOf(record, name);
      return h('td', { class: 'key', 'data-name': name }, value === undefined ? '' : valueText(value));
    }), h('td', { class: 'wide' }, brief(record, columns)), h('td', {}, h('button', { type: 'button', class: 'link', onclick: () => open(i) }, 'All fields')))))));
}

// records looks records up.
function records(catalog, query, body) {
  const keys = catalog.indexKeys.map(part);
  const sort = part(catalog.rowKey);
  const inputs = [
    ...keys.map((k) => ({ name: k.field, label: k.field, hint: rules[k.rule] })),
    { name: 'row_prefix', label: `${sort.field} begins with`, hint: rules[sort.rule] },
    { name: 'row_from', label: `${sort.field} from` },
    { name: 'row_to', label: `${sort.field} to` },
  ].map((f, i) => {
    const control = h('input', { id: `key-${i}`, name: f.name, type: 'text', value: query.get(f.name) ?? '', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false' });
    return { ...f, control, element: h('div', { class: 'field' }, h('label', { for: `key-${i}` }, f.label), control, h('span', { class: 'hint' }, f.hint ?? '')) };
  });
  const trouble = h('p', { class: 'banner', role: 'alert', hidden: true });
  const found = h('p', { class: 'hint', role: 'status' });
  const list = h('div');
  const next = h('a', { class: 'button', hidden: true }, 'Next page');
  const form = h('form', { class: 'search', onsubmit: (event) => {
    event.preventDefault();
    const asked = new URLSearchParams(inputs.filter((f) => f.control.value !== '').map((f) => [f.name, f.control.value]));
    const to = addressOf(catalog.name, asked);
    if (location.hash === to) body.dispatchEvent(new Event('refresh'));
    else location.hash = to;
  } }, h('div', { class: 'fields' }, inputs.map((f) => f.element)), h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'primary' }, 'Look up'), h('span', { class: 'hint' }, 'Several keys must all match. Without keys, all records are listed.')));
  body.append(modes(catalog, false), form, trouble, found, list, h('div', { class: 'actions' }, next));
  return {
    async refresh() {
      show(trouble, false);
      let page;
      try {
        page = await call('GET', `${pathOf(catalog.name)}/records`, { query: { ...Object.fromEntries(query), top: pageTop }, parse: exactly });
      } catch (error) {
        if (error.away || error.needsKey) throw error;
        set(trouble, error.message);
        show(trouble, true);
        return 3_600_000;
      }
      set(found, `${plural(page.records.length, 'record')}${page.cursor ? ' on this page' : ''}`);
      const open = (i) => openRecord('Record', page.records[i], [page.meta?.[i] && `id ${page.meta[i].id}`, page.meta?.[i]?.etag && `ETag ${page.meta[i].etag}`]);
      list.replaceChildren(page.records.length ? rowsOf(catalog, page.records, open) : '');
      show(next, Boolean(page.cursor));
      if (page.cursor) {
        const on = new URLSearchParams(query);
        on.set('cursor', page.cursor);
        next.href = addressOf(catalog.name, on);
      }
      return 3_600_000; // until somebody asks again
    },
  };
}

// changes lists what was written last.
function changes(catalog, body) {
  const list = h('div');
  body.append(modes(catalog, true), list);
  let newest = '';
  return {
    async refresh() {
      const { changes: all } = await call('GET', `${pathOf(catalog.name)}/changes`, { query: { top: pageTop }, parse: exactly });
      const key = all.map((c) => c.id).join();
      if (key !== newest || !all.length) {
        newest = key;
        const open = (i) => openRecord(`Record, ${all[i].kind}`, all[i].record, [`written ${all[i].time}`]);
        const cells = (i) => [h('td', { 'data-name': 'time' }, moment(all[i].time)), h('td', { 'data-name': 'change' }, all[i].kind)];
        list.replaceChildren(all.length ? rowsOf(catalog, all.map((c) => c.record), open, ['time', 'change'], cells) : h('p', { class: 'empty' }, 'No changes are kept.'));
      }
      return changesInterval;
    },
  };
}
