package migrate

import (
	"context"
	"fmt"
	"strings"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// The log of the published program: entries in the order of their RowKeys, and a checkpoint with the RowKey of the last one
// carried out.
const (
	publishedPartition = "wal"
	publishedDateTime  = "datetime"
	publishedDelete    = "delete"
)

var publishedCheckpoint = key.Key{Partition: "metadata", Row: "checkpoint"}

// leftPartition of the log contains our notes of entries that could not be carried out. Each has the entry's RowKey and, for an
// insertion, the hash of its record. The row takenMark contains the RowKey up to which all entries are carried out or noted. The
// program's own checkpoint cannot serve for this, because the program may write and move it while we take over its rows.
const (
	leftPartition = "left"
	leftContent   = "Content"
)

var takenMark = key.Key{Partition: leftPartition}

// begin determines the place from which to read the log, and records it before any row is taken over.
func (m *migrator) begin(ctx context.Context) error {
	mark, found, err := m.Log.Get(ctx, takenMark)
	if m.from = mark.Get(publishedDateTime); err != nil || found {
		return err
	}
	checkpoint, _, err := m.Log.Get(ctx, publishedCheckpoint)
	if err != nil {
		return err
	}
	if m.from = checkpoint.Get(publishedDateTime); m.from == "" {
		return nil // most likely there is no such log
	}
	return m.mark(ctx, m.from)
}

// mark stores the fact that all entries up to this one are carried out or noted.
func (m *migrator) mark(ctx context.Context, row string) error {
	return m.change(ctx, storage.Op{Kind: storage.Replace, Row: storage.Entity{Key: takenMark, Properties: []storage.Property{storage.StringProperty(publishedDateTime, row)}}.Row()})
}

// entries first retries the entries that earlier runs have left. Then it carries out the published program's entries since the
// mark, and moves the mark and the checkpoint. An entry that cannot be carried out is noted before the mark passes it, so that
// each run lists it until it is settled.
func (m *migrator) entries(ctx context.Context) error {
	var left []string
	partition := leftPartition
	err := m.Log.All(ctx, storage.Query{Range: key.Range{Partition: &partition, Low: &key.Bound{Key: takenMark.Row, Open: true}}}, func(p storage.Page) error {
		for _, note := range p.Entities() {
			left = append(left, note.Key.Row)
			m.noted[note.Key.Row] = wal.ContentHash(note.Get(leftContent))
		}
		return nil
	})
	for _, row := range left {
		if err == nil {
			err = m.retryLeft(ctx, row)
		}
	}
	if err != nil {
		return err
	}
	checkpoint, _, err := m.Log.Get(ctx, publishedCheckpoint)
	if err != nil {
		return err
	}
	partition = publishedPartition
	q := storage.Query{Range: key.Range{Partition: &partition, Low: &key.Bound{Key: m.from, Open: true}}}
	err = m.Log.All(ctx, q, func(p storage.Page) error {
		for _, row := range p.Entities() {
			if _, noted := m.noted[row.Key.Row]; !noted { // otherwise a run died before it moved the mark
				carried := !key.Less(checkpoint.Get(publishedDateTime), row.Key.Row)
				if err := m.tryFirst(ctx, row, carried); err != nil {
					return err
				}
			}
			if err := m.mark(ctx, row.Key.Row); err != nil {
				return err
			}
			m.from = row.Key.Row
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.moveCheckpoint(ctx, m.from)
}

// retryLeft retries an entry that an earlier run has left.
func (m *migrator) retryLeft(ctx context.Context, row string) error {
	if _, noted := m.noted[row]; !noted { // a later deletion has settled it
		return nil
	}
	entry, found, err := m.Log.Get(ctx, key.Key{Partition: publishedPartition, Row: row})
	settled := !found
	if err == nil && found {
		settled, err = m.entry(ctx, entry, false)
	}
	if err != nil || !settled {
		return err
	}
	return m.forget(ctx, row)
}

// tryFirst carries out an entry, or notes that it could not. carried means that the published program has carried it out.
func (m *migrator) tryFirst(ctx context.Context, row storage.Entity, carried bool) error {
	settled, err := m.entry(ctx, row, carried)
	if err != nil || settled {
		return err
	}
	var content wal.ContentHash
	if row.Get(store.PublishedOperation) == store.PublishedInsert {
		content = store.HashOf(publishedRecord(row))
	}
	m.noted[row.Key.Row] = content
	return m.change(ctx, storage.Op{Kind: storage.Replace, Row: storage.Entity{
		Key: key.Key{Partition: leftPartition, Row: row.Key.Row}, Properties: []storage.Property{storage.StringProperty(leftContent, string(content))},
	}.Row()})
}

// forget deletes the note of an entry.
func (m *migrator) forget(ctx context.Context, row string) error {
	delete(m.noted, row)
	err := m.change(ctx, storage.Op{Kind: storage.Delete, IfMatch: "*", Row: storage.Row{Key: key.Key{Partition: leftPartition, Row: row}}})
	if storage.NotFound(err) { // deleted by another migration
		return nil
	}
	return err
}

// moveCheckpoint moves the checkpoint to an entry, unless the published program has moved it farther.
func (m *migrator) moveCheckpoint(ctx context.Context, row string) error {
	for {
		now, found, err := m.Log.Get(ctx, publishedCheckpoint)
		if err != nil || !key.Less(now.Get(publishedDateTime), row) {
			return err
		}
		op := storage.Op{Kind: storage.Insert, Row: storage.Entity{Key: publishedCheckpoint, Properties: []storage.Property{storage.StringProperty(publishedDateTime, row)}}.Row()}
		if found {
			op.Kind, op.IfMatch = storage.Replace, now.ETag
		}
		if err := m.change(ctx, op); !store.Overtaken(err) {
			return err
		}
	}
}

// change writes to the log, except in a dry run.
func (m *migrator) change(ctx context.Context, op storage.Op) error {
	if m.dryRun {
		return nil
	}
	return m.Log.Write(ctx, op)
}

func publishedRecord(row storage.Entity) record.Record {
	return store.Without(record.FromProperties(row.Properties), store.PublishedOperation)
}

// entry carries out one entry of the published program. If it cannot, it reports this, and settled is false. If the program
// itself has carried the entry out, an entry that cannot be repeated counts as settled, because later writes have replaced its
// result.
func (m *migrator) entry(ctx context.Context, row storage.Entity, carried bool) (settled bool, err error) {
	r := publishedRecord(row)
	id, err := m.Identify(r)
	if err != nil && carried {
		return true, nil
	}
	if err != nil {
		m.reportLeft(row.Key, "the log entry does not hold a record; correct or delete it: %v", err)
		return false, nil
	}
	for {
		do, left, err := m.decide(ctx, row, id, r)
		switch {
		case err != nil:
			return false, err
		case do == nil && (carried || left == ""):
			return true, nil
		case do == nil:
			m.reportLeft(row.Key, "%s", left)
			return false, nil
		}
		switch did, err := m.attempt(row.Key, do); did {
		case done:
			m.count(&m.sum.Entries)
			return true, nil
		case impossible, failed:
			return false, err
		}
	}
}

// decide returns a function that carries out an entry with the record r, or the reason why it cannot be carried out. If it
// returns neither, there is nothing to do.
func (m *migrator) decide(ctx context.Context, row storage.Entity, id index.Identity, r record.Record) (do func() error, left string, err error) {
	operation := row.Get(store.PublishedOperation)
	if operation != store.PublishedInsert && operation != publishedDelete {
		return nil, fmt.Sprintf("the log entry has the unknown operation %q; correct or delete it", operation), nil
	}
	h, err := m.ReadHead(ctx, id.First(), id.Hash())
	if err == nil && h == nil && operation == publishedDelete {
		h, err = m.takeLateRows(ctx, id, r)
	}
	if err != nil {
		return nil, "", err
	}
	live := h.Live()
	if operation == publishedDelete && (!live || h.Content != store.HashOf(r)) {
		for noted, content := range m.noted {
			if content == store.HashOf(r) && key.Less(noted, row.Key.Row) { // the insertion that it deletes was left, so both are settled
				return nil, "", m.forget(ctx, noted)
			}
		}
	}
	switch {
	case m.contentOf(id).ambiguous || live && h.Content != store.HashOf(r):
		return nil, "there is a record with other contents whose index and sort values differ from the log entry only in case; change the sort value of one of them, or delete the entry", nil
	case operation == store.PublishedInsert && live, operation == publishedDelete && !live:
		return nil, "", nil
	case operation == publishedDelete:
		return func() error {
			_, err := m.Remove(ctx, h.First, h.Identity, r)
			return err
		}, "", nil
	case h == nil:
		return func() error { return m.Adopt(ctx, id, r) }, "", nil
	}
	return func() error { return m.Restore(ctx, h, id, r) }, "", nil
}

// takeLateRows takes over the rows of a record that the published program has written after its rows were taken over. Otherwise a
// later run would restore the record. It returns the record's head.
func (m *migrator) takeLateRows(ctx context.Context, id index.Identity, r record.Record) (*store.Head, error) {
	if m.dryRun {
		return nil, nil
	}
	sort, _ := r.Get(m.Schema.Sort.Field)
	for _, p := range id.Partitions {
		for _, name := range []string{id.Row, sort + id.Row[strings.LastIndexByte(id.Row, ':'):]} {
			row, found, err := m.Index.Get(ctx, key.Key{Partition: string(p), Row: name})
			if err == nil && found && store.Foreign(row) {
				r := store.ContentOf(row)
				if of, badErr := m.Identify(r); badErr == nil && of.Hash() == id.Hash() {
					err = m.row(ctx, foreignRow{row, id, r})
				}
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return m.ReadHead(ctx, id.First(), id.Hash())
}
