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
	headPrefix      = "h|"
	entryPrefix     = "e|"
	changePrefix    = "c|"
	oncePrefix      = "i|"
	clearPrefix     = "t|"
	tombstonePrefix = "g|" // directly behind the entries
)

// Columns of our own, beside the record's fields.
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

// entry is an entry, its place in the log and its record.
type entry struct {
	wal.Entry
	id     string
	shard  string
	record record.Record // for a deletion, the record as it was found
	parked string        // why it can't be applied; "" if it can
}

// head is a head as it was read, with its ETag: updates are conditional on it.
type head struct {
	wal.Head
	etag string
}

// state returns the head as package wal knows it, nil for none.
func (h *head) state() *wal.Head {
	if h == nil {
		return nil
	}
	return &h.Head
}

// live reports whether the identity has a record.
func (h *head) live() bool { return h != nil && !h.Gone }

// slot is an index row as it was read: its state, and its ETag for conditional writes.
type slot struct {
	wal.IndexRow
	etag string
}

// indexRow returns the write's index row in one of its partitions: the record, or a
// tombstone.
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

// slotOf returns the slot of an index row. If another program wrote the row, the version
// is 0, and the identity is computed from the record.
func (c *Catalog) slotOf(e storage.Entity) slot {
	s := slot{etag: e.ETag, IndexRow: wal.IndexRow{Exists: true, Identity: e.Get(identityColumn), Version: e.Int(versionColumn), Gone: e.Get(goneColumn) == "true"}}
	if s.Identity == "" {
		if id, err := c.identify(record.FromProperties(e.Properties)); err == nil {
			s.Identity = id.Hash()
		}
	}
	return s
}

// headKey returns the key of an identity's head.
func headKey(shard, first, identity string) key.Key {
	return key.Key{Partition: shard, Row: headPrefix + first + "|" + identity}
}

// headRow returns the row of the head that a write leaves.
func headRow(shard string, w wal.Write, entry, content string, sure bool) storage.Entity {
	return storage.Entity{Key: headKey(shard, w.First, w.Identity), Properties: []storage.Property{
		sureProperty(sure),
		storage.Int64Property("Format", format),
		storage.StringProperty("Write", encode(w)),
		storage.StringProperty("Entry", entry),
		storage.StringProperty("Content", content),
	}}
}

// sureProperty stores [wal.Head.Sure]. A head without it is not sure: an older version
// of this program has written it.
func sureProperty(sure bool) storage.Property {
	return storage.Property{Name: "Sure", Type: storage.Boolean, Value: strconv.AppendBool(nil, sure)}
}

// doubt returns the operation that marks the head of a write's identity as not sure. The
// ETag "*" stands for any state of the head.
func doubt(shard string, w wal.Write, etag string) storage.Op {
	return storage.Op{Kind: storage.Merge, IfMatch: etag, Entity: storage.Entity{Key: headKey(shard, w.First, w.Identity), Properties: []storage.Property{sureProperty(false)}}}
}

// headOf reads a head.
func headOf(e storage.Entity) (*head, error) {
	h := &head{etag: e.ETag, Head: wal.Head{Entry: e.Get("Entry"), Content: e.Get("Content"), Sure: e.Get("Sure") == "true"}}
	err := errors.Join(checkFormat(e.Int("Format")), decode(e.Get("Write"), &h.Write))
	if err == nil {
		h.Time, err = logtail.KeyTime(h.Entry)
	}
	if err != nil {
		return nil, fmt.Errorf("read the head %s: %w", e.Key.Row, err)
	}
	return h, nil
}

// entryRow returns an entry's row: pending or, with changePrefix, applied.
func entryRow(prefix string, e entry) storage.Entity {
	return storage.Entity{
		Key: key.Key{Partition: e.shard, Row: prefix + e.id},
		Properties: append(e.record.Properties(),
			storage.Int64Property(formatColumn, format),
			storage.StringProperty(kindColumn, string(e.Kind)),
			storage.StringProperty(writesColumn, encode(e.Writes))),
	}
}

// entryOf reads an entry, pending or applied.
func entryOf(row storage.Entity) (entry, error) {
	e := entry{
		Entry:  wal.Entry{Kind: wal.Kind(row.Get(kindColumn))},
		id:     row.Key.Row[len(entryPrefix):],
		shard:  row.Key.Partition,
		record: record.FromProperties(row.Properties),
		parked: row.Get(parkedColumn),
	}
	err := errors.Join(checkFormat(row.Int(formatColumn)), decode(row.Get(writesColumn), &e.Writes))
	if err == nil {
		e.Time, err = logtail.KeyTime(e.id)
	}
	if err != nil {
		return e, fmt.Errorf("read the entry %s: %w", row.Key.Row, err)
	}
	return e, nil
}

// errNewer means that a newer version of this program wrote a row.
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

// encode returns the JSON of a stored value.
func encode(v any) string {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic("catalog: internal error: " + err.Error())
	}
	return string(b)
}

// decode reads what encode has written.
func decode(text string, v any) error { return json.Unmarshal([]byte(text), v) }
