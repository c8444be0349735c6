// The page's frame: the current view, the key, and the state of the refreshes.
import { h, set, show, time, announce } from './dom.js';
import { Live, Problem, key, untilAsked } from './api.js';

const main = document.getElementById('main');
const live = document.getElementById('live');
const banner = document.getElementById('banner');
const keyButton = document.getElementById('key');

// parts splits an address such as #/catalog/people?eid=7.
function parts() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const decoded = path.split('/').map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return { path: decoded, query: new URLSearchParams(query ?? '') };
}

// views contains the file of each view, which is loaded when the view is first opened, and the function that shows the view.
const views = {
  scans: ({ path }) => (!path[1] ? ['scans', 'listScans'] : path[1] === 'new' ? ['form', 'newScan'] : ['scan', 'showScan']),
  schedules: () => ['schedules', 'showSchedules'],
  catalog: () => ['catalog', 'showCatalog'],
  logs: () => ['logs', 'showLogs'],
  health: () => ['health', 'showHealth'],
};
const loaded = {}; // by file

let shown = ''; // the address without its query
let follow; // passes another query to the current view, if the view supports that

// open shows the view of the address. A view that refreshes itself makes a Live. A view may return a function, which is called with the
// address if only its query changes. The function returns true if it has handled the change.
function open() {
  const at = parts();
  if (!at.path[0]) {
    location.replace('#/scans');
    return;
  }
  const place = at.path.join('/');
  for (const dialog of document.querySelectorAll('dialog[open]')) dialog.close();
  if (shown === place && follow?.(at)) return;
  Live.current?.stop();
  show(banner, false);
  set(live, '');
  live.className = 'live';
  main.classList.remove('old');
  for (const link of document.querySelectorAll('nav a')) {
    const current = link.hash === `#/${at.path[0]}`;
    if (current) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  main.replaceChildren();
  document.title = 'Tablesweep';
  const moved = shown && shown !== place;
  shown = place;
  follow = undefined;
  if (!Object.hasOwn(views, at.path[0])) {
    document.title = 'No such page · Tablesweep';
    main.append(h('h1', {}, 'No such page'), h('a', { class: 'button', href: '#/scans' }, 'All scans'));
    main.focus({ preventScroll: true });
    return;
  }
  const [file, name] = views[at.path[0]](at);
  const begin = () => {
    follow = loaded[file][name](main, at);
    if (!moved) return;
    window.scrollTo(0, 0);
    if (!main.contains(document.activeElement)) main.focus({ preventScroll: true });
  };
  if (loaded[file]) {
    begin();
    return;
  }
  const loader = new Live(async () => {
    loaded[file] = await import(`./${file}.js`).catch(() => { throw new Problem('The app does not answer.'); });
    if (Live.current === loader) begin();
    return untilAsked;
  }, 1000);
}

const message = h('span', { role: 'alert' }), next = h('span');
const again = h('button', { class: 'link', onclick: () => Live.current?.now() }, 'Try now');
const enter = h('button', { class: 'link', onclick: () => askKey() }, 'Enter a key');
banner.append(message, ' ', next, ' ', again, enter);

// showState shows the state of the refreshes, at every change and once a second, so that a late answer is visible before the request fails. The time of the
// figures remains, and outdated figures are grey.
function showState() {
  const l = Live.current;
  if (!l) return;
  const { problem, late } = l, often = l.interval < Live.hiddenInterval;
  live.className = `live ${problem ? 'bad' : late ? 'late' : often ? '' : 'read'}`;
  main.classList.toggle('old', Boolean(problem || late));
  const at = l.last && time(l.last);
  show(banner, Boolean(problem || late));
  if (!problem && !late) {
    if (at) set(live, !often ? `Read at ${at}` : document.hidden ? 'Once a minute while hidden' : `Live · ${at}`);
    return;
  }
  set(live, [!problem ? 'Late' : problem.needsKey ? 'No access' : problem.away ? 'Not answering' : 'Stopped', at && `read at ${at}`].filter(Boolean).join(' · '));
  banner.className = problem ? 'banner' : 'banner waits';
  set(message, problem ? problem.message.replace(/^./, (c) => c.toUpperCase()).replace(/[^.]$/, '$&.') : 'The app has not answered for more than 5 s.');
  show(enter, Boolean(problem?.needsKey));
  show(again, Boolean(problem && !problem.needsKey));
  const tries = problem?.away && (l.running ? 'Trying …' : `Next try in ${Math.max(0, Math.ceil((l.next - performance.now()) / 1000))} s`);
  set(next, [at && `Figures from ${at}`, tries].filter(Boolean).join(' · '));
}

Live.askKey = askKey;
Live.report = (l) => {
  if (l.asks) askKey();
  l.asks = false;
  show(keyButton, Boolean(key.get() || l.problem?.needsKey) || !keyButton.hidden);
  showState();
};
setInterval(showState, 1000);

// askKey asks the user for the key, and retries with it. The page keeps its content.
function askKey(problem = Live.current?.problem) {
  if (document.querySelector('dialog[open]')) return;
  const input = h('input', { type: 'password', name: 'key', 'aria-describedby': 'key-why key-wrong' });
  const wrong = h('p', { class: 'error', id: 'key-wrong', role: 'alert' });
  const dialog = h('dialog', { 'aria-labelledby': 'key-title' },
    h('form', { onsubmit: (event) => { event.preventDefault(); done(input.value.trim()); } },
      h('h2', { id: 'key-title' }, 'Key of the app'),
      h('p', { id: 'key-why' }, problem?.needsKey ? problem.message : 'A host key opens every page. A function key opens only the pages of its function.'),
      h('label', {}, 'Key', input), wrong,
      h('p', { class: 'hint' }, 'The key stays in this browser tab. It is sent only to this app, in a header.'),
      h('div', { class: 'actions' },
        h('button', { type: 'submit', class: 'primary' }, 'Use this key'),
        h('button', { onclick: () => dialog.close() }, 'Not now'),
        key.get() && h('button', { class: 'right', onclick: () => done('') }, 'Forget the key'))));
  function done(value) {
    if (!key.possible(value)) {
      set(wrong, 'A key cannot contain these characters. Copy it again.');
      input.setAttribute('aria-invalid', 'true');
      return;
    }
    key.set(value);
    dialog.close();
    Object.assign(Live.current, { problem: null, failures: 0 }); // so that the next refusal is shown
    Live.current.now();
  }
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

keyButton.addEventListener('click', () => askKey());
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault(); // because the address contains the view
  main.focus();
});
window.addEventListener('hashchange', open);
window.addEventListener('unhandledrejection', (event) => {
  if (event.reason instanceof Problem) announce(event.reason.message);
});
show(keyButton, Boolean(key.get()));
open();
