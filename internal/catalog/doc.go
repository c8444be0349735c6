// Package catalog stores records that can be found by any of several identifiers, in a service with only one index.
//
// A record is a JSON object (package record). For each index key of the catalog's schema (package index), the index table has a
// row with the whole record. The row's PartitionKey contains the key's name and value. Therefore one request finds the record by
// any of its identifiers. All rows of a record have the same RowKey, which contains the sort value and a hash of the index
// values. Other programs also write and read rows of this form. Our rows have a few more columns:
//
//	tsw_identity  hash of the index values and the sort value
//	tsw_version   version of the write that the row contains (package wal)
//	tsw_gone      true in a tombstone, which does not contain a record
//	tsw_first     in a tombstone, the hash of the first index key's value
//	tsw_next      in a tombstone of a record that has moved, the record's new identity and its version there
//	tsw_line      in a row of a record that has moved, the record's first identity and that identity's last version
//
// The log is a second table. It has 16 shards, each a partition. A record's value for the first index key is called its
// first index value. This value selects the shard, and never changes. A note is a row of the log that lists rows to
// delete later.
//
//	RowKey               row
//	h|FIRST|IDENTITY     head of an identity: its newest Write, with Entry and Content (a hash), and Sure
//	e|ENTRY              a pending entry, whose index rows may be incomplete: Kind, Writes, and the record
//	g|ENTRY              a note of the tombstones of an applied entry: Writes, the ETags of Rows, and the entry's t| row (Later)
//	c|ENTRY              a change: an applied entry
//	i|…                  the id of a request (package claim): Request (hash), Outcome, and the Write and Entry of the answer
//	t|TICKS|ENTRY        a note of rows to delete after TICKS: the tombstones and heads of Writes, or only the Head
//
// The partition "claims" contains the claims of all requests, for all shards. The row with PartitionKey "schema" and RowKey ""
// contains the catalog's Schema and State. ENTRY starts with the entry's time in inverted ticks, so changes are sorted newest
// first.
//
// # The life of a write
//
// A write has four stages, all in stages.go: decide, commit, apply, finish. DESIGN.md describes them. If a row of an insertion
// has the key of another record's row, the insertion is withdrawn: one transaction deletes the insertion's entry, and commits
// the removal of the inserted record.
//
// If a writer dies before the commit, its write has no effect. If a writer dies after the commit, [Maintainer.Maintain],
// package check or a retry of the write applies and finishes the entry. Every write to an index row is conditional on the row's
// version. Therefore applying an entry is idempotent: any number of processes may apply the entry, repeatedly or late, in any
// order. If the service will always refuse an entry's rows, the entry is parked: Maintain skips the entry, and package check
// reports it.
//
// The catalog reads heads to decide whether it refuses a write, but clients read index rows, which may be older. Therefore,
// before the catalog refuses a write, it applies the entries of the records that cause the refusal (stages.write). So a client
// that reads after a 412, 409 or 404 sees the reason. An entry leaves the log only when each index row contains the entry's
// write or a later write.
//
// # Groups
//
// Writes of many records in one shard are committed together and finished together (group.go). A group contains at most one
// write of each identity. Moves, withdrawals, and writes with an Idempotency-Key are committed alone. The service may refuse a
// group's transaction because of one write. If the entry of that write is already in the log, an earlier try of the transaction
// has committed all writes of the group, but the answer was lost. If the entry is not in the log, no write of the group was
// committed. An earlier try may still be under way, but the service will refuse that try because of the same write.
//
// # Files
//
// Functions call only functions that come later in this list. Types contain only types that come later in this list.
//
//	catalog.go    Catalog      combines the parts
//	write.go      Writer       the callers' writes: Insert, Put, Replace, Patch, and many concurrent writes
//	delete.go     Writer       Delete
//	repair.go     Maintainer   changes of records by packages check and migrate
//	maintain.go   Maintainer   Maintain: repairs after crashes
//	clear.go      clearer      index rows and notes that are no longer needed
//	once.go       Writer       repeated requests: the commit of a write stores the request's answer
//	choose.go     chooser      the one record that a write concerns
//	stages.go     stages       a write: decide, commit, apply, finish
//	group.go      committer    several writes that are committed and finished together
//	log.go        committer    the log's transactions: entries and their heads, the changes
//	lookup.go     Reader       Find, Get, List, Each and Count
//	find.go       Reader       reads and merges index rows
//	follow.go     Reader       records that move while a call reads pages
//	plan.go                    a checked lookup, and its cursor
//	changes.go    Reader       the list of changes, and reading new changes
//	schema.go     SchemaGuard  the schema's row: permission to write and read
//	condition.go               ETags, and conditions on them
//	refusals.go                errors of refused writes
//
// Package store, which packages check and migrate also use, defines the form of the rows, and reads heads, entries and
// index rows.
//
// # The end of an identity
//
// Tombstones stop older writes that are still under way: writes of a suspended process, and requests that the service carries
// out after their sender has repeated them. Only the log, and not a clock, can prove that no older write is under way. Once the
// rows of an entry are written, its writer deletes the entry. If the writer had to repeat a request, it also marks the head as
// not Sure. If another process applies the entry, this process first marks the head as not Sure. Therefore, if the identity has
// no pending entry and its head is Sure, no older write is under way, and the tombstones are deleted within minutes. Otherwise
// the tombstones stay for a day. The head always stays for a day. If a record with this identity is inserted again within the
// day, the insertion is the next write after the deletion. So the new record's version is greater than the deleted record's
// versions, and the insertion's change comes later than the deleted record's changes.
//
// A record's ETag is its version. A condition is checked against the head, and the commit fails if the head has changed since
// the check.
//
// # Following the changes
//
// A follower reads changes by their Timestamps, like a follower of a stream (package logtail). A change is written when its entry
// is finished, perhaps hours after the commit, but the change's key contains the commit's time. Therefore a follower searches all
// changes since the oldest pending entry. A change is never modified. Entries get their times from the service's clock, and are
// committed within a minute of these times.
//
// # Several identities
//
// A replacement that changes an index value or the sort value moves the record from one identity to another. One transaction
// commits the move and writes the heads of both identities. A transaction cannot write to two shards. So a move cannot change
// the record's first index value, which selects the shard. A move raises the record's version. The rows of a moved record also
// contain the identity that the record had before its first move. So a read recognises rows of one record with several
// identities, and returns the newest row.
//
// Only eight hex digits of a hash distinguish records with the same sort value, so two records can have the same row key. If such
// records also share an index value, the second record is refused. A replacement checks for such a collision before its commit.
// An insertion detects the collision only when it writes its rows, and is then withdrawn.
//
// # Reading while records move
//
// A page of one partition shows the state at one moment, and a move within the partition is one transaction. Between two pages
// of one call, a record may move from the unread rows of the partition to the rows already read. The record leaves a tombstone,
// whose tsw_next names the next identity. That identity's head may name a further identity, and so on to the record's current
// identity. Therefore, if a call finds a tombstone that the service may have written after the call began, it follows the
// tombstone to the record's current identity. Pages of several partitions never show the same moment. Therefore a call that
// reads several partitions also follows tombstones from the minutes before it began. The call is refused as busy if a record
// has moved more than maxHops times since the call began, or if another record has meanwhile taken an identity that a moved
// record had. Therefore a call that is not refused finds every record that matched the query during the whole call. If a query
// takes several calls, a record that moves between two of these calls may be missed.
//
// If the last write of a record was a move, the rows of the move are written before the record is replaced or removed.
// In the opposite order, a query by a former value could still return the old record after the replacement or removal was
// acknowledged.
//
// # Schemas
//
// If the schema of a process differs from the stored schema, the process can neither read nor write. A process checks the
// stored schema before a write, and at the same time as a read. If the last check is less than half a minute old, the
// process does not check again. Package migrate changes the stored schema.
//
// # Weaknesses
//
// All records with the same index value are in one partition, which accepts 2,000 rows per second. The claims are also in
// one partition, so at most 2,000 writes per second can have an Idempotency-Key.
package catalog
