// Package store defines the form of a catalog's rows in the index table and in the log, and reads these rows. Packages
// catalog, check and migrate write the rows.
package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// Store contains the two tables of a catalog.
type Store struct {
	Name   string // for messages
	Index  *storage.Table
	Log    *storage.Table
	Schema index.Schema
	Clock  func() time.Time // our own clock
}

// ServiceNow returns the service's time. Before the service's first answer, it returns our own time.
func (s *Store) ServiceNow() time.Time {
	now, _ := s.Log.Now(s.Clock())
	return now
}

const (
	// shards is the number of the log's partitions. Each partition accepts 2,000 rows per second (Microsoft Learn, "Scalability
	// and performance targets for Table storage"), and an insertion writes five rows. This number cannot change, because the
	// partition of each head depends on it.
	shards = 16
	// Parallel is the maximum number of shards or records that are handled concurrently.
	Parallel = 8
)

// Shard is the PartitionKey of a shard of the log.
type Shard string

// Key returns the key of a row in the shard.
func (s Shard) Key(row string) key.Key { return key.Key{Partition: string(s), Row: row} }

// EntryKey returns the key of the row of a pending or applied entry.
func (s Shard) EntryKey(prefix string, id wal.EntryID) key.Key { return s.Key(prefix + string(id)) }

// ShardOf returns the shard of the records with this first index value.
func ShardOf(first index.FirstHash) Shard { return shard(first.Shard(shards)) }

func shard(i int) Shard { return Shard(fmt.Sprintf("%02d", i)) }

// Shards returns all shards.
func Shards() []Shard {
	all := make([]Shard, shards)
	for i := range all {
		all[i] = shard(i)
	}
	return all
}

// EachShard calls fn for every shard, even if fn fails for some shards.
func EachShard(fn func(Shard) error) error { return EachOf(Shards(), fn) }

// EachOf calls fn for each of the given shards, even if fn fails for some of them.
func EachOf(shards []Shard, fn func(Shard) error) error {
	errs := make([]error, len(shards))
	var g task.Group
	g.SetLimit(Parallel)
	for i, shard := range shards {
		g.Go(func() error {
			errs[i] = task.Do(func() error { return fn(shard) })
			return nil
		})
	}
	_ = g.Wait() // errs contains the errors of fn
	return errors.Join(errs...)
}

// Each calls fn for every row of the query. Several of these calls run concurrently.
func Each(ctx context.Context, t *storage.Table, q storage.Query, fn func(context.Context, storage.Entity) error) error {
	return t.All(ctx, q, func(p storage.Page) error {
		g, ctx := task.WithContext(ctx)
		g.SetLimit(Parallel)
		for _, row := range p.Entities() {
			g.Go(func() error { return fn(ctx, row) })
		}
		return g.Wait()
	})
}

// Query returns a query for the shard's rows whose keys start with the prefix.
func (s Shard) Query(prefix string) storage.Query {
	return storage.Query{Range: key.WithPrefix(string(s), prefix)}
}

// ReadHead returns an identity's head, or nil.
func (s *Store) ReadHead(ctx context.Context, first index.FirstHash, identity index.IdentityHash) (*Head, error) {
	row, found, err := s.Log.Get(ctx, HeadKey(first, identity))
	if err != nil || !found {
		return nil, err
	}
	return HeadOf(row)
}

// Recorded returns the row of a committed entry. It searches the pending entries, and then the changes. So it also finds an
// entry that becomes a change during the search. It does not find withdrawals that were applied, or
// changes that were deleted because of their age.
func (s *Store) Recorded(ctx context.Context, shard Shard, id wal.EntryID) (row storage.Entity, found bool, err error) {
	for _, prefix := range []string{EntryPrefix, ChangePrefix} {
		if row, found, err = s.Log.Get(ctx, shard.EntryKey(prefix, id)); found || err != nil {
			break
		}
	}
	return row, found, err
}

// Overtaken reports whether a write failed because a row has changed since it was read.
func Overtaken(err error) bool {
	return storage.Conflict(err) || storage.HasCode(err, "UpdateConditionNotSatisfied", "ResourceNotFound", "EntityNotFound")
}

// Copy describes the row at the key where a record's index row should be. The row may be missing, or belong to another record.
type Copy struct {
	At     key.Key
	Row    storage.Entity
	Slot   Slot
	Record record.Record
}

// Copies reads the rows that have the keys of the write's index rows.
func (s *Store) Copies(ctx context.Context, w wal.Write) ([]Copy, error) {
	all := make([]Copy, len(w.Partitions))
	g, ctx := task.WithContext(ctx)
	for i, p := range w.Partitions {
		g.Go(func() error {
			at := w.At(p)
			row, found, err := s.Index.Get(ctx, at)
			all[i] = Copy{At: at, Row: row}
			if found {
				all[i].Slot, all[i].Record = s.SlotOf(row), record.FromProperties(row.Properties)
			}
			return err
		})
	}
	return all, g.Wait()
}

// Good reports whether the copy has the head's identity, version and content.
func (x Copy) Good(h *Head) bool {
	return x.Ours(h) && x.Slot.Version == h.Version && HashOf(x.Record) == h.Content
}

// Ours reports whether the copy contains a record of the head's identity.
func (x Copy) Ours(h *Head) bool {
	return x.Slot.State == wal.HasRecord && x.Slot.Identity == h.Identity
}

// Logged returns the record that the head's write has stored. It takes the record from a copy in `all`
// that has the head's hash. If there is no such copy, Logged reads the head's entry.
func (s *Store) Logged(ctx context.Context, h *Head, all []Copy) (r record.Record, found bool, err error) {
	for _, x := range all {
		if x.Slot.State == wal.HasRecord && HashOf(x.Record) == h.Content {
			return x.Record, true, nil
		}
	}
	row, found, err := s.Recorded(ctx, ShardOf(h.First), h.Entry)
	r = record.FromProperties(row.Properties)
	return r, found && HashOf(r) == h.Content, err
}

// WrittenEverywhere reports whether the head and all index rows of the identity contain this record.
func (s *Store) WrittenEverywhere(ctx context.Context, id index.Identity, r record.Record) (bool, error) {
	h, err := s.ReadHead(ctx, id.First(), id.Hash())
	if err != nil || h == nil || h.Gone || h.Content != HashOf(r) {
		return false, err
	}
	all, err := s.Copies(ctx, h.Write)
	return err == nil && !slices.ContainsFunc(all, func(x Copy) bool { return !x.Good(h) }), err
}

// DeleteRow deletes an index row, unless it has changed since it was read.
func (s *Store) DeleteRow(ctx context.Context, row storage.Entity) error {
	return s.Index.Write(ctx, storage.Op{Kind: storage.Delete, IfMatch: row.ETag, Row: storage.Row{Key: row.Key}})
}

// PublishedOperation is a column of the rows that the published program (see package migrate) writes. It names the operation that wrote the row.
const (
	PublishedOperation = "operation"
	PublishedInsert    = "insert"
)

// Foreign reports whether another program wrote the index row.
func Foreign(row storage.Entity) bool { return row.Get(VersionColumn) == "" }

// ContentOf returns the record of an index row, without the column in which the published program stores the operation's
// name.
func ContentOf(row storage.Entity) record.Record {
	r := record.FromProperties(row.Properties)
	if v, _ := r.Get(PublishedOperation); Foreign(row) && v == PublishedInsert {
		r = Without(r, PublishedOperation)
	}
	return r
}

// Without returns the record without a field.
func Without(r record.Record, field string) record.Record {
	r.Fields = slices.DeleteFunc(slices.Clone(r.Fields), func(f record.Field) bool { return f.Name == field })
	return r
}

// Identify checks a record and returns its identity.
func (s *Store) Identify(r record.Record) (index.Identity, error) {
	get, err := s.keyValues(r)
	if err != nil {
		return index.Identity{}, err
	}
	return s.Schema.Identity(get)
}

// keyValues returns a function that gets a field's name, and returns the field's index value or sort value. The function
// ignores the case of the name.
func (s *Store) keyValues(r record.Record) (func(field string) (string, bool), error) {
	values := map[string]string{}
	for _, f := range r.Fields {
		name := strings.ToLower(f.Name)
		if s.Schema.Rank(name) < 0 && strings.ToLower(s.Schema.Sort.Field) != name {
			continue
		}
		if f.Nested {
			return nil, problem.Invalidf(f.Name, "is an object or an array, but an index key or the row key must be text, a number or a boolean")
		}
		if _, twice := values[name]; twice {
			return nil, problem.Invalidf(f.Name, "is given twice, with names that differ only in case; send one of the two")
		}
		values[name] = keyText(r, f)
	}
	return func(field string) (string, bool) {
		v, ok := values[strings.ToLower(field)]
		return v, ok
	}, nil
}

// keyText returns the text from which a field's keys are made. The service changes the spelling of numbers, so all spellings of
// a number have the same text.
func keyText(r record.Record, f record.Field) string {
	text, _ := r.Get(f.Name)
	switch f.Type {
	case storage.Int32, storage.Int64, storage.Double:
		if n, ok := index.Number(text); ok { // ok is false for NaN and the infinities, so their text is not changed
			return n
		}
	}
	return text
}

// WriteFor returns a write of the identity. The version is not set.
func WriteFor(id index.Identity) wal.Write {
	return wal.Write{First: id.First(), Identity: id.Hash(), Row: id.Row, Partitions: id.Partitions}
}
