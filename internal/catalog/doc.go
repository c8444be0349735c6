// Package catalog keeps records that are found by any of several identifiers, in
// a service that has one index only.
//
// A record is a JSON object (package record). For each index key of the catalog's
// schema (package index) the index table has a row with the whole record, at a
// PartitionKey made of the key's name and value; so whoever holds any of the
// identifiers gets the record with one request. All rows of a record have one RowKey,
// made of the sort value and a hash of the index values. This is the published
// form of the pattern, which others can read; our rows have a few columns more:
//
//	tsw_identity  hash of the index values and the sort value
//	tsw_version   which write of that identity the row holds (package wal)
//	tsw_gone      true in a row that only says that the record is gone
//	tsw_first     in such a row, hash of the first index key's value
//	tsw_line      in a row of a record that has moved, its first identity and that one's last version
//
// Beside it stands the log's table. It has a partition for each of 16 shards, by the
// value of the first index key, which a record keeps for life:
//
//	RowKey               row
//	h|FIRST|IDENTITY     head of an identity: Entry, Content (hash), its newest Write, and Sure
//	e|ENTRY              an entry whose index rows may not all be written: Kind, Writes, and the record
//	g|ENTRY              an applied entry that left rows which say "gone": Writes
//	c|ENTRY              a change: an entry that was applied
//	i|HASH               a used Idempotency-Key: Entry, Content
//	t|TICKS|ENTRY        rows to clear away after TICKS
//
// and the row "schema", "" with the catalog's Schema and State. ENTRY starts with the
// entry's time in inverted ticks, so that changes are newest first.
//
// # The life of a write
//
//  1. One transaction in the record's shard commits it: the head is inserted, or
//     changed on condition of its ETag, and the entry is inserted.
//  2. The index rows are written, all partitions at once; in each, the rows of
//     the write in one transaction.
//  3. The caller is answered.
//  4. One more transaction moves the entry to the changes.
//
// An insertion of which one row can't be written, since another record has its key,
// is taken back by a transaction that deletes the entry and commits the opposite.
//
// A crash before 1 leaves nothing. A crash after 1 leaves the entry; [Catalog.Maintain]
// and [Catalog.Recover] do 2 and 4 again, and so does a retry of the write that finds
// its predecessor unfinished. Every write to an index row is conditional on the row's
// version, so it doesn't matter how often, in which order and by how many processes
// entries are applied.
//
// # The end of an identity
//
// Rows that say "gone" stop writes that are older and still under way: those of a frozen
// process, and requests that the service carries out after their sender has repeated them.
// They go within minutes if there can't be any, which no clock can tell, but the log can:
// each entry's writer deletes the entry when its rows are written, and says in the head
// if a request had to be repeated; anyone else says so in the head before carrying out
// an entry. So if no entry of the identity is left and its head is Sure, nothing is on
// its way. Otherwise the rows stay for a day. The head stays for a day in any case, and so
// the next life of the identity has greater versions than the last, and later changes.
package catalog
