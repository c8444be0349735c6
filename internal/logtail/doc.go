// Package logtail keeps logs in a table so that the newest entries come first, which
// is the one order that the Table service has to give: the newest N of any number cost
// one query.
//
// A [Log] is rows in one or more partitions whose keys a [Clock] has made; packages that
// write such rows in transactions of their own read and trim them with it. A
// [Streams] is a table of streams. A stream is a named log of events, an event a
// [record.Record] with an id, which is its row key and also a cursor: a place in
// the stream.
//
//	PartitionKey   RowKey            row
//	STREAM         TICKS-SEQ-WRITER  an event: a property for each field, see package record
//	STREAM|NN      TICKS-SEQ-WRITER  an event in shard NN, 01 to 63, of a stream that has several
//	|streams       STREAM            a stream that was written to: Version, Name, Shards, and Empty if it was deleted
//
// STREAM is the stream's name, escaped (see name.go). TICKS are the 19 digits of package
// ticks; SEQ is four hex digits that count down from ffff within a tick; WRITER is 12
// letters and digits drawn by chance for each process. So the later one of two events of a
// writer has the smaller key, and two writers never have the same. Version is 1; a reader
// refuses any other.
//
// # Shards
//
// A stream that is too busy for one partition can have several. Its events are spread over
// them and merged when they are read. Shards is the largest number that a writer was ever
// configured with: every reader reads that many, whatever its own settings. It remembers
// the number for up to [knownTime], and a writer uses shards beyond the first only
// when the row is older than that. So no event is written where a reader does not look.
//
// # What is written once
//
// The keys of events are made before the first try to write them, and the rows are
// inserted. A try that is repeated because its answer was lost finds its own
// rows, and changes nothing.
//
// The package knows nothing of HTTP, and nothing of what events mean.
package logtail
