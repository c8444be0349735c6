package store

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
)

// format is the version of the log table's rows; see package catalog. Readers return an error for any other version.
const format = 1

// Prefixes of row keys in the log's table.
const (
	HeadPrefix      = "h|"
	EntryPrefix     = "e|"
	ChangePrefix    = "c|"
	ClearPrefix     = "t|"
	TombstonePrefix = "g|" // sorts directly after EntryPrefix
)

// ClaimsPartition is the partition of the claims of all requests (see package claim).
const ClaimsPartition = "claims"

// The columns that this program's rows have in addition to the record's fields.
const (
	identityColumn = record.OwnPrefix + "identity"
	VersionColumn  = record.OwnPrefix + "version"
	GoneColumn     = record.OwnPrefix + "gone"
	firstColumn    = record.OwnPrefix + "first"
	NextColumn     = record.OwnPrefix + "next"
	LineColumn     = record.OwnPrefix + "line"
	formatColumn   = record.OwnPrefix + "format"
	kindColumn     = record.OwnPrefix + "kind"
	WritesColumn   = record.OwnPrefix + "writes"
	ParkedColumn   = record.OwnPrefix + "parked"
)

// SlotColumns are the columns that a [Slot] needs. But for a row that another program wrote, [Store.SlotOf] needs all
// columns, because it computes the identity from the record.
var SlotColumns = []string{identityColumn, VersionColumn, GoneColumn}

// EntryColumns are the columns that an [Entry] without its record needs.
var EntryColumns = []string{formatColumn, kindColumn, WritesColumn}

// Entry is a log entry with its key and its record.
type Entry struct {
	wal.Entry
	ID     wal.EntryID
	Shard  Shard
	Record record.Record // the written record or, for a deletion, the deleted record
}

// Head is a head that was read from the log. An update fails if the head's ETag has changed.
type Head struct {
	wal.Head
	ETag    string
	Written time.Time // the time of the row's last update, by the service's clock; the row is also updated when another process completes the write
}

// State returns the part of h that package wal uses. If h is nil, the result is nil.
func (h *Head) State() *wal.Head {
	if h == nil {
		return nil
	}
	return &h.Head
}

// Live reports whether the head's identity has a record.
func (h *Head) Live() bool { return h != nil && !h.Gone }

// Slot is the state of an index row, and the row's ETag for conditional writes.
type Slot struct {
	wal.IndexRow
	ETag string
}

// IndexRow returns the index row that the write has in a partition. The row contains the record or is a tombstone.
func IndexRow(w wal.Write, partition index.PartitionKey, r record.Record) storage.Entity {
	e := storage.Entity{Key: w.At(partition)}
	if w.Gone {
		e.Properties = []storage.Property{
			{Name: GoneColumn, Type: storage.Boolean, Value: jsontext.Value("true")},
			storage.StringProperty(firstColumn, string(w.First)),
		}
		if w.Next != nil {
			e.Properties = append(e.Properties, storage.StringProperty(NextColumn, Encode(w.Next)))
		}
	} else {
		e.Properties = r.Properties()
	}
	if w.Lineage != nil {
		e.Properties = append(e.Properties, storage.StringProperty(LineColumn, Encode(w.Lineage)))
	}
	e.Properties = append(e.Properties,
		storage.StringProperty(identityColumn, string(w.Identity)),
		storage.Int64Property(VersionColumn, w.Version))
	return e
}

// SlotOf returns the slot of an index row. If another program wrote the row, the slot's version is 0, and its identity is
// computed from the record.
func (s *Store) SlotOf(e storage.Entity) Slot {
	x := Slot{ETag: e.ETag, IndexRow: wal.IndexRow{State: wal.HasRecord, Identity: IdentityOf(e), Version: e.Int(VersionColumn)}}
	if e.Get(GoneColumn) == "true" {
		x.State = wal.Tombstone
	}
	if x.Identity == "" {
		if id, err := s.Identify(record.FromProperties(e.Properties)); err == nil {
			x.Identity = id.Hash()
		}
	}
	return x
}

// HeadKey returns the key of an identity's head.
func HeadKey(first index.FirstHash, identity index.IdentityHash) key.Key {
	return ShardOf(first).Key(HeadsPrefix(first) + string(identity))
}

// HeadsPrefix returns the prefix of the keys of all heads with this first index value.
func HeadsPrefix(first index.FirstHash) string { return HeadPrefix + string(first) + "|" }

// FirstOf reads the hash of a record's first index value from the record's tombstone.
func FirstOf(tombstone storage.Entity) index.FirstHash {
	return index.FirstHash(tombstone.Get(firstColumn))
}

// IdentityOf returns the identity that an index row contains, or "" if another program wrote the row.
func IdentityOf(row storage.Entity) index.IdentityHash {
	return index.IdentityHash(row.Get(identityColumn))
}

// HashOf returns the hash of a record.
func HashOf(r record.Record) wal.ContentHash { return wal.ContentHash(r.Hash()) }

// HeadRow returns the row that records w as the newest write of w's identity.
func HeadRow(w wal.Write, entry wal.EntryID, content wal.ContentHash, sure bool) storage.Entity {
	return storage.Entity{Key: HeadKey(w.First, w.Identity), Properties: []storage.Property{
		sureProperty(sure),
		storage.Int64Property("Format", format),
		storage.StringProperty("Write", Encode(w)),
		storage.StringProperty("Entry", string(entry)),
		storage.StringProperty("Content", string(content)),
	}}
}

func sureProperty(sure bool) storage.Property {
	return storage.Property{Name: "Sure", Type: storage.Boolean, Value: strconv.AppendBool(nil, sure)}
}

// Doubt returns the operation that marks the head of a write's identity as not Sure. The ETag "*" matches any state of the head.
func Doubt(w wal.Write, etag string) storage.Op {
	return storage.Op{Kind: storage.Merge, IfMatch: etag, Row: storage.Entity{Key: HeadKey(w.First, w.Identity), Properties: []storage.Property{sureProperty(false)}}.Row()}
}

// HeadOf parses a head.
func HeadOf(e storage.Entity) (*Head, error) {
	h := &Head{ETag: e.ETag, Written: e.Timestamp, Head: wal.Head{Entry: wal.EntryID(e.Get("Entry")), Content: wal.ContentHash(e.Get("Content")), Sure: e.Get("Sure") == "true"}}
	err := CheckFormat(e.Int("Format"))
	if err == nil {
		err = Decode(e.Get("Write"), &h.Write)
	}
	if err == nil {
		h.Time, err = logtail.KeyTime(string(h.Entry))
	}
	if err != nil {
		return nil, fmt.Errorf("the head %s in the log cannot be read: %w", e.Key.Row, err)
	}
	return h, nil
}

// EntryRow returns an entry's row. The prefix is EntryPrefix for a pending entry, and ChangePrefix for an applied entry.
func EntryRow(prefix string, e Entry) storage.Entity {
	return storage.Entity{
		Key: e.Shard.EntryKey(prefix, e.ID),
		Properties: append(e.Record.Properties(),
			storage.Int64Property(formatColumn, format),
			storage.StringProperty(kindColumn, string(e.Kind)),
			storage.StringProperty(WritesColumn, Encode(e.Writes))),
	}
}

// EntryOf parses the row of a pending or applied entry.
func EntryOf(row storage.Entity) (Entry, error) {
	e := Entry{
		Entry:  wal.Entry{Kind: wal.Kind(row.Get(kindColumn))},
		ID:     wal.EntryID(row.Key.Row[len(EntryPrefix):]),
		Shard:  Shard(row.Key.Partition),
		Record: record.FromProperties(row.Properties),
	}
	err := CheckFormat(row.Int(formatColumn))
	if err == nil {
		err = Decode(row.Get(WritesColumn), &e.Writes)
	}
	if err == nil {
		e.Time, err = logtail.KeyTime(string(e.ID))
	}
	if err != nil {
		return e, fmt.Errorf("the entry %s cannot be read: %w", row.Key.Row, err)
	}
	return e, nil
}

// ErrNewer means that a newer version of this program wrote a row.
var ErrNewer = errors.New("a later version of this program wrote the row; use the later version")

// CheckFormat returns an error if this program does not know the row format v.
func CheckFormat(v int64) error {
	switch {
	case v > format:
		return fmt.Errorf("the row has format %d: %w", v, ErrNewer)
	case v < format:
		return fmt.Errorf("this program does not know the row's format: %d", v)
	}
	return nil
}

// Encode returns the JSON of a stored value.
func Encode(v any) string {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic("catalog: internal error: " + err.Error())
	}
	return string(b)
}

// Decode parses the result of Encode.
func Decode(text string, v any) error { return json.Unmarshal([]byte(text), v) }

// The states of the schema row.
const (
	Ready  = "ready"
	Moving = "moving" // a migration is moving the records to the schema
)

// SchemaKey is the key of the schema row in the log's table.
var SchemaKey = key.Key{Partition: "schema"}

// SchemaRow returns the row that records the schema of s. The argument `state` is the row's State, such as [Ready].
func (s *Store) SchemaRow(state string) storage.Entity {
	return storage.Entity{Key: SchemaKey, Properties: []storage.Property{
		storage.Int64Property("Format", format),
		storage.StringProperty("Schema", s.Schema.String()),
		storage.StringProperty("State", state),
	}}
}
