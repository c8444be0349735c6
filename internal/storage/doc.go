// Package storage is the project's one way to Azure Table and Queue Storage. It
// owns connections, clients, retries, the exact form of entities and keys on the
// wire, and what a service's error means.
//
// An [Account] holds one set of clients and one connection pool. All rows are read
// by [Table.Query], a page, and written by [Table.Batch], an entity group transaction:
// a single row is a query for one row or a batch of one. A [Queue] has the messages of
// one queue. [RequestOptions] say how the requests of either are made.
//
// Queues, and the making, listing and removing of tables, are left to the clients of
// azure-sdk-for-go. Requests for rows are this package's own (rows.go), and take the
// SDK's way to the service, azcore's pipeline. aztables decodes entities into
// Go maps and so loses the difference between Double 3.0 and Int32 3, refuses empty
// partition keys, leaves quotes in a batch's keys unescaped, hides which operation of a
// batch failed, and parses a hundred answers where one status is wanted. Here an [Entity]
// keeps every value as the JSON text the service sent, or is that text as a whole (raw.go).
//
// # Rows as text
//
// A copy does not decode rows: raw.go keeps each row of a page as text. It knows JSON in the
// form in which services write rows, and leaves any other page to the decoder. A single row goes
// as a plain request: a transaction of one row takes three times the processor time. Rows with
// an empty key, or a URL beyond 2 KB, stay in transactions.
//
// # Retries
//
// One policy (retry.go) retries 503, 500, time-outs and broken connections until the caller's
// deadline, so throttling slows callers down and does not fail them. Pauses grow up to a minute,
// or up to 4 seconds while the host answers other requests, and honour a Retry-After. A request
// ends after 40 failed tries, or after 400 while the host is busy and answers others. A
// Retry-After of more than a minute ends it at once.
//
// A command has a user who waits, so its account has patience. If a host refuses connections
// before its first good answer, the connection is wrong, and the error is reported at once.
// After that answer, requests wait until patience ends, with pauses of at most 5 seconds between
// dials. Tries count only while the host answers others, and no Retry-After ends a request. All
// requests to one host share what they know of it, and the first good answer wakes them all.
package storage
