// Package catalog stores records that any of several identifiers finds, in a service with
// only one index.
//
// A record is a JSON object (package record). For each index key of the catalog's
// schema (package index), the index table has a row with the whole record. Its
// PartitionKey has the key's name and value. So one request finds the record by any of
// its identifiers. All rows of a record have the same RowKey, which has the sort value and
// a hash of the index values. This is the published form of the pattern, and other
// programs can read it. Our rows have a few more columns:
//
//	tsw_identity  hash of the index values and the sort value
//	tsw_version   the identity's write that the row holds (package wal)
//	tsw_gone      true in a tombstone, which holds no record
//	tsw_first     in a tombstone, the hash of the first index key's value
//	tsw_next      in a tombstone of a record that has moved, the identity that it took, and its version there
//	tsw_line      in a row of a record that has moved, its first identity and that one's last version
//
// The log is a second table. It has 16 shards, each a partition. The value of the first
// index key selects a record's shard; that value never changes:
//
//	RowKey               row
//	h|FIRST|IDENTITY     head of an identity: Entry, Content (hash), its newest Write, and Sure
//	e|ENTRY              a pending entry, whose index rows may be incomplete: Kind, Writes, and the record
//	g|ENTRY              a note of the tombstones that an applied entry has left: Writes, the ETags of Rows, its t| row (Later)
//	c|ENTRY              a change: an applied entry
//	i|…                  the id of a request (package claim): Request (hash), Outcome, and the Write and Entry of the answer
//	t|TICKS|ENTRY        a note of rows to delete after TICKS: tombstones of Writes and heads, or the Head alone
//
// The partition "claims" has claims of requests, whatever their shard. The row "schema", "" has the catalog's Schema and State. ENTRY starts with the entry's
// time in inverted ticks, so changes are sorted newest first.
//
// # The life of a write
//
// It has four stages, all in stages.go: decide, commit, apply, finish. DESIGN.md tells them. A row of an insertion may have the key of
// another record's row. Then the insertion is withdrawn: one transaction deletes its entry and commits a removal.
//
// A crash before the commit ends leaves nothing. A later one leaves the entry; [Maintainer.Maintain]
// and package check apply and finish it again, and so does a retry of the write, which finds
// the entry. Every write to an index row is conditional on the row's version. So applying an
// entry is idempotent: often or late, in any order, by any number of processes.
//
// Writes are decided on heads, and readers go by index rows. So before a write is refused, the entries of the
// records that it is about are applied (stages.write): whoever reads after a 412, 409 or 404 finds what it was
// for. That holds because an entry leaves the log only when all rows have its writes, or later ones.
//
// # Groups
//
// Writes of many records that are in one shard commit together, and are finished together (group.go): an identity stands once in a group, and
// writes with an Idempotency-Key, moves and withdrawals commit alone. A transaction is carried out whole. So if the one over whose entry it is
// refused was committed, all were, by a try whose answer was lost. If not, none was, and none will be: what it was refused for stays.
//
// # Files
//
// Calls go down this list, never up. So do the types: each holds only those below it.
//
//	catalog.go    Catalog      puts the parts together
//	write.go      Writer       what callers ask for: Insert, Put, Replace, Patch, and many writes at once
//	delete.go     Writer       Delete
//	repair.go     Maintainer   what packages check and migrate do to records
//	maintain.go   Maintainer   Maintain: what crashes have left
//	clear.go      clearer      index rows and notes that are no longer needed
//	once.go       Writer       requests that come again: the commit of a write keeps its answer
//	choose.go     chooser      the one record that a write is about
//	stages.go     stages       a write: decide, commit, apply, finish
//	group.go      committer    several writes that commit and finish together
//	log.go        committer    the log's transactions: entries and their heads, the changes
//	lookup.go     Reader       Find, Get, List, Each and Count
//	find.go       Reader       index rows are read and merged
//	follow.go     Reader       records that move while a call reads pages
//	plan.go                    what a lookup asks for, and its cursor
//	changes.go    Reader       the list of changes, and their followers
//	schema.go     SchemaGuard  the schema's row: who may write and read
//	condition.go               ETags, and conditions on them
//	refusals.go                what callers learn of a refusal
//
// Package store has the form of the rows, and reads heads, entries and index rows. Packages
// check and migrate use it, too.
//
// # The end of an identity
//
// Tombstones stop older writes that are still under way: writes of a frozen process, and
// requests that the service carries out after their sender has repeated them. They can be
// deleted within minutes if no such write exists. No clock can tell, but the log can. An
// entry's writer deletes the entry once its rows are written, and marks the head as not Sure
// if it had to repeat a request. Any other process marks the head before it applies an
// entry. So if the identity has no entry, and its head is Sure, nothing is under way.
// Otherwise the tombstones stay for a day. The head always stays for a day. So the
// identity's next life has greater versions than the last, and later changes.
//
// A record's ETag is its version. A condition is checked on the head that the commit depends on.
//
// # Following the changes
//
// A follower asks for the changes by their Timestamps, as those of streams do (package logtail). A change is written when its
// entry is finished, perhaps hours after its commit, and its key has the time of the commit. So a position goes back to the oldest
// pending entry, and nothing touches a change after it was written. Entries are dated by the service's clock, and committed
// within a minute.
//
// # Several identities
//
// A replacement that changes an index value or the sort value moves the record from one
// identity to another. Both heads are in the one transaction that commits it: this is why the first
// index value, which selects the shard, can't change. Versions keep growing over such moves,
// and the rows of a moved record name its first identity. A read that meets rows of several
// identities returns the newest.
//
// Eight hex digits of a hash tell records with the same sort value apart, so row keys can
// collide. If two records with the same row key share an index value, the second is refused. A
// replacement checks that before it commits. An insertion finds out later and is withdrawn.
//
// # Reading while records move
//
// A page of one partition is one moment: a move within it is one transaction. Between two pages of one call, a record may
// move from behind the reader to ahead of it. It leaves a tombstone behind, whose tsw_next
// leads to the next identity's head, and so on to where the record lives. So a call
// follows the tombstones that are not older than itself, by the service's times. Several partitions are never one moment: then all
// tombstones of the last minutes are followed. A call is refused as busy if the trail is longer than maxHops, or if another record has a
// place on it. So no lookup misses a record that stood under the key all the time. Nothing follows a record that moves between two calls.
//
// A write that replaces or removes a record which a move has brought to its place waits until the move's rows are
// written. So no query finds, by what the record has left, a record older than a write that was acknowledged.
//
// # Schemas
//
// A process with another schema than the stored one is refused. A running process checks the
// schema every half minute, before it writes and while it reads. Package migrate changes it.
//
// # Weaknesses
//
// An index value that many records share is one partition, which takes 2,000 rows a second. So is the one of the claims:
// as many writes a second can have an Idempotency-Key.
package catalog
