// Package storage is the project's one way to Azure Table, Queue and Blob Storage. It owns connections, clients, retries,
// the exact form of entities and keys on the wire, and what a service's error means.
//
// An [Account] holds one set of clients and one connection pool. All rows are read by [Table.Query], a page, and written
// by [Table.Batch], an entity group transaction: a single row is a query for one row or a batch of one. A [Queue] has the
// messages of one queue, a [Container] the blobs of one container; a blob is made once and never replaced.
// [RequestOptions] say how their requests are made.
//
// Queues, and the making, listing and removing of tables, are left to the clients of azure-sdk-for-go. Requests for rows
// (rows.go) and for blobs (blob.go) are this package's own, and pass its own policies alone (newWay): azcore's would take
// as much processor time as all else that happens to a row here.
// aztables decodes entities into Go maps and so loses the difference between Double 3.0 and Int32 3, refuses empty
// partition keys, leaves quotes in a batch's keys unescaped, hides which operation of a batch failed, and parses a hundred
// answers where one status is wanted. azblob links Apache Arrow, and has none of the patience below. All requests are
// signed in one place (sign.go).
//
// # Rows as text
//
// A query returns rows as text, each a [Row]: copies, exports and comparisons of equal rows decode none. [Row.Entity] decodes one: an
// [Entity] has its properties, and keeps every value as the JSON text that the service sent. Whoever works with our own rows (ledger, catalog,
// streams) decodes each once. row.go passes over a page once, and keeps
// each row of a page as text. It knows JSON in the form in which services write rows, and leaves any other page to the
// decoder. A single row goes as a plain request: a transaction of one row takes three times the processor time. Rows with
// an empty key, or a URL beyond 2 KB, stay in transactions.
//
// # Answers
//
// One place (answer.go) decides, below the retries, whether an answer is the service's: a good one of its operation,
// whole, or a refusal with an error code. A proxy's page or half an answer is neither. It is repeated like a broken
// connection, and a write may have been carried out. If only 3xx and 4xx come for 30 s, the request ends. A single row
// that a proxy refuses is sent as a transaction at once, because its key is in the URL otherwise. Each try has an id, so
// that an answer that came twice is not taken for the next request's. An endpoint whose good answers say which request
// they answer is held to that. What was written has an ETag. Nothing is compressed, but for blobs that are stored so. The
// keys of a page must ascend, within the query's range and behind those of the pages before. What nobody can see is a page
// from which rows were left out, and a deletion that is confirmed with the request's id and was not carried out.
//
// # Retries
//
// One policy (retry.go) retries 503, 500, time-outs and broken connections until the caller's deadline or until the
// account's patience ends, so throttling slows callers down and does not fail them. Pauses grow up to 5 seconds, and honour
// a Retry-After. All requests to one host share what they know of it: after an outage, the first good answer wakes all that
// could not reach it. While the host answers others, a request ends after 40 failed tries, or after 400 if the host is
// busy. A user may have mistyped a command's connection: if its host refuses connections before its first good answer, the
// error is reported at once. Every error names the account's setting, or else its host, and how the last try failed.
package storage
