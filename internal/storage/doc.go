// Package storage is the project's only access to Azure Table, Queue and Blob Storage. It contains connections, clients and retries. It defines the
// exact form in which entities and keys are sent, and the meaning of a service's errors.
//
// An [Account] has one set of clients and one connection pool. [Table.Query] reads rows, page by page. [Batch] writes
// rows in entity group transactions. A [Queue] gives access to one queue's messages. A [Container] gives access to one
// container's blobs. Blobs are never replaced. [RequestOptions] control the requests.
//
// The clients of azure-sdk-for-go make the requests for queues, and create, list and remove tables. This package makes
// its own requests for rows (rows.go) and for blobs (blob.go). These requests do not use azcore's policies, which would
// take as much processor time as all other work on a row (newPipeline). aztables decodes entities into Go maps, and so
// loses the difference between Double 3.0 and Int32 3. aztables also refuses empty partition keys, and leaves quotes in
// a batch's keys unescaped. aztables does not show which operation of a batch failed. For a batch of a hundred
// operations, aztables parses a hundred answers, although one status is enough. azblob adds Apache Arrow to the program.
// The retries of azblob do not follow the rules below. sign.go signs all requests.
//
// # Rows as text
//
// A query returns each row as text, a [Row]. So copies, exports and comparisons of equal rows need not decode rows.
// [Row.Entity] decodes a row into an [Entity], whose values are the JSON text that the service sent. If a page has the
// form in which services write rows, row.go reads the page in one pass. The decoder in entity.go reads any other page.
// A single row is written by a plain request, because a transaction of one row takes three times the processor time.
// Rows with an empty key, or with a URL of more than 2 KB, are sent in transactions.
//
// # Answers
//
// answer.go checks whether the answer to each try comes from the service. The service sends either a good and complete
// answer to the operation, or a refusal with an error code. After any other answer, such as a proxy's page or half an
// answer, the request is repeated as after a broken connection, although the service may already have carried it out.
// If every try for 30 s gets such an answer with status 3xx or 4xx, the request ends. If a proxy refuses a plain
// request, perhaps because of the key in its URL, the row is immediately sent in a transaction. Each try has an id, so
// an answer that arrives twice is not mistaken for the answer to the next request. Some endpoints return the request's
// id. After an endpoint's first good answer with an id, each good answer of the endpoint must contain the id of its
// request. The answer to a row's write must have an ETag. The only compressed answers are blobs that are stored
// compressed. The keys of a page must ascend, lie in the query's range, and follow the keys of earlier pages. Two kinds
// of damage cannot be noticed: a page without some of its rows, and a deletion that is confirmed with the request's id
// but was not carried out.
//
// # Retries
//
// One policy (retry.go) retries requests after 503, 500, time-outs and broken connections. Retries end at the caller's
// deadline, or when the host has given no good answer for [Options.Patience]. Pauses grow up to 5 seconds, unless the answer has a Retry-After.
// After an outage, the first good answer wakes all requests that wait for the host. While the host answers other
// requests, a request ends after 40 failed tries, or after 400 if the host is busy. If [Options.Unproven] is set, a
// request to an unreachable host that has never given a good answer fails immediately, because the connection may
// contain a typing error. Every error contains the reason of the last failure, and the name of the connection's
// setting. If the connection does not come from a setting, the error names the host.
package storage
