// Package catalog stores records that can be found by any of several identifiers, in a service with only one index.
//
// A record is a JSON object (package record). For each index key of the catalog's schema (package index), the index table has a
// row with the whole record. The row's PartitionKey contains the key's name and value. Therefore one request finds the record by
// any of its identifiers. All rows of a record have the same RowKey, which contains the sort value and a hash of the index
// values. This is the published form of the pattern, and other programs can read it. Our rows have a few more columns:
//
//	tsw_identity  hash of the index values and the sort value
//	tsw_version   version of the identity's write that is in the row (package wal)
//	tsw_gone      true in a tombstone, which has no record
//	tsw_first     in a tombstone, the hash of the first index key's value
//	tsw_next      in a tombstone of a record that has moved, its new identity and its version there
//	tsw_line      in a row of a record that has moved, its first identity and that identity's last version
//
// The log is a second table. It has 16 shards, each a partition. The value of the first index key selects a record's shard. That
// value never changes:
//
//	RowKey               row
//	h|FIRST|IDENTITY     head of an identity: Entry, Content (hash), its newest Write, and Sure
//	e|ENTRY              a pending entry, whose index rows may be incomplete: Kind, Writes, and the record
//	g|ENTRY              a note of the tombstones of an applied entry: Writes, the ETags of Rows, its t| row (Later)
//	c|ENTRY              a change: an applied entry
//	i|…                  the id of a request (package claim): Request (hash), Outcome, and the Write and Entry of the answer
//	t|TICKS|ENTRY        a note of rows to delete after TICKS: tombstones of Writes and heads, or only the Head
//
// The partition "claims" contains the claims of all requests, whatever their shard. The row "schema", "" contains the catalog's
// Schema and State. ENTRY starts with the entry's time in inverted ticks, so changes are sorted newest first.
//
// # The life of a write
//
// It has four stages, all in stages.go: decide, commit, apply, finish. DESIGN.md describes them. If a row of an insertion has the
// key of another record's row, the insertion is withdrawn: one transaction deletes its entry and commits a removal.
//
// A crash before the end of the commit leaves nothing. A later crash leaves the entry. [Maintainer.Maintain] and package check
// then apply and finish it, and so does a retry of the write, which finds the entry. Every write to an index row is conditional
// on the row's version. Therefore applying an entry is idempotent: any number of processes may apply it, repeatedly or late, in
// any order.
//
// Writes are decided by heads, while readers use index rows. Therefore, before a write is refused, the entries of the records
// that caused the refusal are applied (stages.write). A client that reads after a 412, 409 or 404 finds the reason. This holds
// because an entry leaves the log only when all rows have its writes, or later ones.
//
// # Groups
//
// Writes of many records in one shard are committed together and finished together (group.go). A group contains an identity at
// most once. Writes with an Idempotency-Key, moves and withdrawals are committed alone. A transaction is atomic. It may be
// refused because of one write although that write's entry is in the log. Then an earlier try, whose answer was lost, has
// committed all writes. If the entry is not there, no write was committed, and none will be, because the reason for the refusal
// stays.
//
// # Files
//
// Calls go down this list, never up. The same is true of types: each contains only types below it.
//
//	catalog.go    Catalog      combines the parts
//	write.go      Writer       the callers' writes: Insert, Put, Replace, Patch, and many writes at once
//	delete.go     Writer       Delete
//	repair.go     Maintainer   changes of records by packages check and migrate
//	maintain.go   Maintainer   Maintain: repairs after crashes
//	clear.go      clearer      index rows and notes that are no longer needed
//	once.go       Writer       repeated requests: the commit of a write stores its answer
//	choose.go     chooser      the one record that a write concerns
//	stages.go     stages       a write: decide, commit, apply, finish
//	group.go      committer    several writes that are committed and finished together
//	log.go        committer    the log's transactions: entries and their heads, the changes
//	lookup.go     Reader       Find, Get, List, Each and Count
//	find.go       Reader       reads and merges index rows
//	follow.go     Reader       records that move while a call reads pages
//	plan.go                    a checked lookup, and its cursor
//	changes.go    Reader       the list of changes, and their followers
//	schema.go     SchemaGuard  the schema's row: permission to write and read
//	condition.go               ETags, and conditions on them
//	refusals.go                errors of refused writes
//
// Package store defines the form of the rows, and reads heads, entries and index rows. Packages check and migrate also use it.
//
// # The end of an identity
//
// Tombstones stop older writes that are still under way: writes of a suspended process, and requests that the service carries out
// after their sender has repeated them. Tombstones can be deleted within minutes if no such write exists. No clock can show this,
// but the log can. An entry's writer deletes the entry once its rows are written, and marks the head as not Sure if it had to
// repeat a request. Any other process marks the head before it applies an entry. Therefore, if the identity has no entry and its
// head is Sure, nothing is under way. Otherwise the tombstones stay for a day. The head always stays for a day. Therefore the
// identity's next life has greater versions and later changes than the last.
//
// A record's ETag is its version. A condition is checked on the head on which the commit depends.
//
// # Following the changes
//
// A follower reads changes by their Timestamps, like a follower of a stream (package logtail). A change is written when its entry
// is finished, perhaps hours after its commit, and its key contains the time of the commit. Therefore a position goes back to the
// oldest pending entry, and nothing modifies a change after it was written. Entries are dated by the service's clock, and
// committed within a minute.
//
// # Several identities
//
// A replacement that changes an index value or the sort value moves the record from one identity to another. One transaction
// commits it with both heads. Therefore the first index value, which selects the shard, cannot change. Versions continue to grow
// over such moves, and the rows of a moved record name its first identity. A read that finds rows of several identities returns
// the newest.
//
// Eight hex digits of a hash distinguish records with the same sort value, so row keys can collide. If two records with the same
// row key share an index value, the second is refused. A replacement checks this before it commits. An insertion finds out later,
// and is withdrawn.
//
// # Reading while records move
//
// A page of one partition shows one moment, and a move within the partition is one transaction. Between two pages of one call, a
// record may move from the unread to the read part of the partition. It leaves a tombstone, whose tsw_next leads to the next
// identity's head, and so on to the record's current place. Therefore a call follows the tombstones that are not older than
// itself, by the service's times. Several partitions never show one moment, so in that case all tombstones of the last minutes
// are followed. A call is refused as busy if the trail is longer than maxHops, or if another record has taken a place on it.
// Therefore no lookup misses a record that was under the key all the time. Nothing follows a record that moves between two calls.
//
// If a move has brought a record to its place, a write that replaces or removes the record waits until the move's rows are
// written. Otherwise a query by a former value of the record could return a version older than an acknowledged write.
//
// # Schemas
//
// A process whose schema differs from the stored one is refused. A running process checks the schema every half minute, before it
// writes and while it reads. Package migrate changes it.
//
// # Weaknesses
//
// All records with the same index value are in one partition, which accepts 2,000 rows a second. The claims are also one
// partition, so at most this many writes a second can have an Idempotency-Key.
package catalog
