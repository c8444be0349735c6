// A client of the app's HTTP calls. Its types come only from docs/openapi.json: check.mjs generates schema.ts from that file, compiles this one, and
// runs it with the app's address as the only argument.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

// Each index key is a separate parameter, and select is one list.
const api = createClient<paths>({
  baseUrl: process.argv[2],
  querySerializer: { object: { style: "form", explode: true }, array: { style: "form", explode: false } },
});
const at = `client${Date.now()}`;

// A record is inserted, found, changed at its address with a condition, and deleted.
const made = await api.POST("/api/catalog/records", { body: { eid: at, lastname: "A" } });
assert.equal(made.response.status, 201, JSON.stringify(made.error));

// A scan is started, listed, and read until its end.
const scan: components["schemas"]["ScanRequest"] = { source: { table: "People" }, action: { type: "count" } };
const started = await api.POST("/api/scans", { body: scan });
assert.equal(started.response.status, 202, JSON.stringify(started.error));
const id = started.data!.id;
for (;;) {
  const { data } = await api.GET("/api/scans/{id}", { params: { path: { id } } });
  if (data!.state !== "running") {
    assert.equal(data!.state, "succeeded");
    assert.ok(data!.rows.scanned > 0);
    break;
  }
  await new Promise((done) => setTimeout(done, 100));
}
const { data: list } = await api.GET("/api/scans", { params: { query: { top: 100 } } });
assert.ok(list!.scans.some((s) => s.id === id));

const query = { keys: { eid: at } };
const { data: found } = await api.GET("/api/catalog/records", { params: { query } });
assert.deepEqual(found!.records, [{ eid: at, lastname: "A" }]);
const [meta] = found!.meta;
const path = { id: meta!.id };
const changed = await api.PATCH("/api/catalog/records/{id}", {
  params: { path, header: { "If-Match": meta!.etag } }, body: { wage: 1.5 }, headers: { "Content-Type": "application/merge-patch+json" },
});
assert.deepEqual(changed.data, { eid: at, lastname: "A", wage: 1.5 });
const late = await api.DELETE("/api/catalog/records/{id}", { params: { path, header: { "If-Match": meta!.etag } } });
assert.equal(late.response.status, 412);
assert.equal(late.error!.field, "If-Match");
const { data: gone } = await api.DELETE("/api/catalog/records", { params: { query } });
assert.equal(gone!.deleted, 1);

// Events are appended, and read with the newest event first.
const stream = { path: { stream: at } };
await api.POST("/api/log/{stream}", { params: stream, body: [{ n: 1 }, { n: 2 }] });
const { data: events } = await api.GET("/api/log/{stream}", { params: { ...stream, query: { top: 10 } } });
assert.deepEqual(events!.events.map((e) => e.event), [{ n: 2 }, { n: 1 }]);
const { data: health } = await api.GET("/api/health");
assert.notEqual(health!.status, "failed", JSON.stringify(health));
