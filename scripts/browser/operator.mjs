// Cases for operators: distinct names, accessible pages, updates that change only the changed parts of a page, a form that keeps its input, and pages
// that show the state of all scans and of one scan.
import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import { json, play, problem, quick, scan, second } from "./played.mjs";

const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const key = (i) => ({ partitionKey: `p\u202e${String(i).padStart(9, "0")}` });
const ranges = (turn, size = 500) => Array.from({ length: size }, (_, i) => ({ from: key(i), to: key(i + 1), state: i % 50 === turn % 50 ? "failed" : "done", rows: 1000 * i + (i % 20 === 0 ? turn : 0) }));
const points = Array.from({ length: 240 }, (_, i) => ({ at: new Date(Date.UTC(2026, 0, 2, 10) + 5000 * i), rows: 1000 + i, requests: 500 + (i % 97), throttled: i % 50 }));
const running = (more) => scan({ state: "running", finishedAt: undefined, phase: "working", progress: 0.5, rate: 2739, secondsLeft: 120, steps: { done: 9, pending: 4 }, ...more });
const empty = { "scans/x/ranges": () => json({ at: second(20), ranges: [] }), "scans/x/timeline": () => json({ at: second(20), interval: 5, points: [] }) };

export const operator = ({ until, open, home, fill, api, hostile }) => ({
  async "every page is accessible"() {
    const { id } = await api("POST", "scans", { source: { table: "Source" }, action: { type: "count" } });
    await api("POST", "catalog/records", { eid: hostile, lastname: hostile, n: 1 });
    await api("POST", "log/barriers", { n: 1 });
    const page = await open("about:blank");
    await page.addInitScript(axe);
    await play(page, {
      scans: (query) => (query.get("state") ? json({ scans: [running({ phase: "stalled", name: "cron" }), scan({ id: "w" }), scan({ id: "y", state: "failed" }), scan({ id: "z", state: "canceled" })], cursor: "c" }) : undefined),
      "scans/x": () => json(running({ rows: { scanned: 3, written: 0, failed: 3 }, phase: "waiting", leased: { steps: 3, throttled: 5, instances: [{ name: "i", steps: 3 }], waiting: [{ connection: "BACKUP", cause: "503 ServerBusy", since: second(1) }] }, cause: "BACKUP: 503 ServerBusy" })),
      "scans/x/failed": () => json({ rows: [{ ...key(1), rowKey: "r", reason: "x" }], total: 3, kept: 1 }),
      "scans/x/ranges": () => json({ at: second(20), ranges: [...ranges(1, 20), { from: key(30), state: "pending" }] }), "scans/x/timeline": () => json({ at: second(20), interval: 5, points }),
      "scans/gone": () => problem(404, "there is no scan"),
      schedules: () => json({ schedules: [{ name: "nightly", cron: "0 0 3 * * *", next: second(40), request: { source: { tables: "*" }, action: { type: "copy", destination: { container: "backups", prefix: "orders/of/the/shop/{date}" } } }, last: { id: "x", occurrence: second(1), state: "failed", error: "x" }, missed: { count: 2, last: second(3) }, skipped: { count: 0 } }] }),
      "schedules/nightly/backups": () => json({ backups: [{ id: "b", occurrence: second(9), place: { container: "backups", prefix: "n" }, table: "Orders", rows: 1234, restore: "tablesweep import backups/n --to-connection WHERE --verify" }] }),
    });
    const wrong = [], wide = [], widths = [390, 800, 1400];
    const looks = [{ colorScheme: "light", forcedColors: "none" }, { colorScheme: "dark", forcedColors: "none" }, { colorScheme: "dark", forcedColors: "active" }];
    const check = async (where) => {
      for (const look of looks) { // looks differ only in colours, so names and roles are checked with the first one
        await page.emulateMedia(look);
        const rules = look === looks[0] ? {} : { runOnly: { type: "rule", values: ["color-contrast", "link-in-text-block"] } };
        const { violations } = await page.evaluate((rules) => window.axe.run(document, { resultTypes: ["violations"], ...rules }), rules);
        wrong.push(...violations.map((v) => `${where} ${JSON.stringify(look)}: ${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.target} ${n.failureSummary}`).join(" | ")}`));
      }
    };
    for (const [view, ready] of [
      ["#/scans", ".cards"], ["#/scans?state=running", ".cards"], ["#/scans/x", ".failures tbody tr"], [`#/scans/${encodeURIComponent(id)}`, ".figures"], ["#/scans/gone", "h1:text('No such scan')"],
      ["#/scans/new", "form.new"], ["#/catalog", ".cards"], ["#/catalog/-/changes", ".cards"], ["#/logs", ".streams tbody tr"], ["#/logs/barriers", ".events tbody tr"],
      ["#/schedules", "code"], ["#/health", "tbody tr"], ["#/nowhere", "h1:text('No such page')"],
    ]) {
      await page.goto(home + view);
      await page.locator(ready).first().waitFor({ state: "attached" });
      await page.evaluate(() => { for (const details of document.querySelectorAll("main details")) details.open = true; });
      for (const width of widths) {
        await page.setViewportSize({ width, height: 800 });
        if (width !== 800) await check(`${view} at ${width}`);
        wide.push(...await page.evaluate(([view, width]) => (document.documentElement.scrollWidth > width ? [`${view} at ${width}`] : []), [view, width]));
      }
    }
    assert.deepEqual(wide, []);
    await page.goto(`${home}#/scans/x`);
    for (const button of ["JSON", "Cancel …"]) {
      await page.getByRole("button", { name: button }).click();
      await check(button);
      await page.keyboard.press("Escape");
    }
    await page.goto(`${home}#/catalog`);
    await page.getByRole("button", { name: "All fields" }).first().click();
    await check("a record");
    assert.deepEqual(wrong, []);
  },

  async "two different names never look the same"() {
    const page = await open();
    const shown = await page.evaluate(async () => {
      const { visible, shorten, quoted, json } = await import("./names.js");
      const texts = ["", "\\empty", "a", " a", "a ", " ", "a b", "a  b", "a   b", "a\tb", "a\u00a0b", "a\u3000b", "\\", "\\\\", "a\\u{20}", "\u202eab", "\u200ba", "a\u200b", "a\u200db", "a\ufeff", "a\u00ad", "\u0301a", "a\u0301", "\u00e1",
        "q\u0303", "q\u0303\u0303", "o\u0338", "\u00f8", "\ud800", "\udc00", "\ufffd", "\ud83d\ude00", "a\nb", "a\rb", "a\u2028b", "a\u0000b", "a\u0085b", "\u212b", "\u00c5", "\ud55c", "\u1112\u1161\u11ab", "a\ufe0f", "a\u2800", "\u115f", "\ue000", "a\u0378",
        "a\u0323\u0307", "a\u0307\u0323", "\u05d01", "1\u05d0", "\u{e0041}"];
      return {
        texts: texts.map((t) => [t, visible(t)]), back: texts.map((t) => JSON.parse(json({ t })).t === t && quoted(t) !== ""), quoted: new Set(texts.map(quoted)).size,
        cut: [shorten("x".repeat(140), 120), shorten("h".repeat(72) + "m".repeat(80) + "t".repeat(48), 120), shorten("\u202e".repeat(141), 120).map((p) => p.length ?? p)],
        seen: visible(" \u202ea\\\u0301 b  c\ud800 "),
      };
    });
    const plain = shown.texts.map(([, as]) => as);
    assert.equal(new Set(plain).size, plain.length);
    for (const [text, as] of shown.texts) assert.ok(/^[\x20-\x7e\u00c5\u00e1\u00f8\u0303\u05d0\ufffd\ud55c\u{1f600}]+$/u.test(as) && !/^ | $|  /.test(as), `${JSON.stringify(text)} is shown as ${JSON.stringify(as)}`);
    assert.ok(shown.back.every(Boolean));
    assert.equal(shown.quoted, plain.length);
    assert.equal(shown.seen, "\\u{20}\\u{202e}a\\\\\\u{301} b \\u{20}c\\u{d800}\\u{20}");
    assert.deepEqual(shown.cut, [["x".repeat(140), 0, ""], ["h".repeat(72), 80, "t".repeat(48)], [72 * 8, undefined, 48 * 8]].map((c, i) => (i === 2 ? [72 * 8, 21, 48 * 8] : c)));
  },

  async "names are copied exactly, and shown in full on demand"() {
    const page = await open("about:blank");
    await page.addInitScript(() => {
      window.copied = [];
      Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => { window.copied.push(text); } } });
    });
    const long = `${"k".repeat(300)}\u202eend`, exact = [" a  b\u200b", long, "\ud800"];
    await play(page, {
      "scans/x": () => json(scan({ state: "failed", rows: { scanned: 3, written: 0, failed: 3 } })),
      "scans/x/failed": () => ({ body: `{"rows":[${exact.map((k) => `{"partitionKey":${JSON.stringify(k)},"rowKey":"r","reason":"x"}`)}],"total":3,"kept":3}` }), ...empty,
    });
    await page.goto(`${home}#/scans/x`);
    await page.locator(".failures summary").click();
    const cells = page.locator(".failures tbody td:first-child");
    assert.equal(await cells.first().locator("bdi").textContent(), "\\u{20}a \\u{20}b\\u{200b}");
    for (let i = 0; i < exact.length; i++) await cells.nth(i).getByRole("button", { name: "Copy" }).click();
    assert.deepEqual(await page.evaluate(() => window.copied), [exact[0], exact[1], '"\\ud800"']);
    assert.match(await cells.nth(1).locator("bdi").textContent(), /^k{72}⋯ 184 ⋯k{44}\\u\{202e\}end$/);
    await cells.nth(1).getByRole("button", { name: "184 more characters" }).click();
    assert.equal(await cells.nth(1).locator("bdi").textContent(), `${"k".repeat(300)}\\u{202e}end`);
  },

  async "an update changes only the texts that differ, and is cheap"() {
    const page = await open("about:blank");
    let turn = 0;
    await quick(page); // ranges and timeline are outdated at each refresh
    await play(page, {
      "scans/x": () => json(running({ rows: { scanned: 6e6 + ++turn, written: 6e6, failed: 0 } })),
      "scans/x/ranges": () => json({ at: second(20), ranges: ranges(turn) }),
      "scans/x/timeline": () => json({ at: second(20), interval: 5, points: points.map((p, i) => ({ ...p, rows: i === 239 ? 1000 + turn : p.rows })) }),
    });
    const cdp = await page.context().newCDPSession(page);
    await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
    const layout = async () => {
      await page.evaluate(() => document.body.getBoundingClientRect().height);
      const of = Object.fromEntries((await cdp.send("Performance.getMetrics")).metrics.map((m) => [m.name, m.value]));
      return 1000 * (of.LayoutDuration + of.RecalcStyleDuration);
    };
    await page.goto(`${home}#/scans/x`);
    await page.locator(".strip > g > rect").nth(499).waitFor({ state: "attached" });
    const before = await layout();
    await page.getByText("Ranges as a table").click();
    await until("the table", () => page.locator(".ranges tbody tr").count().then((n) => n === 500));
    const first = await layout() - before;
    const row = page.locator(".ranges tbody tr").first().locator("td").last();
    const told = async (past) => until("an update", async () => Number((await row.textContent()).replaceAll(",", "")) > past);
    await page.evaluate(() => {
      const texts = () => new Map([...(function* all(walker) { while (walker.nextNode()) yield walker.currentNode; })(document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT))].map((n) => [n, n.data]));
      let last = texts();
      window.seen = { added: 0, idle: 0, changed: 0, untold: 0 };
      new MutationObserver((records) => {
        const now = texts(), touched = new Set(records.filter((r) => r.type === "characterData").map((r) => r.target));
        window.seen.added += records.filter((r) => r.type === "childList").length;
        for (const node of touched) if (last.get(node) === now.get(node)) window.seen.idle++; else window.seen.changed++;
        for (const [node, data] of now) if (last.get(node) !== data && !touched.has(node)) window.seen.untold++;
        last = now;
      }).observe(document.querySelector("main"), { subtree: true, childList: true, characterData: true });
    });
    const turns = turn, [from, style] = [Number((await row.textContent()).replaceAll(",", "")), await layout()];
    await told(from + 1);
    const each = (await layout() - style) / (turn - turns);
    const seen = await page.evaluate(() => window.seen);
    console.log(`  the first drawing of 500 rows takes ${first.toFixed(0)} ms of style and layout, an update ${each.toFixed(1)}; ${seen.changed} texts changed`);
    assert.ok(seen.changed > 20, `${seen.changed} texts`);
    assert.deepEqual({ ...seen, changed: 0 }, { added: 0, idle: 0, changed: 0, untold: 0 });
    assert.ok(each < first / 5, `an update takes ${each} ms, the first drawing ${first}`);
  },

  async "the form has suggestions, shows all errors together, and keeps a draft over a reload"() {
    const page = await open("about:blank");
    const sent = [], asked = [];
    let answer = () => problem(400, "several things are wrong", {}, [{ field: "source.table", detail: "is no table" }, { field: "segmentSize", detail: "must be 1 to 1000" }, { field: "segmentsPerInvocation", detail: "is too much" }]);
    await play(page, {
      scans: () => json({ scans: [] }),
      "scans/estimate": (_, request) => (sent.push(request.postDataJSON()), answer()),
      "scans/connections": () => json({ connections: ["AzureWebJobsStorage", "BACKUP"] }),
      "scans/connections/BACKUP/tables": () => (asked.push("tables"), json({ tables: ["Orders", hostile] })),
      "scans/connections/BACKUP/queues": () => problem(503, "away"),
    });
    const offers = (name) => page.locator(`[name="${name}"]`).evaluate((input) => [...input.list.options].map((o) => o.value));
    await fill(page, { "source.table": " Orders ", "action.type": "count", segmentSize: "0", segmentsPerInvocation: "99", filter: " N gt 1 ", "range.prefix": " p " });
    for (const [field, says] of [["source-table", "is no table"], ["segmentSize", "must be 1 to 1000"], ["segmentsPerInvocation", "is too much"]]) {
      await page.locator(`#field-${field}-error`).getByText(says).waitFor();
      assert.equal(await page.locator(`#field-${field}`).getAttribute("aria-invalid"), "true");
    }
    assert.deepEqual(sent.at(-1), { source: { table: "Orders" }, action: { type: "count" }, range: { prefix: " p " }, filter: " N gt 1 ", segmentSize: 0, segmentsPerInvocation: 99 });
    answer = () => json({ rows: [1, 1], counted: true, requests: 1, dollars: 0, queries: 1 });
    await fill(page, { segmentSize: "", "source.connection": "BACKUP" });
    await page.getByRole("button", { name: "Start the scan" }).waitFor();
    await page.locator('[name="source.table"]').focus();
    await until("tables", async () => (await offers("source.table")).length === 2);
    assert.deepEqual(await offers("source.table"), ["Orders", hostile]);
    assert.deepEqual(await offers("source.connection"), ["AzureWebJobsStorage", "BACKUP"]);
    await page.locator('[name="source.connection"]').focus();
    await page.locator('[name="source.table"]').focus();
    assert.equal(asked.length, 1); // one request for each connection
    await fill(page, { "action.type": "delete", "range.prefix": "part-1", filter: "" });
    await page.getByLabel(/Type the table/).fill("Orders");
    await page.reload();
    await page.locator("form.new").waitFor();
    assert.equal(await page.locator('[name="range.prefix"]').inputValue(), "part-1");
    assert.ok(await page.locator('[name="range.prefix"]').isVisible());
    assert.equal(await page.getByLabel(/Type the table/).isVisible(), false);
    await page.getByRole("button", { name: "Check and estimate" }).click();
    await page.getByLabel(/Type the table/).waitFor();
    assert.equal(await page.getByLabel(/Type the table/).inputValue(), "");
    for (const [values, shown] of [[{ "action.type": "count" }, "source.table,"], [{ from: "export", "action.type": "copy" }, "source.container,action.destination.table"]]) {
      for (const [name, value] of Object.entries(values)) await page.locator(`[name="${name}"]`).selectOption(value);
      assert.deepEqual((await page.locator(".required:visible > [aria-required=true]").evaluateAll((all) => all.map((i) => i.name))).join(), shown.replace(/,$/, ""));
      assert.match(await page.locator(".required:visible > label").first().evaluate((label) => getComputedStyle(label, "::after").content), /\*/);
    }
    assert.equal(await page.getByLabel("Queries for the first prefix").isVisible(), false);
    await page.getByLabel("Strategy").selectOption("prefix");
    assert.equal(await page.getByLabel("Queries for the first prefix").isVisible(), true);
    await page.getByRole("button", { name: "Clear" }).click();
    await until("an empty form", async () => (await page.locator('[name="source.table"]').inputValue()) === "");
    await page.reload();
    await page.locator("form.new").waitFor();
    assert.equal(await page.locator('[name="range.prefix"]').inputValue(), "");
  },

  async "a deletion shows which part of which table it deletes"() {
    const page = await open("about:blank");
    let answer;
    await play(page, { scans: () => json({ scans: [] }), "scans/estimate": () => json({ requests: 9, queries: 1, dollars: 0, ...answer }) });
    for (const [rows, counted, values, says] of [
      [1100, true, { "range.prefix": "part-1" }, "Delete 1,100 rows of Clash (prefix part-1). Deleted rows cannot be restored."],
      [1100, false, { "range.prefix": "a, b", filter: "N gt 1" }, 'Delete at least 1,100 rows of Clash (prefix "a, b", where N gt 1). Deleted rows cannot be restored.'],
      [1, true, { "range.prefix": "", filter: "", strategy: "serial" }, "Delete 1 row of Clash. This is the whole table, because no range or filter is set. Deleted rows cannot be restored."],
      [0, true, { "source.connection": "BACKUP" }, "Delete no rows of BACKUP:Clash. This is the whole table, because no range or filter is set. Deleted rows cannot be restored."],
    ]) {
      answer = { rows: [rows, counted ? rows : null], counted };
      await fill(page, { "source.table": "Clash", "action.type": "delete", ...values });
      await page.locator(".confirmation strong").getByText(says, { exact: true }).waitFor();
    }
  },

  async "the list shows open scans, filters, and older scans"() {
    const page = await open("about:blank");
    const asked = [];
    const part = scan({ id: "p", action: { type: "delete" }, source: { table: "Clash", connection: "BACKUP" }, range: { prefix: "part-1" }, filter: "N gt 1", strategy: "serial", name: "cron\u202e" });
    await play(page, {
      scans: (query) => {
        asked.push(Object.fromEntries(query));
        if (query.get("since") === "yesterday") return problem(400, "since is no time", {}, [{ field: "since", detail: "is no time" }]);
        if (query.get("cursor")) return json({ scans: [scan({ id: "old" })] });
        return json({ scans: [part], cursor: "c+1" });
      },
    });
    await page.goto(`${home}#/scans`);
    await page.getByRole("link", { name: "delete BACKUP:Clash (prefix part-1, where N gt 1, strategy serial)" }).waitFor();
    assert.match(await page.locator("tbody td").first().textContent(), /cron\\u\{202e\}/);
    await page.getByLabel("State").selectOption("failed");
    await page.waitForURL(/#\/scans\?state=failed$/);
    await page.getByLabel("Table").fill("Clash");
    await page.keyboard.press("Enter");
    await page.waitForURL(/state=failed&table=Clash$/);
    await until("a filtered list", () => asked.at(-1).table === "Clash");
    assert.deepEqual(asked.at(-1), { state: "failed", table: "Clash", top: "50" });
    await page.getByRole("link", { name: "Older scans" }).click();
    await page.waitForURL(/cursor=c%2B1$/);
    await page.locator('a[href="#/scans/old"]').waitFor();
    assert.equal(await page.getByRole("link", { name: "Older scans" }).isVisible(), false);
    await page.goBack();
    await page.locator('a[href="#/scans/p"]').waitFor();
    await page.goto(`${home}#/scans?since=yesterday`);
    await page.locator(".banner").getByText("since is no time").waitFor();
    await page.getByRole("link", { name: "All", exact: true }).click();
    await page.locator('a[href="#/scans/p"]').waitFor();
    assert.equal(await page.getByLabel("Since").inputValue(), "");
  },

  async "the list fits every width, hides nothing behind a long name, and shows the same as the page"() {
    const page = await open("about:blank");
    const cause = { phase: "waiting", cause: "BACKUP: connection refused", secondsLeft: undefined, progress: undefined, leased: { steps: 1, instances: [], waiting: [{ connection: "BACKUP", cause: "connection refused", since: second(1) }] } };
    const all = [running({ name: "n".repeat(100), ...cause }), scan({ id: "y", state: "failed", name: "cron", filter: `N eq '${"y".repeat(200)}'`, rows: { scanned: 3000, written: 0, failed: 3000 } }), scan({ id: "z" })];
    const canceled = scan({ id: "d", state: "canceled", cause: "steps that were running when the scan ended: 1; the requests that they had sent may still delete rows", leased: { ...cause.leased } });
    await play(page, { "scans/d": () => json(canceled), "scans/d/ranges": empty["scans/x/ranges"], "scans/d/timeline": empty["scans/x/timeline"], scans: (query) => json({ scans: query.get("cursor") ? all.slice(1) : [...all, ...Array.from({ length: 40 }, (_, i) => scan({ id: `s${i}` })), canceled], cursor: query.get("cursor") ? undefined : "c" }), "scans/x": () => json(all[0]), ...empty });
    for (const width of [390, 800, 1400]) {
      await page.setViewportSize({ width, height: 800 });
      await page.goto(`${home}#/scans`);
      await page.getByText("connection refused").waitFor();
      const seen = await page.evaluate(() => {
        const rows = [...document.querySelectorAll("tbody tr")], box = (e) => e.getBoundingClientRect();
        const since = document.querySelector("[name=since]"), style = getComputedStyle(since), pen = document.createElement("canvas").getContext("2d");
        pen.font = `${style.fontSize} ${style.fontFamily}`;
        return {
          wide: document.documentElement.scrollWidth,
          out: rows.slice(0, 3).flatMap((row) => [...row.querySelectorAll(".badge, time, .name, .bad, .warn")]).filter((e) => box(e).left < 0 || box(e).right > innerWidth || box(e).width === 0 && e.textContent).map((e) => e.className || e.tagName),
          apart: box(rows[1].querySelector(".name")).top >= box(rows[1].querySelector("a")).bottom - 1 && box(rows[1].querySelector(".parts .bad")).left > box(rows[1].querySelector(".name")).right,
          placeholder: pen.measureText(since.placeholder).width <= since.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight),
          lines: box(rows[2]).height,
        };
      });
      assert.deepEqual({ ...seen, lines: 0 }, { wide: width, out: [], apart: true, placeholder: true, lines: 0 });
      assert.ok(seen.lines < 90, `a row of ${seen.lines} pixels at ${width}`);
    }
    assert.equal(await page.locator("tbody tr").first().locator("progress:visible").count(), 0);
    const said = await page.locator("tbody tr").first().locator(".warn").textContent();
    const age = page.locator("tbody tr").nth(2).locator("time");
    assert.match(`${await age.textContent()} | ${await age.getAttribute("title")}`, /^2 Jan 2026, 10:00:04 \d+ d ago \| 2026-01-02 10:00:04 UTC$/);
    await page.getByRole("link", { name: "Older scans" }).click();
    await page.getByRole("link", { name: "Newest scans" }).waitFor();
    assert.equal(await page.evaluate(() => scrollY), 0);
    await page.getByRole("link", { name: "Newest scans" }).click();
    await page.getByRole("link", { name: "Older scans" }).waitFor();
    await page.goto(`${home}#/scans/x`);
    await page.locator(".waits[role=status]").getByText(`Waiting: ${said}`, { exact: true }).waitFor();
    await page.goto(`${home}#/scans`);
    assert.equal(await page.locator("tbody tr").last().locator(".warn").textContent(), canceled.cause);
    await page.goto(`${home}#/scans/d`);
    await page.locator(".waits[role=status]").getByText(`Canceled: ${canceled.cause}`, { exact: true }).waitFor();
  },

  async "a waiting scan shows what it waits for, and a changed clock stops nothing"() {
    const page = await open("about:blank");
    let turn = 0, more = {};
    await page.addInitScript(() => {
      const now = Date.now.bind(Date);
      window.behind = 0;
      Date.now = () => now() - window.behind;
    });
    await quick(page);
    let asked = 0;
    await play(page, {
      "scans/x": () => json(running({ rows: { scanned: ++turn, written: 0, failed: 0 }, throttled: 2, ...more })),
      "scans/x/ranges": () => (asked++, json({ at: second(20), ranges: [{ state: "done", rows: 5, to: key(1) }, { state: "leased", from: key(1), to: key(2) }, { state: "pending", from: key(2) }] })),
      "scans/x/timeline": () => json({ at: second(20), interval: 5, points: [] }),
    });
    const figure = async (name) => (await page.locator(`dt:text-is('${name}') ~ dd`).allTextContents()).join("; ");
    await page.goto(`${home}#/scans/x`);
    await until("figures", async () => (await figure("Time left")) === "2 min 0 s; estimated");
    const known = () => page.locator(".large dt:visible").allTextContents();
    assert.deepEqual(await known(), ["Rows read", "Time", "Progress", "Time left"]);
    assert.equal(await figure("Progress"), "50 %; estimated");
    const legend = async () => (await page.locator(".legend .mark:not([hidden])").allTextContents()).join("; ");
    await until("legend", async () => (await legend()) === "done: 1 range; in progress: 1 range; pending: 1 range");
    more = { phase: "waiting", cause: "BACKUP: it answers 503 ServerBusy", throttled: 42, rate: undefined, progress: undefined, secondsLeft: undefined, lastStepAt: second(1), leased: { steps: 5, throttled: 40, instances: [{ name: "a", steps: 4 }, { name: "b", steps: 1 }], waiting: [{ connection: "BACKUP", cause: "503 ServerBusy", since: second(0) }] } };
    await page.locator(".waits[role=status]").getByText(/^Waiting: BACKUP: it answers 503 ServerBusy, since 2 Jan 2026, 10:00:00$/).waitFor();
    await page.locator(".badge", { hasText: "running: waiting" }).waitFor();
    assert.deepEqual(await known(), ["Rows read", "Time"]); // unknown figures are not shown
    assert.equal(await page.locator("main progress:visible").count(), 0); // a bar without a share looks like 0%
    assert.equal(await figure("Rows per second"), "–; over the last minute");
    assert.equal(await figure("Instances"), "2; 4 + 1 steps");
    assert.match(await figure("Requests"), /42 throttled/);
    await page.evaluate(() => { window.behind = 3_600_000; });
    const [before, was] = [asked, turn];
    await until("ranges that are read again", () => asked > before && turn > was);
    more = { state: "canceled", finishedAt: second(9), leased: { steps: 1, throttled: 0, instances: [] } };
    await page.locator(".badge", { hasText: "canceled: 1 step still running" }).waitFor();
    assert.equal(await page.locator("main progress").isVisible(), false);
  },

  async "a failed scan shows its reasons first, offers a list of failed rows, and can be retried"() {
    const page = await open("about:blank");
    const rows = Array.from({ length: 60 }, (_, i) => ({ partitionKey: `p${i}`, rowKey: i ? "r" : "\u202e", reason: "InvalidInput: x" }));
    const sent = [];
    let refuse = true;
    await play(page, {
      "scans/x": () => json(scan({ state: "failed", name: "cron", action: { type: "copy", destination: { table: "Bigger" }, map: " .A = 1", mapHash: "h", later: 1 }, range: { prefix: "p" }, select: ["A", "B"], rows: { scanned: 60, written: 0, failed: 12345 }, steps: { done: 1, pending: 2 } })),
      "scans/x/failed": (query) => json({ rows: query.get("cursor") ? rows.slice(40) : rows.slice(0, 40), total: 12345, kept: 60, cursor: query.get("cursor") ? undefined : "c", grouped: 60, groups: [{ code: "InvalidInput", count: 58, first: rows.slice(0, 3) }, { code: "EntityTooLarge", count: 2, first: rows.slice(4, 5) }] }),
      "scans/x/retry": (_, request) => (sent.push(request.postDataJSON()), refuse ? problem(409, "no failed rows are left") : json({ id: "x" })),
      "scans/x/ranges": () => json({ at: second(20), ranges: [{ state: "failed", rows: 60, to: { partitionKey: "q" } }] }), "scans/x/timeline": () => json({ at: second(20), interval: 5, points: [] }),
    });
    await page.goto(`${home}#/scans/x`);
    await page.getByText("12,345 rows could not be written. 60 of them are listed.").waitFor();
    assert.deepEqual((await page.locator(".reasons > li").allTextContents()).map((t) => t.slice(0, 40)), ["InvalidInput 58 rows, of 12,345p0 / \\u{2", "EntityTooLarge 2 rows, of 12,345p4 / r"]);
    assert.ok(await page.evaluate(() => document.querySelector(".failures").compareDocumentPosition(document.querySelector(".figures")) & Node.DOCUMENT_POSITION_FOLLOWING));
    const colours = await until("a range with failures", () => page.evaluate(() => {
      const [range, mark] = [document.querySelector(".strip rect.failed"), document.querySelector(".mark.failed")];
      return range && [getComputedStyle(range).fill, getComputedStyle(mark, "::before").backgroundColor];
    }));
    assert.equal(colours[0], colours[1]); // the colours of the picture and of its legend
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
    const lines = fs.readFileSync(await file.path(), "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));
    assert.deepEqual(lines, rows.map((r) => ({ PartitionKey: r.partitionKey, RowKey: r.rowKey, reason: r.reason })));
    assert.equal(file.suggestedFilename(), "failed-x.jsonl");
    const again = async () => {
      await page.getByRole("button", { name: "Retry the failed rows …" }).click();
      await page.locator("dialog").getByText("Pending steps also continue.").waitFor();
      await page.getByRole("button", { name: "Retry the rows" }).click();
    };
    await again();
    await page.locator(".banner").getByText("no failed rows are left").waitFor();
    refuse = false;
    await again();
    await until("another try", () => sent.length === 2);
    assert.deepEqual(sent[1], { rows: "failed" });
    await page.getByRole("button", { name: "JSON" }).click();
    assert.equal(JSON.parse(await page.locator("dialog pre").textContent()).rows.failed, 12345);
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "Start again …" }).click();
    await page.locator("form.new").waitFor();
    for (const [name, value] of [["source.table", "Big"], ["action.type", "copy"], ["action.destination.table", "Bigger"], ["range.prefix", "p"], ["select", "A, B"], ["name", "cron"], ["action.map", " .A = 1"]]) assert.equal(await page.locator(`[name="${name}"]`).inputValue(), value, name);
    await page.getByText("This form has no field for action.later, so the new scan will not have it.").waitFor(); // a field of a newer version
  },

  async "a missing scan, dates in both zones, and a catalog's total and repeated keys are shown"() {
    const page = await open("about:blank", { timezoneId: "America/New_York" });
    await play(page, { "scans/x": () => json(scan()), ...empty });
    await page.goto(`${home}#/scans/${encodeURIComponent("no\u202e")}`);
    await page.getByRole("heading", { name: "No such scan" }).waitFor();
    assert.match((await page.locator("main").innerText()).replace(/\s+/g, " "), /^Scans No such scan no\\u\{202e\}⧉ .* All scans New scan$/);
    await page.goto(`${home}#/scans/x`);
    await page.getByText("started 2 Jan 2026, 05:00:04 GMT-5 (2026-01-02 10:00:04 UTC)").waitFor();
    assert.equal(await page.locator("main progress").isVisible(), false); // the bar is not full
    await Promise.all(["u1", "u2", "u3"].map((eid) => api("POST", "catalog/records", { eid, lastname: "unique" })));
    await page.goto(`${home}#/catalog/-?eid=u1&eid=u2`);
    await page.getByText("2 records", { exact: true }).waitFor();
    assert.deepEqual(await page.locator('[name="eid"]').evaluateAll((all) => all.map((i) => i.value)), ["u1", "u2"]);
    await page.getByRole("button", { name: "Count" }).click();
    await page.getByText("2 records in all").waitFor();
    await page.getByRole("button", { name: "Look up" }).click(); // the same query again
    await page.getByLabel("or eid").fill("");
    await page.getByRole("button", { name: "Look up" }).click();
    await page.getByText("1 record", { exact: true }).waitFor();
    await page.getByLabel("eid", { exact: true }).fill("");
    await page.getByRole("button", { name: "Look up" }).click();
    await page.getByText(/^\d+ records( on this page)?$/).waitFor();
    await page.getByRole("button", { name: "Count" }).click();
    await page.getByText(/^[\d,]+ records in all$/).waitFor();
    await page.setViewportSize({ width: 1600, height: 900 });
    assert.ok(await page.locator("main .cards").evaluate((e) => e.getBoundingClientRect().width > 1500));
    assert.equal(await page.locator("main nav.tabs").count(), 1);
  },

  async "the first load is small, and a view that failed to load is loaded again"() {
    const page = await open("about:blank");
    let away = true, tried = 0;
    await page.route("**/api/console/chart.js", (route) => (tried++, away ? route.abort() : route.fallback()));
    await page.goto(home);
    await page.getByRole("heading", { name: "Scans" }).waitFor();
    let weight = 0;
    for (const file of ["", ...new Set(page.requests.map((r) => new URL(r.url()).pathname.split("/console/")[1]).filter(Boolean))]) {
      const { headers, size } = await new Promise((done, failed) => http.get(home + file, { headers: { "accept-encoding": "gzip" } }, (r) => {
        let size = 0;
        r.on("data", (part) => (size += part.length)).on("end", () => done({ headers: r.headers, size }));
      }).on("error", failed));
      assert.equal(headers["content-encoding"], "gzip", file);
      weight += size;
    }
    console.log(`  the first load weighs ${weight} bytes`);
    assert.ok(weight > 5000 && weight <= 21_000, `${weight} bytes`);
    await page.goto(`${home}#/scans/none`);
    await page.locator("#banner").getByText("The app does not answer.").waitFor();
    away = false;
    await page.getByRole("heading", { name: "No such scan" }).waitFor();
    assert.ok(tried > 1);
  },
});
