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
// retry finds its own rows, and changes nothing.
//
// # Following
//
// A follower reads the last minute again at each poll, and remembers the ids that it has shown.
// So an event is shown once, and is not missed if it becomes readable within a minute of the
// time in its key. An append that takes longer than 50 s therefore fails. Followers miss the
// events of a writer whose clock is a minute late, although the stream has them. Over HTTP the
// follower's position has sums over groups of ids, which grow with the age of their events: so
// it stays below 3,000 characters (position.go).
//
// # The end of events
//
// Deleting a stream marks its row and keeps it: running writers don't read the row again, and
// it leads readers to the shards. Retention removes old events, a hundred rows a transaction.
//
// The package knows nothing of HTTP, or of what events mean.
package logtail
