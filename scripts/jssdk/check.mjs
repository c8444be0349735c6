// Runs Microsoft's JavaScript SDKs, the current ones and the older azure-storage, against the storage account whose connection string is the only
// argument. Each case asserts what a user of the SDK sees. After all cases have run, the exit code is 1 if one has failed.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { gunzipSync } from "node:zlib";
import { TableClient, TableServiceClient, TableTransaction, odata } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import azure from "azure-storage";

const connection = process.argv[2];
const unique = Date.now().toString(36);
const all = async (iterable) => {
  const items = [];
  for await (const item of iterable) items.push(item);
  return items;
};
// status returns the HTTP status and the code that a failing call reports.
const failure = async (promise) => {
  try {
    await promise;
  } catch (e) {
    return [e.statusCode, e.details?.odataError?.code ?? e.details?.errorCode ?? e.code];
  }
  return "no error";
};

const texts = ["", "plain", `<a href="it's">&amp;</a>`, "a\ttab", "ü日本😀", "&#39; &lt; ]]>", "\"quoted\" 'twice'"];
const values = {
  text: `a "b" <&> ü日本😀`,
  int: 42,
  negative: -7,
  whole: { value: "3", type: "Double" },
  half: 2.5,
  yes: true,
  no: false,
  when: new Date("2026-02-03T04:05:06.789Z"),
  long: 9007199254740993n,
  id: { value: "0f8fad5b-d9cb-469f-a165-70867728950e", type: "Guid" },
  bytes: Buffer.from([0, 1, 254, 255]),
};

// The current SDK for tables.
const insecure = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
const tables = TableServiceClient.fromConnectionString(connection, insecure);
const tableClient = (name) => TableClient.fromConnectionString(connection, name, insecure);
const newTable = async (name) => {
  const client = tableClient(name + unique);
  await client.createTable();
  return client;
};

const cases = {
  async "data-tables: tables"() {
    const name = "tables" + unique;
    await tables.createTable(name);
    await tables.createTable(name); // the SDK ignores that the table exists
    const filter = odata`TableName eq ${name}`;
    assert.deepEqual((await all(tables.listTables({ queryOptions: { filter } }))).map((t) => t.name), [name]);
    await tables.deleteTable(name);
    await tables.deleteTable(name); // the SDK ignores that the table does not exist
    assert.deepEqual(await all(tables.listTables({ queryOptions: { filter } })), []);
    assert.deepEqual(await failure(tableClient(name).getEntity("p", "r")), [404, "TableNotFound"]);
    assert.deepEqual(await failure(tables.createTable("a-b")), [400, "InvalidResourceName"]);
  },

  async "data-tables: every type comes back"() {
    const client = await newTable("types");
    const created = await client.createEntity({ partitionKey: "p", rowKey: "r", ...values });
    assert.match(created.etag, /^W\/"datetime'/);
    const { partitionKey, rowKey, etag, timestamp, ...got } = await client.getEntity("p", "r");
    delete got["odata.metadata"];
    assert.equal(etag, created.etag);
    assert.ok(Date.parse(timestamp) > 0);
    assert.deepEqual(got, { ...values, whole: 3, id: { ...values.id } });
    const typed = await client.getEntity("p", "r", { disableTypeConversion: true });
    assert.deepEqual(typed.half, { value: "2.5", type: "Double" });
    assert.deepEqual(typed.long, { value: "9007199254740993", type: "Int64" });
  },

  async "data-tables: writes and conditions"() {
    const client = await newTable("writes");
    const key = { partitionKey: "it's", rowKey: "ü %/".replace("/", "+&=") };
    const members = async () => {
      const { partitionKey, rowKey, etag, timestamp, ...rest } = await client.getEntity(key.partitionKey, key.rowKey);
      delete rest["odata.metadata"];
      return rest;
    };
    await client.createEntity({ ...key, a: 1 });
    assert.deepEqual(await failure(client.createEntity({ ...key })), [409, "EntityAlreadyExists"]);
    const first = await client.updateEntity({ ...key, b: 2 }, "Merge");
    assert.deepEqual(await members(), { a: 1, b: 2 });
    await client.updateEntity({ ...key, c: 3 }, "Replace", { etag: first.etag });
    assert.deepEqual(await members(), { c: 3 });
    assert.deepEqual(await failure(client.updateEntity({ ...key, d: 4 }, "Merge", { etag: first.etag })), [412, "UpdateConditionNotSatisfied"]);
    await client.upsertEntity({ ...key, e: 5 }, "Merge");
    await client.upsertEntity({ ...key, f: 6 }, "Replace");
    assert.deepEqual(await members(), { f: 6 });
    await client.deleteEntity(key.partitionKey, key.rowKey);
    assert.deepEqual(await failure(client.getEntity(key.partitionKey, key.rowKey)), [404, "ResourceNotFound"]);
    assert.deepEqual(await failure(client.updateEntity({ ...key, a: 1 })), [404, "ResourceNotFound"]);
  },

  async "data-tables: transactions"() {
    const client = await newTable("transactions");
    await client.createEntity({ partitionKey: "p", rowKey: "old", a: 1 });
    await client.createEntity({ partitionKey: "p", rowKey: "gone", a: 1 });
    const transaction = new TableTransaction();
    transaction.createEntity({ partitionKey: "p", rowKey: "1", ...values });
    transaction.createEntity({ partitionKey: "p", rowKey: "2", text: "it's" });
    transaction.updateEntity({ partitionKey: "p", rowKey: "old", b: 2 }, "Merge");
    transaction.upsertEntity({ partitionKey: "p", rowKey: "it's", c: 3 }, "Replace");
    transaction.deleteEntity("p", "gone");
    const result = await client.submitTransaction(transaction.actions);
    assert.equal(result.status, 202);
    assert.deepEqual(result.subResponses.map((r) => [r.status, r.rowKey]), [[204, "1"], [204, "2"], [204, undefined], [204, undefined], [204, undefined]]);
    assert.match(result.getResponseForEntity("2").etag, /^W\/"datetime'/);
    assert.equal((await client.getEntity("p", "1")).etag, result.subResponses[0].etag.trim());
    assert.deepEqual((await all(client.listEntities())).map((e) => e.rowKey), ["1", "2", "it's", "old"]);
    const clash = [["create", { partitionKey: "p", rowKey: "3" }], ["create", { partitionKey: "p", rowKey: "1" }]];
    assert.deepEqual(await failure(client.submitTransaction(clash)), [409, "EntityAlreadyExists"]);
    assert.equal((await all(client.listEntities())).length, 4);
  },

  async "data-tables: queries"() {
    const client = await newTable("queries");
    for (const p of ["a", "b"]) {
      await client.submitTransaction(Array.from({ length: 100 }, (_, i) => ["create", { partitionKey: p, rowKey: String(i).padStart(3, "0"), n: i, d: i / 2, s: "it's " + i }]));
    }
    const count = async (filter) => (await all(client.listEntities({ queryOptions: { filter } }))).length;
    assert.equal(await count(), 200);
    assert.equal(await count(odata`PartitionKey eq 'a' and n ge ${98}`), 2);
    assert.equal(await count(odata`s eq ${"it's 5"}`), 2);
    assert.equal(await count(odata`d eq ${0.5} or d eq ${1}`), 4);
    assert.equal(await count("true"), 200);
    assert.equal(await count("false"), 0); // the filter of the .NET health check
    const pages = [];
    for await (const page of client.listEntities({ queryOptions: { select: ["rowKey", "n"] } }).byPage({ maxPageSize: 90 })) pages.push(page);
    assert.deepEqual(pages.map((p) => p.length), [90, 90, 20]);
    assert.deepEqual({ rowKey: pages[0][1].rowKey, n: pages[0][1].n, s: pages[0][1].s }, { rowKey: "001", n: 1, s: undefined });
    assert.deepEqual(await failure(count("PartitionKey eq")), [400, "InvalidInput"]);
  },

  // The current SDK for blobs.
  async "storage-blob: blobs are put, read, described and walked"() {
    const service = BlobServiceClient.fromConnectionString(connection, { retryOptions: { maxTries: 1 } });
    const container = service.getContainerClient("blobs-" + unique);
    assert.equal(await container.exists(), false);
    assert.equal((await container.createIfNotExists({ metadata: { of: "tests" } })).succeeded, true);
    assert.equal((await container.createIfNotExists()).succeeded, false);
    assert.deepEqual((await container.getProperties()).metadata, { of: "tests" });
    const blob = container.getBlockBlobClient("a/b c/ü.txt");
    assert.equal(await blob.exists(), false);
    assert.deepEqual(await failure(blob.getProperties()), [404, "BlobNotFound"]);
    const content = Buffer.from("0123456789".repeat(1000));
    const headers = { blobContentType: "text/plain", blobContentEncoding: "identity", blobCacheControl: "no-store" };
    const { etag } = await blob.uploadData(content, { blobHTTPHeaders: headers, metadata: { color: "red" } });
    const { contentType, contentEncoding, cacheControl, contentLength, contentMD5, metadata, leaseState } = await blob.getProperties();
    assert.deepEqual({ contentType, contentEncoding, cacheControl, contentLength, metadata, leaseState },
      { contentType: "text/plain", contentEncoding: "identity", cacheControl: "no-store", contentLength: 10000, metadata: { color: "red" }, leaseState: "available" });
    assert.equal(contentMD5.length, 16);
    assert.deepEqual(await blob.downloadToBuffer(0, undefined, { blockSize: 3000, concurrency: 2 }), content);
    assert.equal((await blob.downloadToBuffer(5, 3)).toString(), "567");
    let read = "";
    for await (const chunk of (await blob.download(0, undefined, { conditions: { ifMatch: etag } })).readableStreamBody) read += chunk;
    assert.equal(read, content.toString());
    assert.deepEqual(await failure(blob.download(0, undefined, { conditions: { ifMatch: '"0x1"' } })), [412, "ConditionNotMet"]);
    assert.equal((await failure(blob.download(0, undefined, { conditions: { ifNoneMatch: etag } })))[0], 304);
    assert.equal((await failure(blob.uploadData(content, { conditions: { ifNoneMatch: "*" } })))[0], 409);
    await container.getBlockBlobClient("a/2").uploadData(Buffer.from("x"));
    const top = await all(container.listBlobsByHierarchy("/"));
    assert.deepEqual(top.map((i) => [i.kind, i.name]), [["prefix", "a/"]]);
    const flat = await all(container.listBlobsFlat({ includeMetadata: true, prefix: "a/b" }));
    assert.deepEqual(flat.map((i) => [i.name, i.metadata.color, i.properties.contentLength, i.properties.contentType, i.properties.etag]), [["a/b c/ü.txt", "red", 10000, "text/plain", etag.replaceAll('"', "")]]);
    assert.ok((await all(service.listContainers({ prefix: "blobs-", includeMetadata: true }))).some((c) => c.name === container.containerName && c.metadata.of === "tests"));
    await blob.setMetadata({ other: "1" });
    assert.deepEqual((await blob.getProperties()).metadata, { other: "1" });
    for (const left of [() => blob.stageBlock("AAAA", "x", 1), () => blob.setHTTPHeaders({}), () => blob.createSnapshot(), () => blob.setTags({ a: "b" }), () => blob.setAccessTier("Cool"), () => container.getAppendBlobClient("log").create()]) {
      assert.deepEqual(await failure(left()), [501, "NotImplemented"]);
    }
    assert.equal((await blob.deleteIfExists()).succeeded, true);
    assert.equal((await blob.deleteIfExists()).succeeded, false);
    assert.equal((await container.deleteIfExists()).succeeded, true);
  },

  async "storage-blob: an export is walked and read"() {
    const container = BlobServiceClient.fromConnectionString(connection, { retryOptions: { maxTries: 1 } }).getContainerClient("exports");
    assert.deepEqual((await all(container.listBlobsByHierarchy("/"))).map((i) => [i.kind, i.name]), [["prefix", "of/"]]);
    const pages = [];
    for await (const page of container.listBlobsFlat({ prefix: "of/exported/" }).byPage({ maxPageSize: 1 })) pages.push(...page.segment.blobItems);
    const data = pages.filter((b) => b.name.includes(".jsonl.gz"));
    assert.ok(data.length > 0 && pages.length > data.length, pages.map((b) => b.name).join());
    let rows = 0;
    for (const { name, properties } of data) {
      const content = await container.getBlobClient(name).downloadToBuffer(0, undefined, { blockSize: 1000 });
      assert.deepEqual([content.length, createHash("md5").update(content).digest()], [properties.contentLength, Buffer.from(properties.contentMD5)]);
      rows += gunzipSync(content).toString().trimEnd().split("\n").map((line) => JSON.parse(line)).filter((r) => r.RowKey === "r" + r.n).length;
    }
    assert.equal(rows, 3000);
  },

  async "storage-blob: leases"() {
    const container = BlobServiceClient.fromConnectionString(connection, { retryOptions: { maxTries: 1 } }).getContainerClient("leases-" + unique);
    await container.create();
    const blob = container.getBlockBlobClient("lock");
    await blob.upload("x", 1);
    const lease = blob.getBlobLeaseClient();
    const { leaseId } = await lease.acquireLease(15);
    assert.deepEqual(await failure(blob.getBlobLeaseClient().acquireLease(15)), [409, "LeaseAlreadyPresent"]);
    assert.deepEqual(await failure(blob.upload("y", 1)), [412, "LeaseIdMissing"]);
    await blob.upload("y", 1, { conditions: { leaseId } });
    assert.equal((await blob.getProperties()).leaseState, "leased");
    await lease.renewLease();
    await lease.releaseLease();
    await lease.acquireLease(-1);
    assert.equal((await lease.breakLease(0)).leaseTime, 0);
    assert.equal((await blob.getProperties()).leaseState, "broken");
  },

  // The current SDK for queues.
  async "storage-queue: queues"() {
    const service = QueueServiceClient.fromConnectionString(connection, { retryOptions: { maxTries: 1 } });
    const queue = service.getQueueClient("queues-" + unique);
    assert.equal(await queue.exists(), false);
    assert.deepEqual(await failure(queue.getProperties()), [404, "QueueNotFound"]);
    assert.equal((await queue.createIfNotExists()).succeeded, true);
    assert.equal((await queue.createIfNotExists()).succeeded, false);
    assert.equal(await queue.exists(), true);
    await queue.setMetadata({ color: "red" });
    assert.deepEqual((await queue.getProperties()).metadata, { color: "red" });
    const listed = await all(service.listQueues({ prefix: "queues-" + unique, includeMetadata: true }));
    assert.deepEqual(listed.map((q) => [q.name, q.metadata]), [[queue.name, { color: "red" }]]);
    await service.createQueue("queues-" + unique + "-2");
    const pages = [];
    for await (const page of service.listQueues({ prefix: "queues-" + unique }).byPage({ maxPageSize: 1 })) pages.push(page.queueItems.map((q) => q.name));
    assert.deepEqual(pages, [["queues-" + unique], ["queues-" + unique + "-2"]]);
    assert.equal((await queue.deleteIfExists()).succeeded, true);
    assert.equal((await queue.deleteIfExists()).succeeded, false);
    assert.deepEqual(await failure(service.createQueue("Bad_Name")), [400, "InvalidResourceName"]);
  },

  async "storage-queue: messages"() {
    const queue = QueueServiceClient.fromConnectionString(connection).getQueueClient("messages-" + unique);
    await queue.create();
    for (const text of texts) {
      const sent = await queue.sendMessage(text, { messageTimeToLive: -1 });
      assert.ok(sent.messageId && sent.popReceipt);
      const peeked = await queue.peekMessages();
      assert.equal(peeked.peekedMessageItems[0].messageText, text);
      const [got] = (await queue.receiveMessages({ visibilityTimeout: 30 })).receivedMessageItems;
      assert.equal(got.messageText, text);
      assert.equal(got.dequeueCount, 1);
      assert.ok(got.nextVisibleOn > got.insertedOn);
      const updated = await queue.updateMessage(got.messageId, got.popReceipt, "new " + text, 0);
      const [again] = (await queue.receiveMessages()).receivedMessageItems;
      assert.equal(again.messageText, "new " + text);
      assert.deepEqual(await failure(queue.deleteMessage(got.messageId, updated.popReceipt)), [400, "PopReceiptMismatch"]);
      await queue.deleteMessage(again.messageId, again.popReceipt);
    }
    for (let i = 0; i < 5; i++) await queue.sendMessage("m" + i, { messageTimeToLive: 2 ** 33 });
    assert.equal((await queue.getProperties()).approximateMessagesCount, 5);
    const many = await queue.receiveMessages({ numberOfMessages: 32 });
    assert.deepEqual(many.receivedMessageItems.map((m) => m.messageText), ["m0", "m1", "m2", "m3", "m4"]);
    await queue.clearMessages();
    assert.equal((await queue.getProperties()).approximateMessagesCount, 0);
    assert.deepEqual(await failure(queue.sendMessage("x".repeat(65537))), [413, "RequestBodyTooLarge"]);
    assert.deepEqual(await failure(queue.sendMessage("x", { messageTimeToLive: 5, visibilityTimeout: 5 })), [400, "InvalidQueryParameterValue"]);
  },
};

// The older SDK, with callbacks.
const promised = (service) => new Proxy(service, { get: (s, name) => promisify(s[name]).bind(s) });
const entity = azure.TableUtilities.entityGenerator;
const plain = (e) => Object.fromEntries(Object.entries(e).filter(([k]) => k !== ".metadata" && k !== "Timestamp").map(([k, v]) => [k, v._]));

Object.assign(cases, {
  async "azure-storage: tables"() {
    const service = promised(azure.createTableService(connection));
    const name = "old" + unique;
    assert.equal((await service.doesTableExist(name)).exists, false);
    assert.equal((await service.createTableIfNotExists(name)).created, true);
    assert.equal((await service.createTableIfNotExists(name)).created, false);
    assert.equal((await service.doesTableExist(name)).exists, true);
    assert.deepEqual(await failure(service.createTable(name)), [409, "TableAlreadyExists"]);
    assert.deepEqual((await service.listTablesSegmentedWithPrefix(name, null)).entries, [name]);
    assert.equal(await service.deleteTableIfExists(name), true);
    assert.equal(await service.deleteTableIfExists(name), false);
    assert.equal((await service.doesTableExist(name)).exists, false);
  },

  async "azure-storage: entities"() {
    const service = promised(azure.createTableService(connection));
    const name = "oldentities" + unique;
    await service.createTable(name);
    const key = { PartitionKey: entity.String("it's"), RowKey: entity.String("ü%") };
    await service.insertEntity(name, {
      ...key, text: entity.String(values.text), int: entity.Int32(42), half: entity.Double(2.5), whole: entity.Double(3), yes: entity.Boolean(true),
      when: entity.DateTime(values.when), long: entity.Int64("9007199254740993"), id: entity.Guid(values.id.value), bytes: entity.Binary(values.bytes),
      typedInt: entity.Int32("1"), typedDouble: entity.Double("3.5"), // as text, like the values of a form
    });
    const got = await service.retrieveEntity(name, "it's", "ü%");
    assert.deepEqual(plain(got), {
      PartitionKey: "it's", RowKey: "ü%", text: values.text, int: 42, half: 2.5, whole: 3, yes: true,
      when: values.when, long: "9007199254740993", id: values.id.value, bytes: values.bytes, typedInt: 1, typedDouble: 3.5,
    });
    assert.equal(got.long.$, "Edm.Int64");
    await service.mergeEntity(name, { ...key, int: entity.Int32(43) });
    await service.insertOrMergeEntity(name, { ...key, half: entity.Double(0.5) });
    const merged = plain(await service.retrieveEntity(name, "it's", "ü%"));
    assert.deepEqual([merged.int, merged.half, merged.yes], [43, 0.5, true]);
    await service.replaceEntity(name, { ...key, a: entity.Int32(1) });
    await service.insertOrReplaceEntity(name, { ...key, b: entity.Int32(2) });
    assert.deepEqual(plain(await service.retrieveEntity(name, "it's", "ü%")), { PartitionKey: "it's", RowKey: "ü%", b: 2 });
    assert.deepEqual(await failure(service.mergeEntity(name, { ...key, ".metadata": { etag: "W/\"datetime'2020-01-01T00%3A00%3A00Z'\"" } })), [412, "UpdateConditionNotSatisfied"]);
    const echoed = await service.insertEntity(name, { PartitionKey: "p", RowKey: "echo", n: 1 }, { echoContent: true });
    assert.equal(echoed.n._, 1);
    await service.deleteEntity(name, key);
    assert.deepEqual(await failure(service.retrieveEntity(name, "it's", "ü%")), [404, "ResourceNotFound"]);
  },

  async "azure-storage: batches and queries"() {
    const service = promised(azure.createTableService(connection));
    const name = "oldbatches" + unique;
    await service.createTable(name);
    const row = (i) => ({ PartitionKey: entity.String("p"), RowKey: entity.String("r" + i), n: entity.Int32(i), s: entity.String("it's") });
    const batch = new azure.TableBatch();
    for (let i = 0; i < 10; i++) batch.insertEntity(row(i), { echoContent: i === 0 });
    const inserted = await service.executeBatch(name, batch);
    assert.deepEqual(inserted.map((r) => r.response.isSuccessful), Array(10).fill(true));
    assert.match(inserted[9].entity[".metadata"].etag, /^W\/"datetime'/);
    const mixed = new azure.TableBatch();
    mixed.mergeEntity({ ...row(0), more: entity.Boolean(true) });
    mixed.insertOrMergeEntity(row(10));
    mixed.insertOrReplaceEntity(row(11));
    mixed.deleteEntity(row(1));
    assert.equal((await service.executeBatch(name, mixed)).length, 4);
    const one = new azure.TableBatch();
    one.retrieveEntity("p", "r0");
    const [retrieved] = await service.executeBatch(name, one);
    assert.deepEqual(plain(retrieved.entity), { PartitionKey: "p", RowKey: "r0", n: 0, s: "it's", more: true });
    const missing = new azure.TableBatch();
    missing.retrieveEntity("p", "none");
    assert.deepEqual(await failure(service.executeBatch(name, missing)), [404, "ResourceNotFound"]);
    const clash = new azure.TableBatch();
    clash.insertEntity(row(20));
    clash.insertEntity(row(2));
    assert.deepEqual(await failure(service.executeBatch(name, clash)), [409, "EntityAlreadyExists"]);
    const query = new azure.TableQuery().select(["RowKey", "n"]).where("PartitionKey eq ? and n ge ? and s eq ?", "p", 9, "it's").top(2);
    const first = await service.queryEntities(name, query, null);
    assert.deepEqual(first.entries.map((e) => e.RowKey._), ["r10", "r11"]);
    const rest = await service.queryEntities(name, query, first.continuationToken);
    assert.deepEqual(rest.entries.map((e) => e.RowKey._), ["r9"]);
    assert.equal(rest.continuationToken, null);
    assert.deepEqual(await failure(service.queryEntities("missing" + unique, null, null)), [404, "TableNotFound"]);
  },

  async "azure-storage: queues"() {
    const service = promised(azure.createQueueService(connection));
    service.messageEncoder = new azure.QueueMessageEncoder.TextXmlQueueMessageEncoder();
    const name = "old-" + unique;
    assert.equal((await service.doesQueueExist(name)).exists, false);
    assert.equal((await service.createQueueIfNotExists(name, { metadata: { color: "red" } })).created, true);
    assert.equal((await service.createQueueIfNotExists(name)).created, false);
    assert.equal((await service.doesQueueExist(name)).exists, true);
    const listed = await service.listQueuesSegmentedWithPrefix(name, null, { include: "metadata" });
    assert.deepEqual(listed.entries.map((q) => [q.name, q.metadata]), [[name, { color: "red" }]]);
    const current = QueueServiceClient.fromConnectionString(connection).getQueueClient(name);
    // This SDK escapes a text more often than XML requires. The current SDK drops line feeds when it sends a text, so it receives this SDK's text.
    for (const text of ["plain", `<a href="it's">`, "two\nlines\tand a tab", "ü日本😀", "\"quoted\" & 'twice'"]) {
      await service.createMessage(name, text);
      if (!/[<&"']/.test(text)) assert.equal((await current.peekMessages()).peekedMessageItems[0].messageText, text);
      assert.equal((await service.peekMessages(name))[0].messageText, text);
      const [got] = await service.getMessages(name, { numOfMessages: 32, visibilityTimeout: 30 });
      assert.equal(got.messageText, text);
      const updated = await service.updateMessage(name, got.messageId, got.popReceipt, 0, { messageText: "new " + text });
      const again = await service.getMessage(name);
      assert.equal(again.messageText, "new " + text);
      assert.notEqual(again.popReceipt, updated.popReceipt);
      await service.deleteMessage(name, again.messageId, again.popReceipt);
    }
    await service.createMessage(name, "x");
    assert.equal((await service.getQueueMetadata(name)).approximateMessageCount, 1);
    await service.clearMessages(name);
    await service.setQueueMetadata(name, { size: "9" });
    assert.deepEqual((await service.getQueueMetadata(name)).metadata, { size: "9" });
    assert.equal(await service.deleteQueueIfExists(name), true);
    assert.equal(await service.deleteQueueIfExists(name), false);
  },
});

let failed = 0;
for (const [name, run] of Object.entries(cases)) {
  try {
    await run();
    console.log("ok   " + name);
  } catch (e) {
    failed++;
    console.error(`FAIL ${name}\n${e.stack}`);
  }
}
process.exit(failed ? 1 : 0);
