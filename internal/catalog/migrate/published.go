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

// Names in the log of the published program. The program carries out the log's entries in the order of their RowKeys. The log
// also has a checkpoint, which contains the RowKey of the last entry that the program has carried out.
const (
	publishedPartition = "wal"
	publishedDateTime  = "datetime"
	publishedDelete    = "delete"
)

var publishedCheckpoint = key.Key{Partition: "metadata", Row: "checkpoint"}

// In the log's partition leftPartition, the migration notes the entries that it could not carry out. A note has the entry's
// RowKey and, for an insertion, the hash of the entry's record. The row takenMark contains the RowKey of the last entry that the
// migration has carried out or noted. The migration does not rely on the published program's checkpoint, because that program
// may move the checkpoint during the migration.
const (
	leftPartition = "left"
	leftContent   = "Content"
)

var takenMark = key.Key{Partition: leftPartition}

// begin determines the RowKey after which the published program's log is read. It also records this RowKey, before any row is
// taken over.
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
		return nil // most likely the published program has no log here
	}
	return m.moveMark(ctx, m.from)
}

// moveMark moves the mark to the entry with this RowKey. All entries up to this entry must have been carried out or noted.
func (m *migrator) moveMark(ctx context.Context, row string) error {
	return m.write(ctx, storage.Op{Kind: storage.Replace, Row: storage.Entity{Key: takenMark, Properties: []storage.Property{storage.StringProperty(publishedDateTime, row)}}.Row()})
}

// carryOutEntries first retries the entries that have notes from earlier runs. If such an entry is carried out now, or is no
// longer in the log, carryOutEntries deletes the entry's note. Then it carries out the published program's entries after the
// mark (takenMark), one by one. If an entry cannot be carried out, carryOutEntries inserts a note for the entry. After each
// entry, it moves the mark, and after the last entry, it also moves the checkpoint.
func (m *migrator) carryOutEntries(ctx context.Context) error {
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
			if _, noted := m.noted[row.Key.Row]; !noted { // if noted is true, an earlier run has made the note, but died before it moved the mark
				carried := !key.Less(checkpoint.Get(publishedDateTime), row.Key.Row)
				if err := m.tryFirst(ctx, row, carried); err != nil {
					return err
				}
			}
			if err := m.moveMark(ctx, row.Key.Row); err != nil {
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

func (m *migrator) retryLeft(ctx context.Context, row string) error {
	if _, noted := m.noted[row]; !noted { // a later entry has deleted the record, so this entry is settled
		return nil
	}
	entry, found, err := m.Log.Get(ctx, key.Key{Partition: publishedPartition, Row: row})
	settled := !found
	if err == nil && found {
		settled, err = m.carryOut(ctx, entry, false)
	}
	if err != nil || !settled {
		return err
	}
	return m.deleteNote(ctx, row)
}

// tryFirst calls carryOut for an entry that has no note yet. If carryOut does not settle the entry, tryFirst inserts a note. The
// argument `carried` is true if the published program has already carried out the entry.
func (m *migrator) tryFirst(ctx context.Context, row storage.Entity, carried bool) error {
	settled, err := m.carryOut(ctx, row, carried)
	if err != nil || settled {
		return err
	}
	var content wal.ContentHash
	if row.Get(store.PublishedOperation) == store.PublishedInsert {
		content = store.HashOf(publishedRecord(row))
	}
	m.noted[row.Key.Row] = content
	return m.write(ctx, storage.Op{Kind: storage.Replace, Row: storage.Entity{
		Key: key.Key{Partition: leftPartition, Row: row.Key.Row}, Properties: []storage.Property{storage.StringProperty(leftContent, string(content))},
	}.Row()})
}

func (m *migrator) deleteNote(ctx context.Context, row string) error {
	delete(m.noted, row)
	err := m.write(ctx, storage.Op{Kind: storage.Delete, IfMatch: "*", Row: storage.Row{Key: key.Key{Partition: leftPartition, Row: row}}})
	if storage.NotFound(err) { // another migration has deleted the note
		return nil
	}
	return err
}

// moveCheckpoint moves the checkpoint to the entry with this RowKey, unless the published program has already moved it
// farther.
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
		if err := m.write(ctx, op); !store.Overtaken(err) {
			return err
		}
	}
}

// write carries out an operation on the log, except in a dry run.
func (m *migrator) write(ctx context.Context, op storage.Op) error {
	if m.dryRun {
		return nil
	}
	return m.Log.Write(ctx, op)
}

func publishedRecord(row storage.Entity) record.Record {
	return store.Without(record.FromProperties(row.Properties), store.PublishedOperation)
}

// carryOut carries out one entry in the log of the published program (see the package comment). If this is impossible,
// carryOut reports the entry, and returns false. If `carried` is true, the published program has already carried out the
// entry, and later writes may have replaced its result. So if `carried` is true, and the entry contains no record or decide
// returns a reason, carryOut reports nothing, and returns true. But if the catalog refuses the write, carryOut reports the entry,
// and returns false.
func (m *migrator) carryOut(ctx context.Context, row storage.Entity, carried bool) (settled bool, err error) {
	r := publishedRecord(row)
	id, err := m.Identify(r)
	if err != nil && carried {
		return true, nil
	}
	if err != nil {
		m.reportLeft(row.Key, "the log entry does not contain a record; correct or delete the entry: %v", err)
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

// decide returns a function that carries out an entry. The argument r is the entry's record. If the entry cannot be carried
// out, the function is nil, and the result `left` is the reason. If the entry needs no work, the function is nil, and left is
// "".
func (m *migrator) decide(ctx context.Context, row storage.Entity, id index.Identity, r record.Record) (do func() error, left string, err error) {
	operation := row.Get(store.PublishedOperation)
	if operation != store.PublishedInsert && operation != publishedDelete {
		return nil, fmt.Sprintf("the log entry has the unknown operation %q; correct or delete the entry", operation), nil
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
			if content == store.HashOf(r) && key.Less(noted, row.Key.Row) { // the earlier entry that inserts the record was never carried out, so there is nothing to delete
				return nil, "", m.deleteNote(ctx, noted)
			}
		}
	}
	switch {
	case m.contentOf(id).ambiguous || live && h.Content != store.HashOf(r):
		return nil, "there is a record with other contents whose index and sort values differ from the log entry only in case; change the sort value of one of the two, or delete the entry", nil
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

// takeLateRows is called for a log entry that deletes the record r. If the published program has written rows of r since the
// migration read the index, takeLateRows takes over these rows. If the rows stayed, a later run would find them and restore r.
// The result is the record's head.
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
					err = m.takeOverRow(ctx, foreignRow{row, id, r})
				}
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return m.ReadHead(ctx, id.First(), id.Hash())
}
