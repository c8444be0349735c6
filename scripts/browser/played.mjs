// Cases in which the test answers instead of the app, with answers that are slow, outdated, refused or numerous. The real app gives such answers only
// sometimes.
import assert from "node:assert/strict";

export const second = (n) => new Date(Date.UTC(2026, 0, 2, 10, 0, n)).toISOString();

// play answers calls of a page. It maps paths below /api to functions that get a request's address and return {status, json, headers}. If a function
// returns undefined, the app answers the call.
export async function play(page, calls) {
  await page.route((url) => url.pathname.startsWith("/api/") && !url.pathname.startsWith("/api/console/"), async (route) => {
    const url = new URL(route.request().url());
    const answer = await calls[url.pathname.slice("/api/".length)]?.(url.searchParams, route.request());
    if (answer === "gone") await route.abort();
    else if (answer) await route.fulfill({ headers: { "content-type": "application/json" }, ...answer }).catch(() => {}); // the page may be closed
    else await route.fallback();
  });
}

// quick makes the ages that the page shows grow 20 times as fast.
export const quick = (page) => page.addInitScript(() => {
  const now = performance.now.bind(performance);
  performance.now = () => 20 * now();
});

// held returns a function that waits until release is called.
export function held() {
  let release;
  const until = new Promise((done) => (release = done));
  return { until, release };
}

export const scan = (more) => ({
  id: "x", state: "succeeded", source: { table: "Big" }, action: { type: "copy", destination: { table: "Bigger" } }, startedAt: second(4), finishedAt: second(7), seconds: 3,
  rows: { scanned: 6e6, written: 6e6, failed: 0 }, steps: { done: 9, pending: 0 }, queries: 9, transactions: 90, throttled: 0, cost: { requests: 90, dollars: 0.01 }, ...more,
});
export const json = (value) => ({ json: value });
export const problem = (status, detail, headers, errors) => ({ status, headers, contentType: "application/problem+json", json: { title: "x", status, detail, errors } });

// played returns the cases. The test has until, open, home, fill and hostile.
export const played = ({ until, open, home, fill, hostile }) => ({
  async "a scan of many tables lists them by their state"() {
    const page = await open("about:blank");
    const of = (n, more) => scan({ id: `g-0000${n}`, source: { table: `Table${n}` }, ...more });
    const states = [];
    await play(page, {
      "scans/g": () => json(scan({ id: "g", state: "failed", error: `1 of 3 tables failed: Table2: ${hostile}`, source: { tables: "*" }, action: { type: "copy", destination: { container: "backups", prefix: "n" } }, members: { all: 3, waiting: 0, running: 0, succeeded: 2, failed: 1, canceled: 0, leftOut: 0 } })),
      "scans/g/members": (query) => {
        states.push(query.get("state"));
        if (query.get("state") === "failed") return json({ scans: [of(2, { state: "failed" })] });
        return query.get("cursor") ? json({ scans: [of(3)] }) : json({ scans: [of(1), of(2, { state: "failed" })], cursor: "c" });
      },
    });
    await page.goto(`${home}#/scans/g`);
    const tables = page.getByRole("region", { name: "Tables" });
    await until("three tables", async () => (await tables.locator("tbody tr").count()) === 3);
    assert.match(await tables.textContent(), /3 of 3 ended, 1 failed/);
    assert.match(await page.getByRole("heading", { level: 1 }).textContent(), /copy "\*" → blob:backups\/n/);
    assert.equal(await page.getByRole("button", { name: "Retry" }).isVisible(), true);
    assert.equal(await page.getByRole("heading", { name: "Key space" }).isVisible(), false);
    await tables.getByLabel("State").selectOption("failed");
    await until("the failed one", async () => (await tables.locator("tbody tr").count()) === 1);
    await tables.getByRole("link").first().click();
    await until("the table's own page", () => page.url().endsWith("#/scans/g-00002"));
    assert.equal(await page.evaluate(() => document.body.dataset.hacked), undefined);
  },
  async "schedules show their backups, and how to restore each"() {
    const page = await open("about:blank");
    const run = (more) => ({ id: "s1", occurrence: second(1), state: "succeeded", ...more });
    const none = { count: 0 };
    const sent = [], ran = [];
    let backups = [
      { id: "s2", occurrence: second(9), place: { container: "backups", prefix: hostile, connection: "VAULT" }, table: "Orders", rows: 1234, restore: `tablesweep import --from '${hostile}'`, proof: { id: "s2-v", state: "differs" } },
      { id: "s1", occurrence: second(1), place: { container: "backups", prefix: "n/1" }, tables: 2, rows: 7, restore: "tablesweep import --all", proof: { id: "s1-v", state: "failed", error: `gone ${hostile}` }, deleting: { files: 3 }, error: `refused ${hostile}` },
    ];
    await play(page, {
      schedules: () => json({
        error: `setting TABLESWEEP_SCHEDULES: ${hostile}`,
        schedules: [
          { name: "nightly", cron: "0 0 3 * * *", next: second(40), request: { source: { table: "Orders" }, action: { type: "copy", destination: { container: "backups", prefix: "{date}" } } }, keep: { last: 7, monthly: 12 }, last: run({ state: "failed", error: hostile }), success: run(), overdue: true, missed: { count: 2, last: second(3) }, skipped: none },
          { name: "old", removed: true, missed: none, skipped: none },
        ],
      }),
      "schedules/nightly/run": (_, request) => (ran.push(request.method()), ran.length > 1 ? problem(409, `its last run lasts: ${hostile}`) : { status: 202, json: { id: "s3" } }),
      "schedules/nightly/backups": () => json({ backups }),
      "schedules/old/backups": () => json({ backups: [{ id: "o1", occurrence: second(1), place: { container: "backups", prefix: "o/1", connection: "VAULT" }, tables: 2, rows: 7, restore: "tablesweep import --all" }] }),
      scans: (_, request) => request.method() === "POST" && (sent.push(request.postDataJSON()), json({ id: "r" })),
    });
    await page.goto(`${home}#/schedules`);
    const nightly = page.getByRole("region", { name: "nightly" });
    await until("both backups", async () => (await nightly.locator("tbody tr").count()) === 2);
    const text = await nightly.textContent();
    for (const want of ["failed", "older than two periods", "2 occurrences came while the app was not running", "7 last, 12 monthly", "cannot be deleted: refused", "1,234", "the source has changed since", "proof failedgone", "each day at 03:00 UTC"]) assert.ok(text.includes(want), `${want} in ${text}`);
    assert.match(await page.getByRole("alert").filter({ hasText: "TABLESWEEP_SCHEDULES" }).textContent(), /onerror/);
    assert.match(await page.getByRole("region", { name: "old" }).textContent(), /removed from the settings/);
    assert.equal(await nightly.getByRole("link", { name: "Restore" }).count(), 1); // the other backup is partly deleted
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await nightly.getByRole("button", { name: "Copy the command" }).click();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), `tablesweep import --from '${hostile}'`);
    const now = nightly.getByRole("button", { name: "Run now" });
    await now.click();
    assert.equal(await nightly.getByRole("link", { name: "s3", exact: true }).getAttribute("href"), "#/scans/s3");
    await now.click();
    await nightly.getByText("its last run lasts: <img").waitFor();
    assert.deepEqual(ran, ["POST", "POST"]);
    assert.equal(await page.getByRole("region", { name: "old" }).getByRole("button", { name: "Run now" }).count(), 0);
    backups = backups.slice(0, 1);
    await until("one backup", async () => { await page.evaluate(() => window.dispatchEvent(new Event("online"))); return (await nightly.locator("tbody tr").count()) === 1; });
    await nightly.getByRole("link", { name: "Restore" }).click();
    await until("the form", async () => (await page.locator("[name='source.prefix']").count()) === 1);
    for (const [name, want] of Object.entries({ "source.container": "backups", "source.connection": "VAULT", "action.type": "copy", "action.destination.table": "" })) assert.equal(await page.locator(`[name="${name}"]`).inputValue(), want);
    await page.goBack();
    await page.getByRole("region", { name: "old" }).getByRole("link", { name: "Restore" }).click();
    await page.locator("[name='action.destination.connection']").fill("RESTORED");
    await page.getByRole("button", { name: "Check" }).click();
    await page.getByText("Each table has its own scan and is copied to the table of the same name in RESTORED. Rows are not counted first.").waitFor();
    await page.getByRole("button", { name: "Start the scan" }).click();
    await until("the scan's own page", () => page.url().endsWith("#/scans/r"));
    assert.deepEqual(sent, [{ source: { tables: "*", container: "backups", prefix: "o/1", connection: "VAULT" }, action: { type: "copy", destination: { connection: "RESTORED" } } }]);
    assert.equal(await page.evaluate(() => document.body.dataset.hacked), undefined);
  },
  async "times of schedules are in words"() {
    const page = await open("about:blank");
    const words = {
      "0 0 3 * * *": "each day at 03:00 UTC", "30 5 4 * * *": "each day at 04:05:30 UTC", "0 */15 * * * *": "every 15 minutes", "0 * * * * *": "each minute",
      "0 30 * * * *": "each hour at 30 past", "0 0 */6 * * *": "every 6 hours from 00:00 UTC", "0 0 2 * * Sun": "each Sunday at 02:00 UTC", "0 0 2 * * 1-5": "Monday to Friday at 02:00 UTC",
      "0 0 2 1 * *": "each month on day 1 at 02:00 UTC",
      "0 */7 * * * *": 0, "0 0 2 1 * 1": 0, "0 0 2,14 * * *": 0, "0 0 2 * 6 *": 0, "*/5 * * * * *": 0, "0 0 2 * * 1,3": 0, // words would not be shorter
    };
    const crons = Object.keys(words);
    await play(page, {
      schedules: () => json({ schedules: crons.map((cron, i) => ({ name: `s${i}`, cron, next: second(40), missed: { count: 0 }, skipped: { count: 0 } })) }),
      ...Object.fromEntries(crons.map((_, i) => [`schedules/s${i}/backups`, () => json({ backups: [] })])),
    });
    await page.goto(`${home}#/schedules`);
    await page.getByRole("region", { name: "s0", exact: true }).waitFor();
    assert.deepEqual(await page.locator("dt:text-is('Starts') + dd").evaluateAll((all) => all.map((e) => e.firstChild.textContent)), Object.entries(words).map(([cron, text]) => text || `${cron} UTC`));
  },

  async "health shows failures, the worst first"() {
    const page = await open("about:blank");
    const check = (name, state) => ({ name, state, detail: `${state} ${hostile}` });
    let answer = { status: 503, json: { status: "failed", at: second(1), checks: [check("settings", "ok"), check("queues", "warning"), check("storage", "failed")] } };
    await play(page, { health: () => answer });
    await page.goto(`${home}#/scans`);
    await page.getByRole("link", { name: "Health" }).click();
    await page.getByText(/^Scans cannot run: 2 of 3 checks found a problem\. As of /).waitFor();
    assert.deepEqual(await page.locator("tbody tr").evaluateAll((rows) => rows.map((r) => r.querySelector("strong").textContent)), ["storage", "queues", "settings"]);
    assert.match(await page.locator("tbody tr").first().textContent(), /failed <img/);
    await page.locator("code", { hasText: `tablesweep doctor --url ${new URL(home).origin}` }).waitFor();
    answer = json({ status: "ok", at: second(2), checks: [check("settings", "ok")] });
    await page.evaluate(() => window.dispatchEvent(new Event("online")));
    await page.getByText(/^All is well\. As of /).waitFor();
    answer = problem(503, "the host is away");
    await page.evaluate(() => window.dispatchEvent(new Event("online")));
    await page.locator("#banner").getByText("The host is away.").waitFor();
    assert.equal(await page.locator("tbody tr").count(), 1); // the known rows stay
    assert.equal(await page.evaluate(() => document.body.dataset.hacked), undefined);
  },

  async "an ended scan's plot and key space are read until they have all of it"() {
    const page = await open("about:blank");
    await quick(page);
    const points = [{ at: second(0), rows: 4e6, requests: 40, throttled: 0 }, { at: second(5), rows: 2e6, requests: 50, throttled: 4 }];
    let asked = 0;
    await play(page, {
      "scans/x": () => json(scan({ state: "failed", rows: { scanned: 6e6, written: 5e6, failed: 3 }, error: "3 rows could not be written; the first: x" })),
      "scans/x/failed": () => json({ rows: [], total: 3, kept: 3 }),
      // Two instances answer. One of them has read the state before the scan's end.
      "scans/x/ranges": () => json({ at: second(20), ranges: [{ state: "failed", rows: 6e6, to: { partitionKey: hostile } }, { state: "done", rows: 7, from: { partitionKey: hostile } }] }),
      "scans/x/timeline": () => json({ at: second(asked++ ? 20 : 5), interval: 5, points: points.slice(0, asked) }),
    });
    await page.goto(`${home}#/scans/x`);
    const plot = page.locator(".plot").first();
    await until("the last interval", async () => / at 2 Jan 2026, 10:00:05/.test(await plot.getAttribute("aria-label")));
    // The scan covers one second of the first interval, and two seconds of the last.
    assert.match(await plot.getAttribute("aria-label"), /^Rows per second, from 2 Jan 2026, 10:00:04 to 2 Jan 2026, 10:00:07: at most 4,000,000, 1,000,000 at/);
    await plot.focus();
    await page.keyboard.press("End");
    assert.equal(await page.locator(".chart output").first().textContent(), "2 Jan 2026, 10:00:05: 1,000,000 rows/s");
    const cut = await page.locator(".plot text").evaluateAll((all) => all.filter((t) => t.getBBox().x < 0 || t.getBBox().x + t.getBBox().width > t.ownerSVGElement.width.baseVal.value).map((t) => t.textContent));
    assert.deepEqual(cut, []);
    assert.deepEqual(await page.locator(".legend .mark:not([hidden])").allTextContents(), ["done: 1 range", "with failures: 1 range"]);
    await page.locator(".strip").focus();
    await page.keyboard.press("Home");
    assert.match(await page.locator(".ranges output").textContent(), /^with failures, 6,000,000 rows read, from the beginning to ".*\\u\{202e\}"$/);
    assert.equal(await page.locator("dt:text-is('Rows per second') + dd").textContent(), "2,000,000");
    assert.equal(await page.getByRole("button", { name: "Retry …" }).isVisible(), false); // no step is pending
    assert.equal(await page.getByText("could not be written").count(), 2); // the error, which is hidden, and the box
    assert.equal(await page.locator(".banner:visible").count(), 0);
  },

  async "all failed rows are listed, each once"() {
    const page = await open("about:blank");
    await quick(page);
    const rows = Array.from({ length: 60 }, (_, i) => ({ partitionKey: "p", rowKey: `r${i}`, reason: hostile }));
    let asked = 0, hold;
    await play(page, {
      "scans/x": () => json(scan({ state: "running", rows: { scanned: 60, written: 0, failed: hold ? 61 : 60 } })),
      "scans/x/failed": async (query) => {
        if (query.get("cursor")) return json({ rows: rows.slice(50), total: 60, kept: 60 });
        if (asked++ === 0) return json({ rows: rows.slice(0, 1), total: 1, kept: 1 }); // read before the last step
        if (hold) await hold.until;
        return json({ rows: rows.slice(0, 50), total: 60, kept: 60, cursor: "c" });
      },
      "scans/x/ranges": () => json({ at: second(20), ranges: [] }),
      "scans/x/timeline": () => json({ at: second(20), interval: 5, points: [] }),
    });
    await page.goto(`${home}#/scans/x`);
    await page.getByText("60 rows could not be written.").waitFor(); // although the first answer was outdated
    await page.locator(".failures summary").click();
    const keys = () => page.locator(".failures tbody td:nth-child(2) bdi").allTextContents();
    assert.equal((await keys()).length, 50);
    hold = held();
    const before = asked;
    await until("a page is read again", () => asked > before);
    await page.getByRole("button", { name: "Show more" }).dblclick();
    hold.release();
    await until("all rows", async () => (await keys()).length >= 60);
    await page.waitForTimeout(300);
    assert.deepEqual(await keys(), rows.map((r) => r.rowKey));
    assert.equal(await page.evaluate(() => document.activeElement.id), "main"); // the button is gone, but the page has the focus
  },

  async "a stream misses no event, shows the newest first, and handles many together"() {
    const page = await open("about:blank");
    const log = [];
    const event = (n) => ({ id: String(2e6 - n), time: second(n), event: { n } });
    const add = (from, to) => { for (let n = from; n < to; n++) log.push(event(n)); };
    add(0, 150);
    const asked = [];
    let hold;
    await play(page, {
      log: async (query) => {
        asked.push(Object.fromEntries(query));
        const top = Number(query.get("top")), after = query.get("after");
        if (after === "now") return json({ events: [], next: String(log.length), more: false });
        if (after) {
          const events = log.slice(after, Number(after) + top), more = log.length > Number(after) + top;
          if (hold && !more) await hold.until;
          return json({ events, next: String(Number(after) + events.length), more });
        }
        const older = log.map((e) => e).sort((a, b) => (a.id < b.id ? -1 : 1)).filter((e) => e.id > (query.get("cursor") ?? ""));
        const events = older.slice(0, top);
        if (!query.get("cursor")) add(150, 151); // after the first page was read, before the first turn
        return json({ events, cursor: older.length > top ? events.at(-1).id : undefined });
      },
    });
    const shown = async () => (await page.locator(".events tbody tr").evaluateAll((all) => all.map((tr) => tr.querySelector(".value").textContent))).map(Number);
    const falls = (all) => all.every((n, i) => i === 0 || all[i - 1] > n);
    await page.goto(`${home}#/logs/orders`);
    await page.getByText("101 events, the newest first; new events appear at the top").waitFor();
    assert.equal((await shown())[0], 150);
    hold = held();
    add(152, 1500);
    log.push(event(151)); // the event appears late
    const before = asked.length;
    await page.getByText("1,101 events, the newest first; more are being read").waitFor();
    hold.release();
    hold = undefined;
    await page.getByText("1,450 events").waitFor();
    assert.ok(asked.length <= before + 3, `${asked.length - before} calls for 1,349 events`);
    assert.ok(falls(await shown()), "not the newest first");
    add(1500, 2600);
    await page.getByText("2,000 events").waitFor();
    await page.getByRole("button", { name: "Older events" }).click();
    await until("older events", async () => (await shown()).at(-1) === 500);
    assert.ok(falls(await shown()));
  },

  async "a key that is entered late does not change the form"() {
    const page = await open("about:blank");
    const need = (answer) => (query, request) => (request.headers()["x-functions-key"] === "GOOD" ? answer : problem(401, "x"));
    await play(page, { scans: need(json({ scans: [] })), "scans/estimate": need(json({ rows: [1, 1], counted: true, requests: 1, dollars: 0, queries: 1 })) });
    await page.goto(`${home}#/scans/new`);
    await page.getByRole("button", { name: "Not now" }).click();
    await fill(page, { "source.table": "Orders", "action.type": "count" });
    await page.locator("dialog").getByText("The app asks for a key").waitFor();
    for (const [entered, says] of [["ключ", "A key cannot contain these characters"], ["two words", "A key cannot contain these characters"], ["WRONG", "refused the key"]]) {
      await page.getByLabel("Key", { exact: true }).fill(entered);
      await page.keyboard.press("Enter");
      await page.locator("dialog").getByText(says).waitFor();
    }
    await page.getByLabel("Key", { exact: true }).fill("GOOD");
    await page.keyboard.press("Enter");
    await page.locator("dialog").waitFor({ state: "detached" });
    assert.equal(await page.getByLabel("Table", { exact: true }).inputValue(), "Orders");
    await page.getByRole("button", { name: "Check and estimate" }).click();
    await page.getByText("1 row · about 1 request · ").waitFor();
  },

  async "the form waits for the app's answer, and requests a key that has changed meanwhile"() {
    const page = await open("about:blank");
    await page.addInitScript(() => { // the test decides when the page stops waiting
      window.patience = [];
      AbortSignal.timeout = (ms) => {
        const ends = new AbortController();
        window.patience.push({ ms, end: () => ends.abort(new DOMException("x", "TimeoutError")) });
        return ends.signal;
      };
    });
    let hold, refuses = 0;
    await play(page, {
      scans: () => (refuses ? problem(refuses, "AzureWebJobsStorage gives no good answer") : json({ scans: [] })),
      "scans/estimate": async () => {
        await hold?.until;
        return problem(503, "BACKUP gives no good answer: connection refused");
      },
    });
    await fill(page, { "source.table": "Orders", "action.type": "count" });
    await page.locator("form .banner").getByText("BACKUP gives no good answer: connection refused").waitFor();
    assert.ok(await page.evaluate(() => window.patience.every(({ ms }) => ms >= 40_000))); // the app takes up to 30 s
    hold = held();
    await page.getByRole("button", { name: "Check and estimate" }).click();
    await page.getByText("Counting …").waitFor();
    await page.evaluate(() => window.patience.forEach(({ end }) => end()));
    await page.locator("form .banner").getByText("The app took longer than 45 s to answer.").waitFor();
    hold.release();
    refuses = 503;
    await page.goto(`${home}#/scans`);
    await page.locator("#banner").getByText("AzureWebJobsStorage gives no good answer.").waitFor();
    refuses = 401;
    await page.getByRole("button", { name: "Try now" }).click();
    await page.locator("dialog").getByText("The app asks for a key").waitFor();
  },

  async "a catalog's errors, numbers and blanks, a log's levels, and empty views are shown"() {
    const page = await open("about:blank");
    let asked;
    await play(page, {
      catalog: () => json({ catalogs: [{ name: "", indexKeys: ["eid"], rowKey: "n:number" }, { name: "other", indexKeys: ["eid"], rowKey: "n" }] }),
      "catalog/records": (query) => (asked = query.get("eid"), asked === "bad" ? problem(400, "eid is wrong") : json(asked === "none" ? { records: [], meta: [] } : { records: [{ eid: "1", n: 2 }], meta: [{ id: "1", etag: "1" }] })),
      log: (query) => json(query.get("after") || query.get("stream") === "none" ? { events: [], next: "1", more: false } : { events: ["error", "Warning", "info"].map((level, i) => ({ id: `${i}`, time: second(i), event: { a: 1, level } })) }),
    });
    await page.goto(`${home}#/catalog`);
    await page.getByText("1 record", { exact: true }).waitFor();
    assert.equal(await page.getByLabel("n begins with").count(), 0);
    for (const [eid, says] of [[" 7\t", "1 record"], ["bad", "eid is wrong"], ["none", "No record has these keys."]]) {
      await page.getByLabel("eid").fill(eid);
      await page.getByRole("button", { name: "Look up" }).click();
      await page.getByText(says, { exact: true }).waitFor();
      assert.deepEqual([asked, await page.locator("tbody tr:visible").count()], [eid.trim(), says === "1 record" ? 1 : 0]);
    }
    await page.getByRole("link", { name: "Show all records" }).click();
    await page.getByText("1 record", { exact: true }).waitFor();
    await page.goto(`${home}#/catalog/gone`);
    await page.getByRole("link", { name: "other" }).waitFor();
    await page.goto(`${home}#/logs/none`);
    await page.getByRole("link", { name: "All streams" }).waitFor();
    await page.goto(`${home}#/logs/some`);
    await page.locator(".level").nth(2).waitFor();
    const colours = await page.locator(".level").evaluateAll((all) => all.map((e) => getComputedStyle(e).color));
    assert.deepEqual([new Set(colours).size, await page.locator(".brief .name").allTextContents()], [3, ["a", "a", "a"]]);
    assert.equal(await page.locator("main").evaluate((main) => [...main.querySelectorAll("*")].filter((e) => e.scrollHeight > e.clientHeight + 1 && getComputedStyle(e).overflowY === "auto").length), 0); // nothing ends in the middle of a row
  },

  async "an estimate shows the result of a count"() {
    const page = await open("about:blank");
    let answer;
    await play(page, { scans: () => json({ scans: [] }), "scans/estimate": () => json(answer) });
    for (const [rows, more, says] of [
      [[812345, null], { counted: false, dollars: 0.5, dollarsPerMillion: 0.25 }, "at least 812,345 rows · about 9,120 requests · $0.5000 · $0.2500 for each further million rows"],
      [[0, null], { counted: false, dollars: 0.5 }, "at least 0 rows · about 9,120 requests · $0.5000"],
      [[0, 0], { counted: true, dollars: 0.00007 }, "no rows · about 9,120 requests · less than $0.0001"],
      [[1423939, 1423939], { counted: true, dollars: 0.5, dollarsPerMillion: 0.25, creates: true }, "1,423,939 rows · about 9,120 requests · $0.5000 · the destination will be created"],
    ]) {
      answer = { rows, requests: 9120, queries: 1, ...more };
      await fill(page, { "source.table": "Orders", "action.type": "count" });
      await page.locator(".estimate").getByText(says, { exact: true }).waitFor();
    }
  },

  async "every view shows a refusal or an outage, and tries again"() {
    const page = await open("about:blank");
    let away = true, asked = 0, cut = false;
    const answer = (value) => () => (asked++, cut ? { body: '{"str' } : away ? problem(503, "The storage is away") : json(value));
    await play(page, { scans: answer({ scans: [] }), log: answer({ streams: [] }) });
    await page.goto(`${home}#/scans`);
    await page.locator("#banner").getByText("The storage is away.").waitFor();
    await page.goto(`${home}#/logs/`);
    await page.locator("#banner").getByText("The storage is away.").waitFor();
    const before = asked;
    await page.getByRole("button", { name: "Try now" }).click();
    await until("another try", () => asked > before);
    cut = true;
    await page.getByRole("button", { name: "Try now" }).click();
    await page.locator("#banner").getByText("The app’s answer is incomplete.").waitFor();
    await page.locator("#banner").getByText(/Next try in \d+ s$/).waitFor();
    [cut, away] = [false, false];
    await page.getByRole("button", { name: "Try now" }).click();
    await page.getByText("No stream yet").waitFor(); // on #/logs/, which is the list
    await page.locator("#banner").waitFor({ state: "hidden" });
    await page.clock.install();
    await page.goto(`${home}#/scans/new`);
    await page.getByText(/^Live/).waitFor();
    away = true;
    await page.clock.fastForward(20_000);
    await page.getByText("Not answering").waitFor(); // before the form is filled in
  },

  async "late and failed answers are shown, with the time of the figures, and outdated figures are grey"() {
    const page = await open("about:blank");
    let hold, asked = 0, refuses = false;
    await play(page, {
      scans: async () => {
        asked++;
        await hold?.until;
        return refuses ? problem(503, "the app's own storage (AzureWebJobsStorage) has not answered for 26 s: connection refused") : json({ scans: [scan({ state: "running", rate: 5 })] });
      },
    });
    const turnAway = (hidden) => page.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
    await page.clock.install();
    await page.goto(`${home}#/scans`);
    await page.getByText(/^Live · /).waitFor();
    const colour = () => page.evaluate(() => [".badge", "td.number"].map((of) => getComputedStyle(document.querySelector(`tbody ${of}`)).color).join());
    const [fresh, read] = [await colour(), (await page.locator("#live").textContent()).replace("Live · ", "")];
    const next = async () => {
      hold = held();
      const before = asked;
      await page.clock.runFor(4000);
      await until("another request", () => asked > before);
    };
    await next();
    await turnAway(true);
    await page.clock.runFor(20_000);
    assert.doesNotMatch(await page.locator("#live").textContent(), /Late/); // no user waits
    await turnAway(false);
    await page.clock.runFor(500);
    await page.getByText(/^Live · /).waitFor();
    await page.clock.runFor(6000);
    await page.locator("#live.late").getByText(/^Late · read at \d\d:\d\d:\d\d$/).waitFor();
    await page.locator("#banner.waits").getByText("The app has not answered for more than 5 s.").waitFor();
    await page.locator("#banner").getByText(`Figures from ${read}`, { exact: true }).waitFor();
    assert.notEqual(await colour(), fresh);
    hold.release();
    await page.locator("#banner").waitFor({ state: "hidden" });
    await until("fresh colours", async () => (await colour()) === fresh);
    await next();
    refuses = true;
    hold.release();
    await page.locator("#live.bad").getByText(/^Not answering · read at \d\d:\d\d:\d\d$/).waitFor();
    assert.equal(await page.locator("#banner [role=alert]").textContent(), "The app's own storage (AzureWebJobsStorage) has not answered for 26 s: connection refused.");
    assert.notEqual(await colour(), fresh);
    await page.setViewportSize({ width: 390, height: 300 });
    await page.evaluate(() => { document.querySelector("main").style.height = "3000px"; window.scrollTo(0, 2000); });
    assert.equal(await page.locator("#banner").evaluate((e) => e.getBoundingClientRect().top), 0); // the banner stays visible
  },

  async "a verification is shown in its copy's row"() {
    const page = await open("about:blank");
    const copied = (id, verification) => scan({ id, verify: true, verification });
    await play(page, {
      scans: (query) => json({
        scans: query.get("cursor") ? [scan({ id: "d-v", action: { type: "verify", destination: { table: "Bigger", connection: "BACKUP" } }, verifies: "d" })]
          : [copied("a", { id: "a-v", state: "running" }), scan({ id: "a-v", state: "running" }), copied("b", { id: "b-v", state: "failed", error: hostile }), scan({ id: "b-v", state: "failed" }), copied("c", { id: "c-v" }), copied("d", { id: "d-v", state: "succeeded" })],
        cursor: query.get("cursor") ? undefined : "c", // between the last two pages
      }),
    });
    await page.goto(`${home}#/scans`);
    await until("four rows", async () => (await page.locator("tbody tr").count()) === 4);
    for (const [i, says] of [/is being verified/, /verification failed: <img src=x onerror=/, /verification starts soon/, /verified/].entries()) assert.match(await page.locator("tbody tr").nth(i).textContent(), says);
    assert.equal(await page.getByRole("link", { name: "verification failed" }).getAttribute("href"), "#/scans/b-v");
    await page.getByRole("link", { name: "Older scans" }).click();
    await page.getByRole("link", { name: "verify Big against BACKUP:Bigger" }).waitFor();
    await page.getByLabel("Action").selectOption("verify");
    await page.waitForURL(/action=verify/);
  },

  async "the focus stays where it was"() {
    const page = await open("about:blank");
    const changes = [], scans = [];
    const change = (n) => changes.unshift({ id: String(1000 - n), time: second(n), kind: "insert", record: { eid: String(n), lastname: "x" } });
    change(0);
    let table = { records: [{ eid: "1" }], meta: [{ id: "1", etag: "1" }], cursor: "c" };
    await play(page, {
      catalog: () => json({ catalogs: [{ name: "", indexKeys: ["eid"], rowKey: "lastname" }] }),
      "catalog/changes": () => json({ changes }),
      "catalog/records": () => json(table),
      scans: () => json({ scans }),
    });
    const focused = () => page.evaluate(() => document.activeElement.outerHTML);
    await page.goto(`${home}#/catalog/`);
    await page.getByLabel("eid").fill("7");
    await page.getByRole("button", { name: "Look up" }).press("Enter");
    await page.waitForURL(/eid=7/);
    await page.getByText("1 record on this page").waitFor();
    assert.match(await focused(), /Look up/);
    table = { records: [{ eid: "2" }], meta: [{ id: "2", etag: "1" }] };
    await page.getByRole("link", { name: "Next page" }).press("Enter");
    await page.getByText("1 record", { exact: true }).waitFor();
    assert.match(await focused(), /role="status"/);
    await page.getByRole("button", { name: "All fields" }).click();
    await page.goBack();
    await page.locator("dialog").waitFor({ state: "detached" });
    await page.goto(`${home}#/catalog/-/changes`);
    await page.getByRole("button", { name: "All fields" }).focus();
    change(1);
    await until("another change", async () => (await page.getByRole("button", { name: "All fields" }).count()) === 2);
    assert.match(await focused(), /All fields/);
    scans.push({ ...scan(), state: "running" });
    await page.goto(`${home}#/scans`);
    await page.getByRole("link", { name: "copy Big" }).focus();
    scans.unshift({ ...scan(), id: "y" });
    await until("another scan", async () => (await page.getByRole("link", { name: "copy Big" }).count()) === 2);
    assert.match(await focused(), /scans\/x/);
    await page.getByRole("link", { name: "New scan" }).press("Enter");
    await until("the first field", async () => /name="source.table"/.test(await focused()));
  },
});
