package catalog

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/logtail"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// format is the version of the log table's rows, see doc.go. A reader refuses any
// other.
const format = 1

// Prefixes of row keys in the log's table.
const (
	headPrefix   = "h|"
	entryPrefix  = "e|"
	changePrefix = "c|"
	oncePrefix   = "i|"
	clearPrefix  = "t|"
	gonePrefix   = "g|" // directly behind the entries
)

// Columns that rows have beside a record's fields.
const (
	identityColumn = record.OwnPrefix + "identity"
	versionColumn  = record.OwnPrefix + "version"
	goneColumn     = record.OwnPrefix + "gone"
	firstColumn    = record.OwnPrefix + "first"
	lineColumn     = record.OwnPrefix + "line"
	formatColumn   = record.OwnPrefix + "format"
	kindColumn     = record.OwnPrefix + "kind"
	writesColumn   = record.OwnPrefix + "writes"
	parkedColumn   = record.OwnPrefix + "parked"
)

// entry is an entry with its place in the log, and the record.
type entry struct {
	wal.Entry
	id     string
	shard  string
	record record.Record // of a deletion: the record as it was found
	parked string        // why it can't be applied
}

// head is a head with the ETag on whose condition it is changed.
type head struct {
	wal.Head
	etag string
}

// state returns what package wal decides on.
func (h *head) state() *wal.Head {
	if h == nil {
		return nil
	}
	return &h.Head
}

// live reports whether there is a record.
func (h *head) live() bool { return h != nil && !h.Gone }

// slot is an index row's state, with the ETag on whose condition it is changed.
type slot struct {
	wal.IndexRow
	etag string
}

// indexRow returns the row that the write makes in one of its partitions.
func indexRow(w wal.Write, partition string, r record.Record) storage.Entity {
	e := storage.Entity{Key: key.Key{Partition: partition, Row: w.Row}}
	if w.Gone {
		e.Properties = []storage.Property{
			{Name: goneColumn, Type: storage.Boolean, Value: jsontext.Value("true")},
			storage.StringProperty(firstColumn, w.First),
		}
	} else {
		e.Properties = r.Properties()
		if w.Line != nil {
			e.Properties = append(e.Properties, storage.StringProperty(lineColumn, encode(w.Line)))
		}
	}
	e.Properties = append(e.Properties,
		storage.StringProperty(identityColumn, w.Identity),
		storage.Int64Property(versionColumn, w.Version))
	return e
}

// slotOf reads an index row's state. A row that was not written by us has version
// 0 and the identity that its record has.
func (c *Catalog) slotOf(e storage.Entity) slot {
	s := slot{etag: e.ETag, IndexRow: wal.IndexRow{Exists: true, Identity: e.Get(identityColumn), Version: e.Int(versionColumn), Gone: e.Get(goneColumn) == "true"}}
	if s.Identity == "" {
		if id, err := c.identify(record.FromProperties(e.Properties)); err == nil {
			s.Identity = id.Hash()
		}
	}
	return s
}

func headKey(shard, first, identity string) key.Key {
	return key.Key{Partition: shard, Row: headPrefix + first + "|" + identity}
}

// headRow returns the row of an identity's head after a write.
func headRow(shard string, w wal.Write, entry, content string, sure bool) storage.Entity {
	return storage.Entity{Key: headKey(shard, w.First, w.Identity), Properties: []storage.Property{
		sureProperty(sure),
		storage.Int64Property("Format", format),
		storage.StringProperty("Write", encode(w)),
		storage.StringProperty("Entry", entry),
		storage.StringProperty("Content", content),
	}}
}

// sureProperty says what [wal.Head.Sure] does. A head without it, such as one that an
// older program has changed, isn't sure.
func sureProperty(sure bool) storage.Property {
	return storage.Property{Name: "Sure", Type: storage.Boolean, Value: strconv.AppendBool(nil, sure)}
}

// doubt is the operation by which a head is sure no more. The ETag is "*" for a head in
// whatever state.
func doubt(shard string, w wal.Write, etag string) storage.Op {
	return storage.Op{Kind: storage.Merge, IfMatch: etag, Entity: storage.Entity{Key: headKey(shard, w.First, w.Identity), Properties: []storage.Property{sureProperty(false)}}}
}

func headOf(e storage.Entity) (*head, error) {
	h := &head{etag: e.ETag, Head: wal.Head{Entry: e.Get("Entry"), Content: e.Get("Content"), Sure: e.Get("Sure") == "true"}}
	err := errors.Join(checkFormat(e.Int("Format")), json.Unmarshal([]byte(e.Get("Write")), &h.Write))
	if err == nil {
		h.Time, err = logtail.KeyTime(h.Entry)
	}
	if err != nil {
		return nil, fmt.Errorf("read the head %s: %w", e.Key.Row, err)
	}
	return h, nil
}

// entryRow returns the row of an entry that is pending or, as a change, applied.
func entryRow(prefix string, e entry) storage.Entity {
	return storage.Entity{
		Key: key.Key{Partition: e.shard, Row: prefix + e.id},
		Properties: append(e.record.Properties(),
			storage.Int64Property(formatColumn, format),
			storage.StringProperty(kindColumn, string(e.Kind)),
			storage.StringProperty(writesColumn, encode(e.Writes))),
	}
}

func entryOf(row storage.Entity) (entry, error) {
	e := entry{
		Entry:  wal.Entry{Kind: wal.Kind(row.Get(kindColumn))},
		id:     row.Key.Row[len(entryPrefix):],
		shard:  row.Key.Partition,
		record: record.FromProperties(row.Properties),
		parked: row.Get(parkedColumn),
	}
	err := errors.Join(checkFormat(row.Int(formatColumn)), json.Unmarshal([]byte(row.Get(writesColumn)), &e.Writes))
	if err == nil {
		e.Time, err = logtail.KeyTime(e.id)
	}
	if err != nil {
		return e, fmt.Errorf("read the entry %s: %w", row.Key.Row, err)
	}
	return e, nil
}

// errNewer means that a later version of this program wrote a row.
var errNewer = errors.New("a later version of this program wrote it: use that")

func checkFormat(v int64) error {
	switch {
	case v > format:
		return fmt.Errorf("it has format %d: %w", v, errNewer)
	case v < format:
		return fmt.Errorf("it has no format that this program knows: %d", v)
	}
	return nil
}

func encode(v any) string {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic("catalog: internal error: " + err.Error())
	}
	return string(b)
}

func decode(text string, v any) error { return json.Unmarshal([]byte(text), v) }
