// Tests the console, which tablesweep local serves, in a real browser. Arguments: the program, the browser's executable, and optionally a part of the
// names of the cases to run. After all cases have run, the exit code is 1 if one has failed.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import crypto from "node:crypto";
import http from "node:http";
import net from "node:net";
import { chromium } from "playwright-core";
import { operator } from "./operator.mjs";
import { played, quick } from "./played.mjs";

const [program, executablePath] = process.argv.slice(2);
const patience = 60_000;
const hostile = `<img src=x onerror="document.body.dataset.hacked=1">"'&\u202e`;
const shown = hostile.replace("\u202e", "\\u{202e}");

// until repeats a question until the answer is truthy.
async function until(what, ask) {
  const late = Date.now() + patience;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    assert.ok(Date.now() < late, `in vain: ${typeof what === "function" ? what() : what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

const freePort = () => new Promise((done) => {
  const server = net.createServer().listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => done(port));
  });
});

// start runs a command of the program, and resolves when a line of its output begins with the given text.
function start(args, begins, environment = {}) {
  const child = spawn(program, args, { env: { ...process.env, ...environment }, stdio: ["ignore", "pipe", "pipe"] });
  child.said = "";
  child.stderr.on("data", (text) => (child.said += text));
  child.ended = new Promise((done) => child.once("exit", done));
  return new Promise((done, failed) => {
    let out = "";
    child.stdout.on("data", (text) => {
      out += text;
      const line = out.split("\n").slice(0, -1).find((l) => l.startsWith(begins));
      if (line !== undefined) {
        child.line = line;
        done(child);
      }
    });
    child.ended.then((code) => failed(new Error(`${args[0]} ended with ${code}:\n${child.said}`)));
  });
}

const children = [];
async function run(...args) {
  const child = await start(...args);
  children.push(child);
  return child;
}

async function stop(child) {
  if (child.exitCode === null) child.kill("SIGINT");
  await child.ended;
}

// tables returns a function that sends signed requests to the Table service of a connection.
function tables(connection) {
  const part = (name) => new RegExp(`${name}=([^;]+)`).exec(connection)[1];
  const account = part("AccountName"), endpoint = part("TableEndpoint");
  return async (method, path, body) => {
    const date = new Date().toUTCString();
    const url = new URL(`${endpoint}/${path}`);
    const signed = crypto.createHmac("sha256", Buffer.from(part("AccountKey"), "base64")).update(`${date}\n/${account}${url.pathname}`).digest("base64");
    const r = await fetch(url, { method, body: body && JSON.stringify(body), headers: {
      authorization: `SharedKeyLite ${account}:${signed}`, "x-ms-date": date, "x-ms-version": "2019-02-02", "content-type": "application/json", accept: "application/json;odata=nometadata", ...(method === "DELETE" && { "if-match": "*" }),
    } });
    assert.ok(r.ok, `${method} ${path}: ${r.status} ${await r.text()}`);
  };
}

// passing starts a proxy before the Table service of a connection. It lets the given number of requests to rows pass, and then refuses all requests. It
// can also throttle three of four requests or all requests, send no answers, or refuse connections.
async function passing(connection) {
  const [, endpoint] = /TableEndpoint=([^;]+)/.exec(connection), inner = new URL(endpoint);
  const through = { left: Infinity, weather: "good", delay: 0 };
  let n = 0;
  const server = http.createServer(async (req, res) => {
    if (!req.url.includes("/Tables")) through.left--;
    if (through.weather === "silent") return;
    await new Promise((done) => setTimeout(done, through.delay));
    if (through.left < 0 || through.weather === "busy" || (through.weather === "throttled" && n++ % 4 > 0)) {
      req.resume();
      res.writeHead(503, { "content-type": "application/json", "x-ms-error-code": "ServerBusy" }).end('{"odata.error":{"code":"ServerBusy","message":{"lang":"en-US","value":"The server is busy."}}}');
      return;
    }
    const out = http.request({ host: inner.hostname, port: inner.port, path: req.url, method: req.method, headers: req.headers }, (r) => { res.writeHead(r.statusCode, r.headers); r.pipe(res); });
    req.pipe(out.on("error", () => res.destroy()));
  });
  const listen = (port) => new Promise((done) => server.listen(port, "127.0.0.1", done));
  await listen(0);
  const { port } = server.address();
  through.line = connection.replace(endpoint, endpoint.replace(inner.host, `127.0.0.1:${port}`));
  through.turn = async (weather) => {
    [through.weather, n] = [weather, 0];
    server.closeAllConnections(); // delayed requests are lost
    if (weather === "refused") server.close();
    else if (!server.listening) await listen(port);
  };
  return through;
}

const emulator = () => run(["emulator", "--table-addr", "127.0.0.1:0", "--queue-addr", "127.0.0.1:0", "--blob-addr", "127.0.0.1:0", "--latency", "5ms"], "");
const storage = await emulator();
const table = tables(storage.line);
const backup = await passing(storage.line);
const settings = {
  TABLESWEEP_CONNECTIONS: "AzureWebJobsStorage,BACKUP", BACKUP: backup.line,
  TABLE_CATALOG_NAME: "People", TABLE_CATALOG_INDEX_KEYS: "eid,ssn:digits", TABLE_CATALOG_ROW_KEY: "lastname",
  TABLESWEEP_CATALOGS: '{"visits":{"table":"Visits","indexKeys":"eid","rowKey":"at:newest"}}',
  AzureFunctionsJobHost__extensions__queues__maxPollingInterval: "00:00:01",
};
const port = await freePort();
const local = (...more) => run(["local", "--storage", storage.line, ...more], "console ", settings);
const app = await local("--addr", `127.0.0.1:${port}`);
const base = `http://127.0.0.1:${port}`, home = `${base}/api/console/`;
assert.equal(app.line, `console ${home}`);
const handlerPort = () => /url=http:\/\/127\.0\.0\.1:(\d+)/.exec(app.said)[1]; // without the host

const json = { "content-type": "application/json" }; // for a string, fetch sends text/plain
const api = async (method, path, body, address = base, headers = {}) => {
  const r = await fetch(`${address}/api/${path}`, { method, headers: { ...json, ...headers }, body: body && JSON.stringify(body) });
  return r.json();
};
for (const name of ["Source", "Small", "Clash"]) await table("POST", "Tables", { TableName: name });
await Promise.all(Array.from({ length: 200 }, (_, i) => table("POST", "Source", { PartitionKey: `p${i % 40}`, RowKey: `r${i}`, N: i })));
for (const name of ["Small", "Clash"]) await table("POST", name, { PartitionKey: hostile, RowKey: "1", Text: name });

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--host-resolver-rules=MAP evil.example 127.0.0.1"] });
const refused = []; // violations of the page's policy, and errors of its script

// open opens a page in a new tab, and records the requests that the page makes.
async function open(address = home, options = {}) {
  const context = options.context ?? await browser.newContext(options);
  const page = await context.newPage();
  page.requests = [];
  page.setDefaultTimeout(patience);
  page.on("request", (r) => page.requests.push(r));
  page.on("pageerror", (e) => refused.push(e.stack));
  page.on("console", (m) => { if (!page.meant && /Content Security|Trusted|Refused to|Uncaught/.test(m.text())) refused.push(m.text()); });
  await page.goto(address);
  return page;
}

// own asserts that all requests of a page went to the app, and that no address contains a key.
function own(page) {
  assert.ok(page.requests.length > 0);
  for (const r of page.requests) {
    assert.equal(new URL(r.url()).origin, new URL(page.url()).origin, r.url());
    assert.ok(!/KEY|code=/.test(r.url()), r.url());
  }
}

const text = (page, what) => page.getByText(what, { exact: true }).first().waitFor();
const badge = (page, state) => page.locator(`.badge[data-state=${state}]`).first().waitFor();

// fill fills in the form of a new scan, and lets the app check it.
async function fill(page, values) {
  await page.goto(`${home}#/scans/new`);
  const form = page.locator("form.new");
  await form.waitFor();
  for (const [name, value] of Object.entries(values)) {
    const control = form.locator(`[name="${name}"]`);
    const group = control.locator("xpath=ancestor::details");
    if (await group.count() && !(await group.evaluate((d) => d.open))) await group.locator("summary").click();
    if (await control.evaluate((c) => c.tagName) === "SELECT") await control.selectOption(value);
    else await control.fill(value);
  }
  await page.getByRole("button", { name: "Check and estimate" }).click();
}

// submit starts the scan in the form, unless the app has already reported a mistake.
async function submit(page) {
  const start = page.getByRole("button", { name: "Start the scan" });
  await start.or(page.locator(".error:not(:empty)")).first().waitFor();
  if (await start.isVisible()) await start.click();
}

async function begin(page, values) {
  await fill(page, values);
  await submit(page);
  await page.waitForURL(/#\/scans\/\d+-/);
  return decodeURIComponent(page.url().split("/").at(-1));
}

const cases = {
  // This case takes longest, so it begins before the others.
  async "under throttling and outages, the list and a scan's page show the same"() {
    const far = await passing(storage.line), near = await passing((await emulator()).line);
    const other = await run(["local", "--addr", "127.0.0.1:0", "--storage", near.line], "console ", { ...settings, BACKUP: far.line });
    far.delay = 400; // so that 200 steps take long enough
    const home = other.line.replace("console ", ""), base = home.replace("/api/console/", "");
    const { id } = await api("POST", "scans", { source: { table: "Source", connection: "BACKUP" }, action: { type: "copy", destination: { table: "Weather", connection: "BACKUP" } }, strategy: "serial", segmentSize: 1 }, base);
    const [list, page] = await Promise.all([open(`${home}#/scans`), open(`${home}#/scans/${encodeURIComponent(id)}`)]);
    const said = async () => [
      await list.locator("tbody tr .badge").first().textContent(), await list.locator("tbody tr .warn").first().textContent(),
      await page.locator(".badge").textContent(), await page.locator(".waits[role=status]").textContent(),
    ];
    for (const [how, state, says] of [
      ["good", "running", /^$/],
      ["throttled", "running: throttled", /^the storage throttles \d+ % of the requests$/],
      ["refused", "running: waiting", /^BACKUP: .*connection refused, since /],
      ["silent", "running: waiting", /^BACKUP: no (good )?answer .*, since /],
    ]) {
      await far.turn(how);
      let last;
      await until(() => `${how}: ${JSON.stringify(last)}`, async () => {
        last = await said();
        const phase = state.replace(/^running:? ?/, "");
        return last[0] === state && last[2] === state && says.test(last[1]) && last[3] === (phase && `${phase[0].toUpperCase()}${phase.slice(1)}: ${last[1]}`);
      });
      console.log(`  ${how}: ${last.join(" | ")}`);
    }
    await far.turn("good");
    const own = "^The app's own storage \\(AzureWebJobsStorage\\) has";
    for (const [how, says] of [["silent", "not answered for \\d+ s"], ["busy", "answered only 503 ServerBusy for \\d+ s"]]) {
      await near.turn(how);
      for (const at of [list, page]) await at.locator("#banner [role=alert]").getByText(new RegExp(`${own} ${says}\\.$`)).waitFor();
      console.log(`  own storage ${how}: ${await list.locator("#banner").textContent()} | ${await page.locator("#banner").textContent()}`);
      await near.turn("good");
      for (const at of [list, page]) await at.locator("#banner").waitFor({ state: "hidden" });
    }
    await api("DELETE", `scans/${id}`, undefined, base);
    await stop(other);
  },

  ...operator({ until, open, home, fill, api, hostile }),
  ...played({ until, open, home, fill, hostile }),

  async "headers and origin"() {
    const page = await open();
    await page.getByRole("heading", { name: "Scans" }).waitFor();
    const answers = (await Promise.all(page.requests.map((r) => r.response()))).filter((a) => a.url().includes("/console/"));
    assert.ok(answers.length > 5);
    for (const a of answers) assert.match(a.headers()["content-security-policy"], /^default-src 'none'; script-src 'self'/);
    assert.equal((await fetch(`${base}/api/console`, { redirect: "manual" })).headers.get("location"), "console/");
    await page.goto(`${base}/api/console`);
    assert.equal(page.url().split("#")[0], home);
    own(page);
    page.meant = true; // the page's policy must refuse the markup
    const outcome = await page.evaluate(() => {
      try { document.body.innerHTML = "<b>x</b>"; return "taken"; } catch (e) { return e.name; }
    });
    assert.equal(outcome, "TypeError");
  },

  async "the form starts an export and its import"() {
    const page = await open();
    await fill(page, { "source.table": "Source", "action.type": "export" });
    await page.locator("#field-action-destination-container-error:not(:empty)").waitFor();
    const place = "blob:exports/backup/source", written = page.locator("dt:text-is('Rows written') + dd"), about = page.locator(".about");
    await begin(page, { "source.table": "Source", "action.type": "export", "action.destination.container": "exports", "action.destination.prefix": "backup/source" });
    await badge(page, "succeeded");
    assert.equal(await page.locator("h1").textContent(), `copy Source → ${place}`);
    assert.equal(await written.textContent(), "200");
    assert.match(await about.textContent(), new RegExp(`from Source \\(AzureWebJobsStorage\\) to ${place} \\(AzureWebJobsStorage\\)$`));
    await page.getByRole("link", { name: "Start again" }).click(); // the form has the same input, and the place is used already
    assert.equal(await page.locator('[name="action.type"]').inputValue(), "export");
    await page.getByRole("button", { name: "Check and estimate" }).click();
    await submit(page);
    await page.locator("#field-action-destination-container-error", { hasText: "is taken" }).waitFor();
    await begin(page, { from: "export", "source.container": "exports", "source.prefix": "backup/source", "action.type": "copy", "action.destination.table": "Imported" });
    await badge(page, "succeeded");
    assert.equal(await page.locator("h1").textContent(), `copy ${place} → Imported`);
    assert.equal(await written.textContent(), "200");
    assert.match(await about.textContent(), new RegExp(`from ${place} \\(AzureWebJobsStorage\\) to Imported \\(AzureWebJobsStorage\\), replace$`));
  },

  async "the form starts a scan, and the page follows it to its end"() {
    const page = await open();
    await fill(page, { "source.table": "no_table", "action.type": "count" });
    await submit(page);
    await page.locator('[name="source.table"][aria-invalid=true]').waitFor();
    assert.match(await page.locator("#field-source-table-error").textContent(), /table name/);
    await fill(page, { "source.table": "Source", "action.type": "copy", "action.destination.table": "Target" });
    await page.locator(".estimate", { hasText: /^200 rows · about [\d,]+ requests · (less than )?\$[\d.]+ · the destination will be created$/ }).waitFor();
    await page.getByLabel("Destination table").fill("Target2"); // the checked request was another one
    await page.getByRole("button", { name: "Start the scan" }).waitFor({ state: "hidden" });
    const id = await begin(page, { "source.table": "Source", "action.type": "copy", "action.destination.table": "Target" });
    await badge(page, "succeeded");
    assert.equal(await page.locator("dt:text-is('Rows read') + dd").textContent(), "200");
    assert.equal((await api("GET", `scans/${id}`)).rows.written, 200);
    await page.locator(".legend", { hasText: /^done: 1 range$/ }).waitFor();
    assert.match(await page.locator(".plot").first().getAttribute("aria-label"), /^Rows per second, from .*: at most \d/);
    await page.locator(".strip").focus();
    await page.keyboard.press("ArrowRight");
    assert.equal(await page.locator(".ranges output").textContent(), "done, 200 rows read, from the beginning to the end");
    assert.match(await page.locator("dt:text-is('Cost') + dd").textContent(), /^(less than )?\$0\.000/);
    await page.goto(home);
    await page.getByRole("link", { name: "copy Source → Target" }).click();
    await badge(page, "succeeded");
    own(page);
  },

  async "a scan is canceled and continued"() {
    const page = await open();
    const id = await begin(page, { "source.table": "Source", "action.type": "count", "limits.rowsPerSecond": "1" });
    await badge(page, "running");
    await page.getByText("at most 1 row per second").first().waitFor();
    await page.getByRole("button", { name: "Cancel …" }).click();
    await page.getByRole("button", { name: "No, leave it" }).click();
    assert.equal((await api("GET", `scans/${id}`)).state, "running");
    await page.getByRole("button", { name: "Cancel …" }).click();
    await page.getByRole("button", { name: "Cancel the scan" }).click();
    await badge(page, "canceled");
    assert.equal((await api("GET", `scans/${id}`)).state, "canceled");
    await page.getByRole("button", { name: "Retry …" }).click();
    await page.getByRole("button", { name: "Retry the scan" }).click();
    await badge(page, "running");
    await api("DELETE", `scans/${id}`);
  },

  async "a deletion requires the table's name"() {
    const page = await open();
    await table("POST", "Tables", { TableName: "Doomed" });
    await table("POST", "Doomed", { PartitionKey: "a", RowKey: "b" });
    let starts = 0, answer;
    const held = new Promise((resolve) => { answer = resolve; });
    // Set before the form opens, because a page still uses its earlier routes for a moment after page.route returns.
    await page.route("**/api/scans", async (route) => {
      starts++;
      await held;
      await route.continue();
    });
    await fill(page, { "source.table": "Doomed", "action.type": "delete", "range.before": "b\u202e" });
    await page.getByLabel(/Type the table/).waitFor(); // a key pressed before this goes elsewhere
    await page.getByLabel(/Type the table/).press("Enter");
    await page.getByText("Nothing was started").waitFor();
    await page.getByLabel(/Type the table/).fill("Doomed");
    for (let i = 0; i < 3; i++) await page.keyboard.press("Enter"); // an impatient user
    answer();
    await badge(page, "succeeded");
    assert.equal(starts, 1);
    assert.match(await page.locator(".about").innerText(), /before "b\\u\{202e\}"/); // the part that was deleted
  },

  async "an estimate of an earlier request does not start a scan"() {
    const page = await open();
    let answer, arrived;
    const asked = new Promise((resolve) => { arrived = resolve; });
    await page.route("**/api/scans/estimate", async (route) => {
      const held = new Promise((resolve) => { answer = resolve; });
      arrived();
      await held;
      await route.continue();
    });
    await fill(page, { "source.table": "Small", "action.type": "delete" });
    await asked;
    await page.locator('form.new [name="action.type"]').selectOption("count");
    const answered = page.waitForResponse("**/api/scans/estimate");
    answer();
    await answered;
    await page.getByRole("button", { name: "Check and estimate", disabled: false }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Start the scan" }).isVisible(), false);
    assert.equal(await page.locator(".estimate").textContent(), "");
  },

  async "errors are shown at their fields"() {
    const page = await open();
    for (const [field, values] of [
      ["source-table", { "source.table": "Nowhere", "action.type": "count" }],
      ["action-queue-name", { "source.table": "Small", "action.type": "enqueue" }],
      ["action-destination-table", { "source.table": "Small", "action.type": "copy" }],
      ["segmentSize", { "source.table": "Small", "action.type": "count", segmentSize: "0x10" }],
      ["limits-requestsPerSecond", { "source.table": "Small", "action.type": "count", segmentSize: "", "limits.requestsPerSecond": "1e2" }],
      ["range-prefix", { "source.table": "Small", "action.type": "count", "range.prefix": "b", "range.before": "a", "limits.requestsPerSecond": "" }],
    ]) {
      await fill(page, values);
      await page.locator(`#field-${field}-error`, { hasText: /\S/ }).waitFor();
      assert.match(await page.evaluate(() => document.activeElement.id), new RegExp(`^field-${field}$`));
    }
    assert.equal(await page.getByRole("button", { name: "Start the scan" }).isVisible(), false);
  },

  async "malicious text is shown as text"() {
    await api("POST", "catalog/records", { eid: hostile, lastname: hostile, [hostile]: hostile, n: 1 });
    await fetch(`${base}/api/log?stream=${encodeURIComponent(hostile)}`, { method: "POST", headers: json, body: JSON.stringify({ [hostile]: hostile }) });
    const { id } = await api("POST", "scans", { source: { table: "Small" }, action: { type: "copy", destination: { table: "Clash" }, mode: "fail" } });
    const page = await open(`${home}#/scans/${id}`);
    await badge(page, "failed");
    await page.locator(".failures", { hasText: "onerror=" }).waitFor();
    await page.locator(".failures summary").click();
    assert.equal(await page.locator(".failures tbody bdi").first().textContent(), shown);
    await fill(page, { "source.table": hostile, "action.type": "count" });
    await submit(page);
    await page.locator(".error", { hasText: "onerror=" }).waitFor();
    await page.goto(`${home}#/catalog`);
    await page.getByText("onerror=").first().waitFor();
    await page.getByRole("button", { name: "All fields" }).first().click();
    await page.locator("dialog", { hasText: "onerror=" }).waitFor();
    await page.setViewportSize({ width: 400, height: 800 });
    assert.ok(await page.locator("dialog .scroll").evaluate((e) => e.scrollWidth <= e.clientWidth), "a long name pushes its value out");
    await page.goto(`${home}#/logs`);
    await page.reload();
    await page.getByRole("link", { name: "onerror=" }).click();
    await page.locator(".brief", { hasText: "onerror=" }).waitFor();
    assert.equal(await page.locator(".brief .name").first().evaluate((name) => getComputedStyle(name).unicodeBidi), "isolate");
    await page.goto(`${home}#/catalog/${encodeURIComponent(hostile)}`);
    await page.getByText("There is no catalog").waitFor();
    for (const name of ["constructor", "__proto__", "toString"]) {
      await page.goto(`${home}#/${name}`);
      await page.getByRole("heading", { name: "No such page" }).waitFor();
      assert.equal(await page.title(), "No such page · Tablesweep");
      await page.goto(`${home}#/catalog`);
    }
    assert.equal(await page.evaluate(() => document.body.dataset.hacked), undefined);
    assert.equal(await page.locator("main img").count(), 0);
    own(page);
  },

  async "records are found by their keys, and changes are listed"() {
    const big = "9007199254740993";
    await fetch(`${base}/api/catalog/records`, { method: "POST", headers: json, body: `{"eid":"F314","ssn":"123-45-6789","lastname":"Faux","pay":3.0,"id":${big},"when":"2026-02-03T04:05:06Z","when@odata.type":"Edm.DateTime"}` });
    await Promise.all(Array.from({ length: 60 }, (_, i) => api("POST", "catalog/records", { eid: "many", lastname: `n${100 + i}` })));
    const page = await open(`${home}#/catalog`);
    await page.getByLabel("ssn").fill("123456789");
    await page.getByRole("button", { name: "Look up" }).click();
    await text(page, "1 record");
    await page.getByRole("button", { name: "All fields" }).click();
    for (const [name, type, value] of [["pay", "Double", "3.0"], ["id", "Int64", big], ["when", "DateTime", "2026-02-03T04:05:06Z"], ["lastname", "String", "Faux"]]) {
      const row = page.locator("dialog tbody tr", { has: page.locator(`th bdi:text-is("${name}")`) });
      assert.deepEqual([await row.locator("td").first().textContent(), await row.locator("td bdi").textContent()], [type, value], name);
    }
    await page.getByRole("button", { name: "Close" }).click();
    await page.getByLabel("ssn").fill("");
    await page.getByLabel("eid").fill("MANY");
    await page.getByRole("button", { name: "Look up" }).click();
    await text(page, "50 records on this page");
    await page.getByRole("link", { name: "Next page" }).click();
    await text(page, "10 records");
    await page.goBack();
    await text(page, "50 records on this page");
    await page.goto(`${home}#/catalog?shoe=7`);
    await page.getByText(/^shoe is not a parameter of this call; it takes eid, ssn, /).waitFor();
    await page.getByLabel("Catalog", { exact: true }).selectOption("visits");
    await text(page, "0 records");
    await page.getByRole("link", { name: "Newest changes" }).click();
    await page.getByText("No recent changes.").waitFor();
    await api("POST", "catalog/visits/records", { eid: "F314", at: "2026-11-22T01:00:00Z" });
    await text(page, "insert");
    own(page);
  },

  async "a stream is followed"() {
    await api("POST", "log/orders", Array.from({ length: 120 }, (_, i) => ({ order: i })));
    const page = await open(`${home}#/logs/orders`);
    await page.getByText("100 events").waitFor();
    await page.getByRole("button", { name: "Older events" }).click();
    await until("older events", async () => (await page.locator(".events tbody tr").count()) === 120);
    await api("POST", "log/orders", { order: "new" });
    await page.locator(".events tbody tr").first().getByText("new").waitFor();
    assert.equal(await page.locator(".events tbody tr").count(), 121);
    await page.getByLabel("Follow").uncheck();
    const dot = () => page.locator("#live").evaluate((live) => getComputedStyle(live, "::before").backgroundColor);
    await page.getByText(/^Read at/).waitFor(); // an answer that is not read again is not live
    const old = await dot();
    await page.getByLabel("Follow").check();
    await page.getByText(/^Live/).waitFor();
    assert.notEqual(await dot(), old);
    own(page);
  },

  async "the page handles no key, a wrong key and the right key"() {
    const keyed = await local("--addr", "127.0.0.1:0", "--keys=KEY");
    const address = keyed.line.replace("console ", "");
    const page = await open(address);
    await page.locator("dialog").getByText("The app asks for a key: a host key of the app, or a key of its function Scans.").waitFor();
    await page.getByLabel("Key", { exact: true }).fill("wrong-KEY");
    await page.getByRole("button", { name: "Use this key" }).click();
    await page.locator("dialog").getByText("The app refused the key.").waitFor();
    await page.getByLabel("Key", { exact: true }).fill("KEY");
    await page.keyboard.press("Enter");
    await page.getByText(/^Live/).waitFor();
    await page.reload();
    await page.getByText(/^Live/).waitFor(); // the tab keeps the key
    assert.equal(await page.evaluate(() => localStorage.length + document.cookie.length), 0);
    own(page);
    assert.ok(page.requests.some((r) => r.headers()["x-functions-key"] === "KEY"));
    const other = await open(address, { context: page.context() });
    await other.locator("dialog").waitFor(); // another tab has no key
    await page.getByRole("button", { name: "Key" }).click();
    await page.getByRole("button", { name: "Forget the key" }).click();
    await page.locator("dialog").waitFor();
    await stop(keyed);
  },

  async "the app stops and returns, and a hidden page sends no requests"() {
    const address = ["--addr", `127.0.0.1:${await freePort()}`];
    let away = await local(...address);
    const page = await open(away.line.replace("console ", ""));
    await page.locator("main h1").waitFor();
    await page.getByText("Live").waitFor();
    await stop(away);
    await page.locator("#banner").getByText("The app does not answer.").waitFor();
    await page.locator("#banner").getByText(/Next try in \d/).waitFor();
    away = await local(...address);
    await page.locator("#banner").waitFor({ state: "hidden" });
    await page.getByText("Live").waitFor();
    await page.evaluate(() => {
      Object.defineProperty(document, "hidden", { value: true, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await page.getByText("Once a minute while hidden").waitFor();
    const before = page.requests.length;
    await page.waitForTimeout(3500);
    assert.equal(page.requests.length, before);
    await page.evaluate(() => {
      delete document.hidden;
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await until("a refresh", () => page.requests.length > before);
    await stop(away);
  },

  async "the page shows that a destination is unavailable"() {
    const page = await open("about:blank");
    backup.left = 5; // enough for the start, but for fewer steps than rows
    const { id } = await api("POST", "scans", { name: "night shift", source: { table: "Source" }, action: { type: "copy", destination: { table: "Away", connection: "BACKUP" } }, strategy: "serial", segmentSize: 1 });
    try {
      await page.goto(`${home}#/scans/${encodeURIComponent(id)}`);
      await page.locator(".waits[role=status]").getByText(/^Waiting: BACKUP: .*503 ServerBusy.*, since .*\d\d:\d\d:\d\d$/).waitFor();
      await page.locator(".badge", { hasText: "running: waiting" }).waitFor();
      await page.locator("dt:text-is('Time left')").waitFor({ state: "hidden" });
      await page.goto(`${home}#/scans?state=running&table=Source&name=night+shift`);
      await page.getByRole("link", { name: /^copy Source \(strategy serial\) → BACKUP:Away/ }).waitFor();
    } finally {
      backup.left = Infinity;
    }
    await page.goto(`${home}#/scans/${encodeURIComponent(id)}`);
    await page.locator(".waits[role=status]").waitFor({ state: "hidden" });
    await page.getByText("named night shift").waitFor();
    await api("DELETE", `scans/${id}`);
    own(page);
  },

  async "failed rows are retried"() {
    const page = await open();
    await table("POST", "Tables", { TableName: "Twice" });
    await Promise.all(["p1", "p2"].map((PartitionKey) => table("POST", "Twice", { PartitionKey, RowKey: PartitionKey.replace("p", "r") })));
    const { id } = await api("POST", "scans", { source: { table: "Source" }, action: { type: "copy", destination: { table: "Twice" }, mode: "fail" } });
    await page.goto(`${home}#/scans/${encodeURIComponent(id)}`);
    await badge(page, "failed");
    await page.locator(".reasons > li", { hasText: /^the destination has a row with this key and other content 2 rows/ }).waitFor();
    await Promise.all(["p1", "p2"].map((PartitionKey) => table("DELETE", `Twice(PartitionKey='${PartitionKey}',RowKey='${PartitionKey.replace("p", "r")}')`)));
    await page.getByRole("button", { name: "Retry the failed rows …" }).click();
    await page.getByRole("button", { name: "Retry the rows" }).click();
    await badge(page, "succeeded");
    const { rows } = await api("GET", `scans/${id}`);
    assert.deepEqual(rows, { scanned: 200, written: 200, failed: 0, gone: 0 });
    own(page);
  },

  async "other web pages are refused"() {
    const scans = async () => (await api("GET", "scans?top=100&action=delete&table=Source")).scans.length; // other cases run meanwhile
    const before = await scans();
    const body = JSON.stringify({ source: { table: "Source" }, action: { type: "delete" } });
    const evil = http.createServer((_, w) => w.setHeader("content-type", "text/html").end("<title>evil</title>"));
    await new Promise((done) => evil.listen(0, "127.0.0.1", done));
    const page = await open(`http://127.0.0.1:${evil.address().port}/`);
    const answers = [];
    page.on("response", (r) => answers.push([r.url(), r.status()]));
    const attempts = await page.evaluate(async ([base, port, body]) => {
      const targets = [`${base}/api/scans`, `${base}/api/log/evil`, `${base}/admin/functions/Maintain`, `http://127.0.0.1:${port}/api/scans`, `http://127.0.0.1:${port}/api/log/evil`, `http://127.0.0.1:${port}/Maintain`];
      for (const target of targets) await fetch(target, { method: "POST", mode: "no-cors", headers: { "content-type": "text/plain" }, body }).catch(() => {});
      await fetch(`${base}/api/scans`, { mode: "no-cors" }).catch(() => {});
      return targets.length + 1;
    }, [base, handlerPort(), body]);
    await until("the answers", () => answers.length >= attempts);
    for (const [url, status] of answers) assert.ok(status === 403 || status === 404, `${url}: ${status}`);
    assert.equal(await scans(), before);
    assert.equal((await api("GET", "log")).streams.filter((s) => s.name === "evil").length, 0);
    // A host name that resolves to this machine.
    for (const path of ["/api/console/", "/api/scans", "/"]) {
      assert.equal((await page.goto(`http://evil.example:${port}${path}`)).status(), 403, path);
    }
    // The same requests are sent to the handler's own port, behind this host, and behind one without a secret.
    const alone = await freePort();
    await run([], "{", { FUNCTIONS_CUSTOMHANDLER_PORT: alone, AZURE_FUNCTIONS_ENVIRONMENT: "Development", AzureWebJobsStorage: storage.line });
    for (const inner of [handlerPort(), alone]) {
      assert.equal((await page.goto(`http://evil.example:${inner}/api/console/`)).status(), 404, `port ${inner}`);
      const statuses = await page.evaluate(() => Promise.all(["GET /api/scans", "GET /api/log", "POST /api/log?stream=evil", "DELETE /api/log?stream=orders", "POST /Maintain"].map(async (target) => {
        const [method, path] = target.split(" ");
        return (await fetch(path, { method, headers: { "x-azure-functions-invocationid": "forged", "x-forwarded-host": "localhost" }, body: method === "POST" ? "{}" : undefined })).status;
      })));
      assert.deepEqual(statuses, [404, 404, 404, 404, 404], `port ${inner}`);
    }
    evil.close();
  },

  async "without keys, another site's page can change nothing"() {
    const inner = await freePort();
    await run([], "", { FUNCTIONS_CUSTOMHANDLER_PORT: `${inner}`, AZURE_FUNCTIONS_ENVIRONMENT: "Development", AzureWebJobsStorage: storage.line, TABLESWEEP_STATE_TABLE: "foreign" });
    const came = [];
    const host = http.createServer((req, res) => { // a proxy like Core Tools
      const headers = { ...req.headers, host: `127.0.0.1:${inner}`, "x-forwarded-host": req.headers.host, "x-azure-functions-invocationid": crypto.randomUUID() };
      req.pipe(http.request({ port: inner, method: req.method, path: req.url, headers }, (r) => {
        if (req.method !== "OPTIONS" && req.url.startsWith("/api/")) came.push(`${req.method} ${(req.headers["content-type"] ?? "").split(";")[0]} ${r.statusCode}`);
        res.writeHead(r.statusCode, r.headers);
        r.pipe(res);
      }));
    });
    const site = http.createServer((_, res) => res.writeHead(200, { "content-type": "text/html" }).end("<title>Another site</title>"));
    for (const server of [host, site]) await new Promise((done) => server.listen(0, "127.0.0.1", done));
    const at = `http://127.0.0.1:${host.address().port}`;
    const body = JSON.stringify({ source: { table: "Source" }, action: { type: "delete" } });
    const types = ["", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain", "application/json"];
    const ask = async (page, mode, type, method, path, content) => page.evaluate(async ([url, init, content, type]) => {
      if (type) init.headers = { "content-type": type };
      if (content) init.body = new TextEncoder().encode(content); // an array of bytes has no content type
      return (await fetch(url, init).catch(() => ({}))).status; // a preflight may forbid the request
    }, [`${at}/api/${path}`, { method, mode }, content, type]);
    for (const name of ["127.0.0.1", "localhost"]) {
      const page = await open(`http://${name}:${site.address().port}/`);
      for (const mode of ["cors", "no-cors"]) {
        for (const type of types) {
          for (const [method, path, content] of [["POST", "scans", body], ["POST", "scans/x/retry"], ["PUT", "scans", body], ["PATCH", "scans", body], ["DELETE", "scans/x"]]) await ask(page, mode, type, method, path, content);
        }
      }
      await page.evaluate(([url, body]) => navigator.sendBeacon(url, body), [`${at}/api/scans`, body]);
      await page.evaluate(([url, body]) => { // the form's only field becomes the body, except for the = at its end
        document.body.innerHTML = `<form method=post enctype=text/plain><input></form>`;
        Object.assign(document.forms[0], { action: url }).elements[0].name = body;
        document.forms[0].submit();
      }, [`${at}/api/scans`, body]);
      await page.waitForURL(`${at}/api/scans`);
    }
    assert.deepEqual(await (await fetch(`${at}/api/scans`)).json(), { scans: [] });
    assert.deepEqual([...new Set(came)].sort(), ["GET  200", ...["", ...types.slice(1, 4)].map((type) => `POST ${type} 403`)].sort());
    const page = await open(`${at}/api/console/`); // a page of the app itself
    for (const type of types.slice(0, 2)) assert.equal(await ask(page, "cors", type, "POST", "scans", body.replace("delete", "count")), 202);
    assert.equal(await ask(page, "cors", "", "POST", "scans/x/retry"), 404);
    for (const server of [host, site]) server.close();
  },

  async "a scan of 100,000 steps updates quickly"() {
    const page = await open("about:blank");
    const key = (i) => ({ partitionKey: `${hostile}${String(i).padStart(9, "0")}` });
    const began = Date.now() - 240 * 5000;
    let turns = 0;
    const answers = {
      "": () => ({ id: "x", state: "running", source: { table: "Big" }, action: { type: "copy", destination: { table: "Bigger" } }, startedAt: new Date(began), progress: 0.5 + turns / 1000, rate: 8123 + turns,
        rows: { scanned: 1e8 + ++turns, written: 1e8 + turns, failed: 67 + turns }, steps: { done: 1e5 + turns, pending: 1e5 }, queries: 1e5, transactions: 1e6, throttled: turns, cost: { requests: 1e6, dollars: 36 } }),
      "/ranges": () => ({ at: new Date(), ranges: Array.from({ length: 500 }, (_, i) => ({ from: key(i), to: key(i + 1), state: ["done", "pending", "failed"][(i + turns) % 3], rows: 1000 * i + turns })) }),
      "/timeline": () => ({ at: new Date(), interval: 5, points: Array.from({ length: 240 }, (_, i) => ({ at: new Date(began + 5000 * i), rows: 1000 + ((i * turns) % 977), requests: 500 + (i % 97), throttled: i % 50 })) }),
      "/failed": () => ({ total: 67 + turns, kept: 67, rows: Array.from({ length: 50 }, (_, i) => ({ ...key(i), rowKey: hostile, reason: hostile })) }),
    };
    for (const [path, answer] of Object.entries(answers)) await page.route((url) => url.pathname === `/api/scans/x${path}`, (r) => r.fulfill({ json: answer() }));
    await quick(page); // so that ranges and timeline are outdated at each refresh
    const cdp = await page.context().newCDPSession(page);
    await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
    // This is the CPU time of all tasks except layout, because ScriptDuration does not include code that runs after an await.
    const spent = async () => {
      const of = Object.fromEntries((await cdp.send("Performance.getMetrics")).metrics.map((m) => [m.name, m.value]));
      return of.TaskDuration - of.LayoutDuration - of.RecalcStyleDuration;
    };
    await page.goto(`${home}#/scans/x`);
    await page.getByText("Ranges as a table").click();
    await until("two turns", () => turns >= 2);
    await page.waitForTimeout(500);
    const [before, first] = [await spent(), turns];
    await until("two more", () => turns >= first + 2);
    await page.waitForTimeout(500);
    const each = (1000 * (await spent() - before)) / (turns - first);
    console.log(`  an update of everything takes ${each.toFixed(0)} ms of script at most`);
    assert.ok(page.requests.filter((r) => r.url().endsWith("/ranges")).length >= first + 2, "the ranges were not read anew");
    assert.ok(each > 1 && each < 200, `${each} ms`);
    assert.equal(await page.locator(".strip > g:first-of-type > rect").count(), 500);
    assert.equal(await page.evaluate(() => document.body.dataset.hacked), undefined);
  },

  async "every view works at 400 and 1,600 pixels, light and dark, by keyboard"() {
    const { id } = await api("POST", "scans", { source: { table: "Source" }, action: { type: "count" } });
    for (const [width, colorScheme] of [[400, "dark"], [1600, "light"]]) {
      const page = await open(home, { viewport: { width, height: 900 }, colorScheme });
      await page.route("**/ranges", async (route) => { // the element that shows the ranges already has its name
        await new Promise((done) => setTimeout(done, 1000));
        await route.continue().catch(() => {}); // the page may be closed
      });
      for (const view of ["#/scans", `#/scans/${id}`, "#/scans/new", "#/catalog", "#/catalog/default/changes", "#/logs", "#/logs/orders", "#/health"]) {
        await page.goto(home + view);
        await page.locator("main h1").waitFor();
        await page.waitForTimeout(150);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${view} is wider than ${width}`);
        const nameless = await page.evaluate(() => [...document.querySelectorAll("main input, main select, main button, main a, main [role=img]")]
          .filter((e) => !(e.labels?.length || e.textContent.trim() || e.getAttribute("aria-label"))).map((e) => e.outerHTML));
        assert.deepEqual(nameless, [], view);
      }
      const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
      assert.equal(ground[0] > 128, colorScheme === "light");
      await page.goto(home);
      await page.reload();
      await page.locator("main h1").waitFor();
      const reached = [];
      for (let i = 0; i < 9; i++) {
        await page.keyboard.press("Tab");
        reached.push(await page.evaluate(() => document.activeElement.textContent));
      }
      assert.deepEqual(reached.slice(0, 8), ["Skip to the content", "Tablesweep", "Scans", "Schedules", "Catalog", "Logs", "Health", "New scan"]);
      await page.keyboard.press("Enter");
      await page.context().close();
    }
  },
};

// The cases mostly wait, so several of them run concurrently.
let failed = 0;
const waiting = Object.entries(cases).filter(([name]) => name.includes(process.argv[4] ?? ""));
async function worker() {
  for (let next; (next = waiting.shift());) {
    const [name, run] = next;
    const began = Date.now();
    try {
      await run();
      console.log(`ok   ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
    } catch (e) {
      failed++;
      console.error(`FAIL ${name}: ${e.stack}`);
    }
  }
}
await Promise.all([worker(), worker(), worker(), worker()]);
await browser.close();
for (const child of children.reverse()) await stop(child);
if (refused.length > 0) {
  failed++;
  console.error(`FAIL the pages' errors:\n${refused.join("\n")}`);
}
process.exit(failed ? 1 : 0);
