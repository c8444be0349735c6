// Calls of the app's API with the key, and automatic refreshes.
import { setClock } from './dom.js';

const keyPlace = 'tablesweep-key'; // in the tab's own storage, which other tabs cannot read
const patience = 45_000; // the app needs up to 30 s to report which storage does not answer
const lateAfter = 5000; // after this time an answer is late

// untilAsked is the interval of a task that is repeated only on demand.
export const untilAsked = 3_600_000;

// key is the function key of all calls. An app on this machine needs no key.
export const key = {
  get: () => sessionStorage.getItem(keyPlace) ?? '',
  set: (value) => (value ? sessionStorage.setItem(keyPlace, value) : sessionStorage.removeItem(keyPlace)),
  // A key has no other characters, and a header could not contain them.
  possible: (value) => /^[\x21-\x7e]*$/.test(value),
};

// Problem is a failed call, with a message for users.
export class Problem extends Error {
  constructor(message, more = {}) {
    super(message);
    Object.assign(this, { status: 0, fields: [], ...more });
  }
  // needsKey: the app requires a key, or another key. away: a retry may succeed.
  get needsKey() { return this.status === 401; }
  get away() { return this.status === 0 || this.status === 429 || this.status >= 500; }
}

// owner returns the name of the function whose key is accepted for a path. A host key is accepted for every path.
function owner(path, method) {
  if (path.startsWith('scans')) return 'Scans';
  if (path.startsWith('schedules')) return 'Schedules';
  if (path.startsWith('log')) return 'EventLog';
  if (path === 'health') return 'Service';
  return method === 'GET' ? 'CatalogQuery' : 'CatalogInsert';
}

function refusal(method, path) {
  const opens = `a host key of the app, or a key of its function ${owner(path, method)}`;
  return key.get()
    ? `The app refused the key. This page needs ${opens}.`
    : `The app asks for a key: ${opens}.`;
}

// Exact is a number as text, because a 64-bit integer may have more digits than a JavaScript number.
export class Exact {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
  toJSON() { return JSON.rawJSON ? JSON.rawJSON(this.text) : Number(this.text); }
}

// exactly parses JSON, and keeps numbers as text.
export const exactly = (text) =>
  JSON.parse(text, (_, value, context) => (typeof value === 'number' ? new Exact(context?.source ?? String(value)) : value));

// messageOf returns the message of a failed call. If a key is missing, messageOf asks the user for the key.
export function messageOf(error) {
  if (error.needsKey) Live.askKey(error);
  return error.message;
}

// call makes a call below /api and returns its answer. An answer with the status also is not an error. The key is sent only in a header,
// because addresses are logged. A GET is aborted when the user leaves its page.
export async function call(method, path, { query = [], body, parse = JSON.parse, also } = {}) {
  const address = new URL(`../${path}`, location.href.split('#')[0]);
  for (const [name, value] of Array.isArray(query) ? query : Object.entries(query)) {
    if (value !== undefined && value !== '') address.searchParams.append(name, value);
  }
  const headers = { accept: 'application/json' };
  if (key.get()) headers['x-functions-key'] = key.get();
  if (body !== undefined) headers['content-type'] = 'application/json';
  let response, text;
  const ends = [AbortSignal.timeout(patience)];
  if (method === 'GET' && Live.current) ends.push(Live.current.gone.signal);
  try {
    response = await fetch(address, {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body),
      cache: 'no-store', credentials: 'same-origin', redirect: 'error', referrerPolicy: 'no-referrer', signal: AbortSignal.any(ends),
    });
    text = await response.text();
    setClock(response.headers.get('date'));
  } catch (error) {
    throw new Problem(error.name === 'TimeoutError' ? `The app took longer than ${patience / 1000} s to answer.` : 'The app does not answer.');
  }
  const type = response.headers.get('content-type') ?? '', json = type.includes('json');
  if (json && (response.ok || (response.status === also && !type.includes('problem')))) {
    try {
      const answer = parse(text);
      if (Live.current) Object.assign(Live.current, { last: Date.now(), requested: performance.now() });
      return answer;
    } catch {
      throw new Problem('The app’s answer is incomplete.');
    }
  }
  if (response.ok) throw new Problem('The answer did not come from the app.', { status: 502 });
  if (response.status === 401) throw new Problem(refusal(method, path), { status: 401 });
  let problem = {};
  if (json) try { problem = JSON.parse(text); } catch { /* not JSON: only the status is used */ }
  const plain = !json && text.length < 500 && !text.includes('<') ? text.trim() : '';
  throw new Problem(problem.detail || plain || `The app answered ${response.status} ${response.statusText}.`, {
    status: response.status,
    fields: problem.errors ?? (problem.field ? [{ field: problem.field, detail: problem.detail }] : []),
    retryAfter: Number(response.headers.get('retry-after')) || 0,
  });
}

// Live repeats a task while its page is open: once per interval, less often while the page is hidden, and with growing
// pauses while the app does not answer. It uses a clock that nobody can set. It calls report with its state: last is the time of the last answer,
// and requested is the time of the current request.
export class Live {
  static hiddenInterval = 60_000;
  static longestPause = 60_000;
  static report = () => {};
  static askKey = () => {};
  static current = null;

  constructor(task, interval) {
    Object.assign(this, { task, interval, failures: 0, timer: 0, next: 0, running: false, again: false, requested: 0, hid: performance.now(), gone: new AbortController() });
    Live.current?.stop();
    Live.current = this;
    this.wake = () => { if (document.hidden) this.plan(); else this.now(); };
    this.turn = () => {
      if (document.hidden) this.hid = performance.now();
      else this.requested += performance.now() - this.hid; // time on a hidden page does not count
      this.wake();
    };
    document.addEventListener('visibilitychange', this.turn);
    window.addEventListener('online', this.wake);
    this.now();
  }

  get stopped() { return this.gone.signal.aborted; }
  get late() { return this.running && !document.hidden && performance.now() - this.requested >= lateAfter; }

  stop() {
    this.gone.abort();
    clearTimeout(this.timer);
    document.removeEventListener('visibilitychange', this.turn);
    window.removeEventListener('online', this.wake);
    if (Live.current === this) Live.current = null;
  }

  // now runs the task immediately. If the task is already running, now runs it again afterwards, because data may have changed meanwhile.
  async now() {
    clearTimeout(this.timer);
    this.again = this.running;
    if (this.running || this.stopped) return;
    Object.assign(this, { running: true, next: 0, requested: performance.now() });
    try {
      const again = await this.task();
      if (again) this.interval = again;
      Object.assign(this, { failures: 0, problem: null });
    } catch (error) {
      if (!(error instanceof Problem)) console.error(error);
      const problem = error instanceof Problem ? error : new Problem('This page has failed. Reload it.', { status: -1 });
      this.asks = problem.needsKey && !this.problem?.needsKey; // even if the previous failure was another one
      this.problem = problem;
      this.failures += 1;
    }
    this.running = false;
    if (this.stopped) return;
    if (this.again) this.now();
    else this.plan();
  }

  // plan sets the time of the next run. After a wrong key or a missing resource, a retry cannot help, so the next run waits for the user.
  plan() {
    clearTimeout(this.timer);
    let pause = this.interval;
    if (this.problem) {
      pause = Math.min(Live.longestPause, Math.max(2000 * 2 ** (this.failures - 1), (this.problem.retryAfter ?? 0) * 1000));
      pause *= 0.9 + 0.2 * Math.random();
    }
    if (document.hidden) pause = Math.max(pause, Live.hiddenInterval);
    const waits = this.problem && !this.problem.away;
    this.next = waits ? 0 : performance.now() + pause;
    if (!waits) this.timer = setTimeout(() => this.now(), pause);
    Live.report(this);
  }
}
