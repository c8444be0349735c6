// Package migrate moves the records of a catalog to another schema, and takes over the tables of the published program.
//
// It stops all writers, waits until they have noticed, moves the records whose places differ from the schema, and lets writers in
// again. Every record moves by a write of the log, like any other. Therefore a migration that dies leaves each record in its old
// or its new place, and the next one continues.
//
// Writers notice within 85 s. The schema's row records the time since which they have been stopped. Therefore an interrupted
// migration continues at once, or goes back if it is run with the old settings.
//
// Index rows of the published program have version 0. Such a row is deleted only when its content is in all places of its record.
// Rows of one identity with different contents are reported and left unchanged: the published program does not lower-case
// RowKeys, so "Twin:…" and "TWIN:…" can be two records. If two records would become one in the new schema, they are also reported
// and left unchanged.
//
// The entries after the checkpoint of the published log are carried out, and the checkpoint moves on. An entry that cannot be
// carried out gets a note in the log's partition "left". Each run tries it again, and reports it until it is carried out or
// deleted. Therefore every run reports all remaining entries.
//
// The published program should be stopped. If it writes during the migration, nothing in its log is lost, because the partition
// has a mark of its own, and entries after the mark count even if the program has moved the checkpoint. But its rows may replace
// ours. Another run takes them over, or says that package check must restore ours.
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
	Moved   int `json:"moved"`   // records placed by another schema
	Taken   int `json:"taken"`   // records taken over from another program
	Entries int `json:"entries"` // entries that the published program had not carried out
	Removed int `json:"removed"` // rows in places where their records have no row
	Left    int `json:"left"`    // problems: rows and records left unchanged
}

// Run changes the catalog to our schema, as the package comment describes. It calls found for everything that it leaves
// unchanged, never concurrently. It needs about 150 bytes of memory for each record of another program. If dryRun is true, it
// changes nothing.
func Run(ctx context.Context, c *catalog.Catalog, dryRun bool, found func(catalog.Finding)) (Result, error) {
	m := &migrator{Catalog: c, dryRun: dryRun, found: found, contents: map[index.IdentityHash]content{}, noted: map[string]wal.ContentHash{}}
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
		err = store.EachShard(func(shard store.Shard) error { return m.heads(ctx, shard) })
	}
	for _, step := range []func(context.Context) error{m.survey, m.rows, m.entries} {
		if err == nil {
			err = step(ctx)
		}
	}
	if err == nil && stopped != nil {
		err = m.resumeWriters(ctx, stopped)
	}
	return m.sum, err
}

// heads moves the shard's records that have a head.
func (m *migrator) heads(ctx context.Context, shard store.Shard) error {
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
			m.reportLeft(at, "all of the record's index rows differ from its last write, and it is no longer in the log; run: tablesweep catalog check")
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

// rows takes over the index rows that another program wrote.
func (m *migrator) rows(ctx context.Context) error {
	return m.Index.All(ctx, storage.Query{}, func(p storage.Page) error {
		g, ctx := task.WithContext(ctx)
		g.SetLimit(store.Parallel)
		for _, rows := range m.byIdentity(p.Entities()) {
			g.Go(func() error {
				for _, row := range rows { // in order, because the first is adopted
					if err := m.row(ctx, row); err != nil {
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
			m.reportLeft(row.Key, "the row does not hold a record: %v", err)
		case m.contentOf(id).ambiguous:
			m.reportLeft(row.Key, "there are rows with other contents whose index and sort values differ only in case; change the sort value of one of the records")
		default:
			all[id.Hash()] = append(all[id.Hash()], foreignRow{row, id, r})
		}
	}
	return all
}

// foreignRow is a row of another program, and its record.
type foreignRow struct {
	storage.Entity
	id     index.Identity
	record record.Record
}

// row takes over one row of another program. If its identity has no head, the record is adopted into the log. Then the row is
// deleted, unless it is in the place of our row. Rows of one identity must be handled one after another, because the first adopts
// the record. If another writer overtakes it, the row is left to the next run.
func (m *migrator) row(ctx context.Context, row foreignRow) error {
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
	return m.original(ctx, row)
}

// original deletes a row of another program if our schema has no row in its place.
func (m *migrator) original(ctx context.Context, row foreignRow) error {
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
		m.reportLeft(row.Key, "the record in the log has other contents, or lacks rows; run: tablesweep catalog check")
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

// migrator is a running migration.
type migrator struct {
	*catalog.Catalog
	dryRun bool
	found  func(catalog.Finding)
	from   string                     // the RowKey after which the published log is read
	noted  map[string]wal.ContentHash // notes of remaining entries, by RowKey, with the hash of an insertion's record

	mu  sync.Mutex // guards the fields below
	sum Result
	// contents has the content of each identity of another program's rows, by the identity's hash. After survey, only the field
	// taken of these changes.
	contents map[index.IdentityHash]content
}

// content is the content of an identity's rows.
type content struct {
	hash      wal.ContentHash
	ambiguous bool
	taken     bool // the record is counted in Result.Taken
}

// count adds one to a number of the summary.
func (m *migrator) count(n *int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*n++
}

// countTaken counts a record that was taken over, once.
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

// reportLeft reports a row or record that is left unchanged.
func (m *migrator) reportLeft(at key.Key, format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum.Left++
	m.found(catalog.Finding{Partition: at.Partition, Row: at.Row, Problem: fmt.Sprintf(format, args...)})
}

// attempted is the result of an attempt to move a record.
type attempted int

const (
	failed attempted = iota
	done
	overtaken  // perhaps by another migration
	impossible // the record is reported as left unchanged
)

// attempt calls the function do, which moves one record. It returns an error only with the result failed.
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
		m.reportLeft(at, "it can't be moved: %v", err)
		return impossible, nil
	default:
		return failed, err
	}
}

// survey collects the content of all rows of another program, by identity.
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

// contentOf returns the content recorded by survey.
func (m *migrator) contentOf(id index.Identity) content {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.contents[id.Hash()]
}
