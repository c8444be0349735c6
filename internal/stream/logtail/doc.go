// Package logtail keeps logs in a table, newest row first. The Table service sorts by key
// only, and the keys here sort that way: the newest N rows of any number cost one query.
//
// A [Log] is a set of rows whose keys a [Clock] has made, in one or more partitions.
// Packages that write such rows in transactions of their own read and trim them with it.
// [Streams] is a table of streams. A stream is a named log of events. An event is a
// [record.Record] with an id, which is its row key and also a cursor.
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
// 12 random letters and digits, drawn for each process. So a writer's later event has the
// smaller key, and two writers never make the same key. Version is 1; a reader refuses any
// other.
//
// # Shards
//
// A stream that is too busy for one partition can have several. Writers spread its events
// over them, and readers merge them. Shards is the largest number that a writer was ever
// configured with. Every reader reads that many, whatever its own settings, and remembers
// the number for up to [knownTime]. A writer uses shards beyond the first only when the row
// is older than that. So no event is written where a reader does not look.
//
// # Appending is idempotent
//
// The keys of events are made before the first try to insert them. If the answer is lost, a
// retry finds its own rows, and changes nothing. If the writer dies, a caller's retry has an
// idempotency key: the note of that key has the first id, from which the others follow (once.go). Tries
// that run at once read the note and insert what is missing. Notes go after a day, or
// with their stream.
//
// # Following
//
// A follower asks by Timestamp, which the service itself keeps: for the rows that were written since
// its last call. Each call reads a few rows again, so that one which becomes visible late is not
// missed: the newest 200 of the last 30 s, or all of the last 0.2 s. The follower's position says
// which of them it has got, by sums over groups of ids, in less than 3,000 characters (position.go).
// Shards are read at different moments. Of the rows that were written since the first of these, it can remember
// some 50. The others are held back until a later call.
// At 1,000 events a second, a call each second with top=1000 takes 1.3 rows returned for an event.
//
// Timestamps have no index: the service reads all rows of a key range to answer. So a call asks for ids
// from a minute before the last call on. An append that takes longer than 50 s fails, and a
// writer whose clock is wrong corrects its ids by the Date of the service's answers. A follower misses
// an event only if it is written more than a minute after the time in its id, which a request
// can be that hangs in the network, or a row that another program writes.
//
// Other logs are followed likewise, by a [Feed]. The bound of their positions may have to stay further behind.
//
// One follower gets 4,000 events a second if a query takes 30 ms, twice what the service
// writes to a partition. Beyond its ceiling it reads what follows at each call, and fails when more than
// 100,000 events follow.
//
// # The end of events
//
// Deleting a stream deletes its rows by Timestamp, up to that of the deletion's claim: what others append meanwhile
// stays, also when the request is sent again. It marks the stream's row and keeps it: running writers don't read the row again, and
// it leads readers to the shards. Retention removes old events, a hundred rows a transaction.
//
// The package knows nothing of HTTP, or of what events mean.
package logtail
