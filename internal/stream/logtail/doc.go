// Package logtail keeps logs in a table, newest row first. The Table service sorts only by key,
// and the keys here sort newest first, so the newest N of any number of rows cost one query.
//
// A [Log] is a set of rows, in one or more shards, whose keys come from a [Clock].
// Packages that write such rows in their own transactions use it to read and trim them.
// [Streams] is a table of streams. A stream is a named log of events. An event is a
// [record.Record] with an id, which is its row key and serves as a cursor.
//
//	PartitionKey   RowKey            row
//	STREAM         TICKS-SEQ-WRITER  an event: a property for each field, see package record
//	STREAM|NN      TICKS-SEQ-WRITER  an event in shard NN, 01 to 63, of a stream that has several
//	|once|STREAM   HASH              a used idempotency key: Version, First id, Partition, and Content, a hash of the events
//	|claims        i|…               the claim of a deletion, see package claim
//	|streams       STREAM            a stream that has been written to: Version, Name, Shards, and Empty if it was deleted
//
// STREAM is the stream's name, escaped (see name.go). TICKS are 19 digits of inverted time,
// see package key. SEQ is four hex digits that count down from ffff within a tick. WRITER is
// 12 random letters and digits for each process. So a writer's later event has the
// smaller key, and two writers never make the same key. Version is 1. A reader refuses any
// other.
//
// # Shards
//
// A stream that is too busy for one partition can have several. Writers spread its events over them, and readers merge them.
// Shards is the largest number that any writer was ever configured with. Every reader reads that many, whatever its own
// settings, and caches the number for up to [knownTime]. A writer uses shards beyond the first only when the row is older than
// [knownTime]. So every reader knows the shard of every event.
//
// # Appending is idempotent
//
// The keys of events are made before the first try to insert them. If the answer is lost, a
// retry finds its own rows and changes nothing. If the writer dies, a caller's retry has an
// idempotency key. The row of that key has the first id, from which the others follow (once.go). Concurrent
// tries read that row and insert the missing events. Such rows are deleted after a day, or
// with their stream.
//
// # Following
//
// A follower queries by Timestamp, which the service sets, for the rows written since its last call. Each call reads a few rows
// again, so that it does not miss a row that becomes visible late: the newest 200 of the last 30 s, or all of the last 0.2 s.
// The follower's position records which of them it has received, as sums over groups of ids, in less than 3,000 characters
// (position.go). Shards are read at different moments. Of the rows written since the first of these moments, the position can
// record about 50. Further rows are held back until a later call. At 1,000 events a second, a call each second with top=1000
// reads 1.3 rows for each event.
//
// Timestamps have no index, so the service reads all rows of a key range to answer. So a call queries only ids
// from a minute before the last call. An append that takes longer than 50 s fails, and a
// writer whose clock is wrong corrects its ids by the Date of the service's answers. A follower misses
// an event only if it is written more than a minute after the time in its id. That can happen to a request
// that hangs in the network, or to a row that another program writes.
//
// Other logs are followed in the same way, by a [Feed]. Their positions may need an older bound.
//
// If a query takes 30 ms, one follower gets 4,000 events a second. That is twice as many as the service writes to a partition.
// A follower that falls behind reads all following rows at each call, and fails when more than 100,000 follow.
//
// # Deleting events
//
// Deleting a stream deletes its rows by Timestamp, up to that of the deletion's claim. Events that others append meanwhile
// stay, even if the request is sent again. The stream's row is marked and kept, because running writers don't read it again and
// it leads readers to the shards. Retention deletes old events, a hundred rows a transaction.
//
// The package does not depend on HTTP, or on the meaning of events.
package logtail
