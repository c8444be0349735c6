// Package migrate moves the records of a catalog to another schema. It also takes over the tables of another program, whose
// index rows have the same form; see package catalog. The comments call this other program the published program.
//
// A migration stops all writers, waits until they have noticed the stop, moves the records whose index rows do not fit the
// schema, and ends the stop. Each move is a write in the log, like any other write. Therefore, if a migration dies, each
// record is in its old or its new place, and the next migration continues.
//
// Writers notice the stop within 85 s. The schema's row records the time of the stop, so the next run after an interrupted
// migration need not wait again. A later run with the old settings moves the records back.
//
// Index rows of the published program have version 0. The migration writes the record of such a row into the index rows of the new schema. It deletes
// the old row only when all of these index rows contain the record. The published program does not lower-case RowKeys, so "Twin:…" and "TWIN:…" can
// be two records with one identity. Such records are reported and left unchanged. Two records that would become one record in the new schema are also
// reported and left unchanged.
//
// The published program also has a log, with a checkpoint that names the last entry that the program has carried out. The
// migration carries out the entries after the checkpoint, and moves the checkpoint. For an entry that cannot be carried
// out, it inserts a note into the log's partition "left". Each run tries such an entry again, and reports it until it is
// carried out or deleted.
//
// Stop the published program before the migration. If that program writes during the migration, it may move its
// checkpoint. So the partition "left" also has a mark for the last entry that the migration has handled, and the migration
// carries out all entries after this mark. But the published program may also replace rows that the catalog has written.
// In that case, the next migration takes over the published program's rows, or reports that package check must restore the
// replaced rows.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// Result is the summary of a migration.
type Result struct {
	Moved   int `json:"moved"`   // records whose index rows were written with another schema
	Taken   int `json:"taken"`   // records taken over from another program
	Entries int `json:"entries"` // entries in the published program's log that the migration has carried out
	Removed int `json:"removed"` // rows that were deleted, because in the new schema no record has a row with this key
	Left    int `json:"left"`    // rows, records and entries that were reported and left unchanged
}

// Run moves the catalog to the schema of its options, as the package comment describes. It calls the function `report` for each
// row, record or entry that it leaves unchanged. The calls are never concurrent. Run needs about 150 bytes of memory for each
// record of another program. If dryRun is true, Run does not change anything.
func Run(ctx context.Context, c *catalog.Catalog, dryRun bool, report func(catalog.Finding)) (Result, error) {
	m := &migrator{Catalog: c, dryRun: dryRun, found: report, contents: map[index.IdentityHash]content{}, noted: map[string]wal.ContentHash{}}
	var stopped *storage.Entity
	if !dryRun {
		var err error
		if stopped, err = m.stopWriters(ctx); err != nil {
			return m.sum, err
		}
		if err := m.CompleteAll(ctx); err != nil {
			return m.sum, err
		}
	}
	err := m.begin(ctx)
	if err == nil {
		err = store.EachShard(func(shard store.Shard) error { return m.moveHeads(ctx, shard) })
	}
	for _, step := range []func(context.Context) error{m.survey, m.takeOverRows, m.carryOutEntries} {
		if err == nil {
			err = step(ctx)
		}
	}
	if err == nil && stopped != nil {
		err = m.resumeWriters(ctx, stopped)
	}
	return m.sum, err
}

func (m *migrator) moveHeads(ctx context.Context, shard store.Shard) error {
	return store.Each(ctx, m.Log, shard.Query(store.HeadPrefix), func(ctx context.Context, row storage.Entity) error {
		h, err := store.HeadOf(row)
		if err != nil {
			m.reportLeft(row.Key, "%v", err)
			return nil
		}
		if h.Gone {
			return nil
		}
		all, err := m.Copies(ctx, h.Write)
		if err != nil {
			return err
		}
		at := h.At(h.Partitions[0])
		r, found, err := m.Logged(ctx, h, all)
		if err != nil {
			return err
		}
		if !found {
			m.reportLeft(at, "all of the record's index rows differ from its last write, and the record is no longer in the log; run: tablesweep catalog check")
			return nil
		}
		id, err := m.Identify(r)
		if err != nil {
			m.reportLeft(at, "the record does not fit the schema: %v", err)
			return nil
		}
		if id.Hash() == h.Identity {
			return nil
		}
		did, err := m.attempt(at, func() error { return m.Move(ctx, h, id, r) })
		if did == done {
			m.count(&m.sum.Moved)
		}
		return err
	})
}

func (m *migrator) takeOverRows(ctx context.Context) error {
	return m.Index.All(ctx, storage.Query{}, func(p storage.Page) error {
		g, ctx := task.WithContext(ctx)
		g.SetLimit(store.Parallel)
		for _, rows := range m.byIdentity(p.Entities()) {
			g.Go(func() error {
				for _, row := range rows { // one after another; see takeOverRow
					if err := m.takeOverRow(ctx, row); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return g.Wait()
	})
}

// byIdentity groups the rows of another program by identity. It reports rows that cannot be taken over.
func (m *migrator) byIdentity(rows []storage.Entity) map[index.IdentityHash][]foreignRow {
	all := map[index.IdentityHash][]foreignRow{}
	for _, row := range rows {
		if !store.Foreign(row) {
			continue
		}
		r := store.ContentOf(row)
		id, err := m.Identify(r)
		switch {
		case err != nil:
			m.reportLeft(row.Key, "the row does not contain a record: %v", err)
		case m.contentOf(id).ambiguous:
			m.reportLeft(row.Key, "there are rows with other contents whose index and sort values differ from this row's only in case; change the sort value of one of the records")
		default:
			all[id.Hash()] = append(all[id.Hash()], foreignRow{row, id, r})
		}
	}
	return all
}

type foreignRow struct {
	storage.Entity
	id     index.Identity
	record record.Record
}

// takeOverRow takes over one row of another program: it adopts the record into the log, unless the row's identity already has
// a head, and then calls deleteOriginal. The caller must handle the rows of one identity one after another, so that only the
// first call adopts the record. If another writer is faster, the next run handles the row.
func (m *migrator) takeOverRow(ctx context.Context, row foreignRow) error {
	h, err := m.ReadHead(ctx, row.id.First(), row.id.Hash())
	if err != nil {
		return err
	}
	if h == nil {
		did, err := m.attempt(row.Key, func() error { return m.Adopt(ctx, row.id, row.record) })
		if did != done {
			return err
		}
		m.countTaken(row.id)
	}
	return m.deleteOriginal(ctx, row)
}

// deleteOriginal deletes a row of another program, unless the record has an index row with the same key in our schema.
func (m *migrator) deleteOriginal(ctx context.Context, row foreignRow) error {
	placed := store.WriteFor(row.id).HasRowAt(row.Key)
	if m.dryRun {
		if !placed {
			m.count(&m.sum.Removed)
		}
		return nil
	}
	there, err := m.WrittenEverywhere(ctx, row.id, row.record)
	if err != nil || there && placed {
		return err
	}
	if !there {
		m.reportLeft(row.Key, "the record in the log has other contents than this row, or lacks index rows; run: tablesweep catalog check")
		return nil
	}
	if err := m.DeleteRow(ctx, row.Entity); store.Overtaken(err) {
		return nil
	} else if err != nil {
		return err
	}
	m.count(&m.sum.Removed)
	return nil
}

type migrator struct {
	*catalog.Catalog
	dryRun bool
	found  func(catalog.Finding)
	from   string                     // the RowKey after which the published program's log is read
	noted  map[string]wal.ContentHash // by the RowKey of an entry with a note: the hash of the record that the entry inserts, or "" if it inserts none

	mu  sync.Mutex // guards the fields below
	sum Result
	// contents describes the rows of another program, by identity. Once the method survey has filled contents,
	// only the field content.taken changes.
	contents map[index.IdentityHash]content
}

// content describes the rows that another program wrote for one identity. If these rows differ, ambiguous is true.
type content struct {
	hash      wal.ContentHash
	ambiguous bool
	taken     bool // the record is counted in Result.Taken
}

func (m *migrator) count(n *int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*n++
}

// countTaken counts a record that was taken over, but only once.
func (m *migrator) countTaken(id index.Identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.contents[id.Hash()]
	if !of.taken {
		m.sum.Taken++
	}
	of.taken = true
	m.contents[id.Hash()] = of
}

func (m *migrator) reportLeft(at key.Key, format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum.Left++
	m.found(catalog.Finding{Partition: at.Partition, Row: at.Row, Problem: fmt.Sprintf(format, args...)})
}

type attempted int

const (
	failed attempted = iota
	done
	overtaken  // another writer was faster, perhaps another migration
	impossible // the record was reported and left unchanged
)

// attempt calls the function `do`, which moves one record. The error is nil unless the first result is the constant `failed`.
func (m *migrator) attempt(at key.Key, do func() error) (attempted, error) {
	if m.dryRun {
		return done, nil
	}
	switch err := do(); {
	case err == nil:
		return done, nil
	case errors.Is(err, catalog.ErrRaced):
		return overtaken, nil
	case problem.Status(err) < 500:
		m.reportLeft(at, "the record cannot be moved: %v", err)
		return impossible, nil
	default:
		return failed, err
	}
}

// survey fills m.contents from all rows of another program.
func (m *migrator) survey(ctx context.Context) error {
	return m.Index.All(ctx, storage.Query{}, func(p storage.Page) error {
		for _, row := range p.Entities() {
			if !store.Foreign(row) {
				continue
			}
			r := store.ContentOf(row)
			id, err := m.Identify(r)
			if err != nil {
				continue
			}
			of, known := m.contents[id.Hash()]
			m.contents[id.Hash()] = content{hash: store.HashOf(r), ambiguous: known && (of.ambiguous || of.hash != store.HashOf(r))}
		}
		return nil
	})
}

func (m *migrator) contentOf(id index.Identity) content {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.contents[id.Hash()]
}
