// Package storage is the project's one way to Azure Table and Queue Storage. It
// owns connections, clients, retries, the exact form of entities and keys on the
// wire, and what a service's error means.
//
// An [Account] holds one set of clients and one connection pool. A [Table]
// makes two kinds of requests: [Table.Query], one page, and [Table.Batch], one
// entity group transaction; a single row is a query for one row or a batch of
// one. A [Queue] puts, gets and deletes messages.
//
// Queues, and the making and removing of tables, are left to the clients of
// azure-sdk-for-go. Requests for rows are this package's own (rows.go), and take the
// SDK's way to the service, azcore's pipeline. aztables decodes entities into
// Go maps and so loses the difference between Double 3.0 and Int32 3, refuses empty
// partition keys, leaves quotes in a batch's keys unescaped, hides which operation of a
// batch failed, and parses a hundred answers where one status is wanted. Here an [Entity]
// keeps every value as the JSON text the service sent, or is that text as a whole (raw.go).
package storage
