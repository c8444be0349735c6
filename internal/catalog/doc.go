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
//  1. decide: package wal decides on the heads as they were read what the write does.
//  2. commit: one transaction in the record's shard inserts the entry and updates the
//     heads, on condition of their ETags.
//  3. apply: the index rows are written, all partitions at once; in each, the rows of
//     the write in one transaction. Then the caller is answered.
//  4. finish: one more transaction moves the entry to the changes.
//
// A row of an insertion may have the key of another record's row. Then the insertion is
// withdrawn: one transaction deletes its entry and commits a removal.
//
// A crash before 2 ends leaves nothing. A crash after 2 leaves the entry; [Catalog.Maintain]
// and [Catalog.Recover] do 3 and 4 again, and so does a retry of the write, which finds
// the entry. Every write to an index row is conditional on the row's version. So applying an
// entry is idempotent: often or late, in any order, by any number of processes.
//
// # Files
//
// Calls go down this list, never up.
//
//	bulk.go       many insertions at once
//	write.go      what callers ask for: Insert, Put, Replace, Patch
//	delete.go     Delete
//	check.go      Check: the index rows against the log
//	checkrows.go  index rows that the log does not account for
//	migrate.go    Migrate: records that another schema or program has placed
//	published.go  the published program's log
//	migrator.go   what a migration counts and remembers
//	maintain.go   Maintain and Recover: what crashes have left
//	clear.go      index rows and notes that are no longer needed
//	decide.go     one try of a write: decide, commit, carry out
//	carry.go      an entry is carried out, by its writer or by another process
//	apply.go      the entry's index rows are written
//	commit.go     the entry and its heads are written
//	once.go       the Idempotency-Key
//	finish.go     the entry becomes a change
//	list.go       List and Count
//	lookup.go     Find and Get
//	find.go       index rows are read and merged
//	plan.go       what a lookup asks for, and its cursor
//	schema.go     the schema's row: who may write and read
//	checker.go    what a check counts and repairs
//	tally.go      whether index and log agree, in bounded memory
//	copies.go     the index rows of one record
//	changes.go    the list of changes
//	log.go        the log's shards, heads and entries
//	condition.go  ETags, and conditions on them
//	rows.go       the form of all rows
//	identity.go   which identity a record has
//	problems.go   what callers learn of a write that is refused
//	catalog.go    options, limits, background work
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
