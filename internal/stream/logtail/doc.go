// Package logtail stores logs in a table, newest row first. The Table service sorts only by key, and the keys of a log
// sort newest first. So the newest N rows cost one query, however many rows the log has.
//
// A [Log] is a set of rows, in one or more shards, whose keys come from a [Clock]. Packages that write such rows in
// their own transactions use a Log to read and trim the rows. [Streams] is a table of streams, which are named logs of
// events. An event is a [record.Record] with an id. The id is the event's row key, and serves as a cursor.
//
//	PartitionKey   RowKey            row
//	STREAM         TICKS-SEQ-WRITER  an event: a property for each field, see package record
//	STREAM|NN      TICKS-SEQ-WRITER  an event in shard NN, 01 to 63, of a stream that has several
//	|once|STREAM   HASH              a note of a used idempotency key: Version, First (an id), Partition, and Content (a hash of the events)
//	|claims        i|…               the claim of a deletion, see package claim
//	|streams       STREAM            a stream that has been written to: Version, Name, Shards, and Empty if it was deleted
//
// STREAM is the stream's escaped name (see name.go). TICKS are 19 digits of inverted time (see package key). SEQ is
// four hex digits that count down from ffff within a tick. WRITER is 12 random letters and digits for each process. So
// each event of a writer has a smaller key than the writer's previous event, and two writers never make the same key.
// The property Version is 1, and readers refuse rows of any other version.
//
// # Shards
//
// A stream that is too busy for one partition can have several shards, each a partition. Writers spread the stream's
// events over the shards, and readers merge the shards. The stream's row stores the greatest number of shards that any
// writer's settings ever had. Readers use the stored number, and cache it for up to [knownTime]. Until the stream's row
// is older than [knownTime], a writer uses only the first shard. So every reader knows a shard before the shard contains
// events.
//
// # Appending is idempotent
//
// The keys of events are made before the first try to insert them. If the answer is lost, a retry finds its own rows and
// changes nothing. If the writer dies, the caller retries with the same idempotency key. The note of the idempotency key
// contains the first event's id. The other ids follow from this id (once.go). Concurrent tries read the note and insert the
// missing events. Notes are deleted after a day, or with their stream.
//
// # Following
//
// A follower's query finds the rows that were written since its last call. The query compares Timestamps, which the
// service sets. A row may become visible late. To find such rows, each call reads up to 200 rows of the last 30 s
// again, beginning with the newest. If the last 0.2 s alone have more than 200 rows, the call reads all rows of these
// 0.2 s again. The follower's position is a text of less than 3,000 characters. It does not list the ids of the received
// rows, but contains only one sum for each group of ids (position.go). A call reads some shards later than others. Of
// the rows that were written after the first shard was read, the call returns only about 50, because the position
// cannot record more of them. A later call returns the others. At 1,000 events per second, a follower that calls once
// per second with top=1000 reads 1.3 rows per event.
//
// Timestamps have no index, so the service must read all rows of a query's key range. Therefore a call limits its query
// to ids that are at most a minute older than the previous call. Normally, an event is written less than a minute after
// the time in its id: writers correct these times by the Date of the service's answers, and an append that takes longer
// than 50 s fails. A follower misses only events that are written more than a minute after the time in their ids. A
// request that hangs in the network may write such an event, and so may another program.
//
// A [Feed] follows other logs in the same way. Rows of such a log may be written more than a minute after the time in their
// keys; see [Feed.Oldest].
//
// If a query takes 30 ms, one follower gets 4,000 events per second, twice the number that the service writes to a
// partition per second. If a follower is slower than the writers, each call reads all rows after the follower's
// position. A call fails if there are more than 100,000 such rows.
//
// # Deleting events
//
// A stream's deletion first stores a claim. It then deletes the stream's rows with Timestamps before the time of the
// claim. Events that are appended after the claim stay, even if the request is sent again. The stream's row stays too, and
// is marked as deleted, because readers need the number of shards in this row, and running writers would not insert the
// row again. Retention deletes old events, in transactions of a hundred rows.
package logtail
