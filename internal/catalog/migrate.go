package catalog

import (
	"context"
	"slices"
	"time"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// Migrated is the summary of a migration.
type Migrated struct {
	Moved   int `json:"moved"`   // records that another schema had placed
	Taken   int `json:"taken"`   // records of another program that were taken over
	Entries int `json:"entries"` // entries of the published program's log that it had not carried out
	Removed int `json:"removed"` // rows in places where their records have none
	Left    int `json:"left"`    // findings: rows and records that stay as they were
}

// Migrate changes the catalog to our schema: it moves the records that another schema has
// placed, and takes over the index rows and the log of the published program. It calls
// found for everything that it leaves as it was, never concurrently. It deletes a row only
// when all places of its record hold the row's content. It needs about 100 bytes of memory
// for each record that another program wrote.
//
// Meanwhile, writes and queries with another schema are refused. Before it moves anything,
// it waits a minute and a half until all processes have noticed. If it is interrupted, run
// it again to go on, or run it with the old schema to take it back. With dryRun it changes
// nothing.
func (c *Catalog) Migrate(ctx context.Context, dryRun bool, found func(Finding)) (Migrated, error) {
	m := &migrator{Catalog: c, dryRun: dryRun, found: found, contents: map[identityHash]content{}}
	var stopped *storage.Entity
	if !dryRun {
		var err error
		if stopped, err = c.stopWriters(ctx); err != nil {
			return m.sum, err
		}
		if _, err := c.recover(ctx, time.Time{}); err != nil {
			return m.sum, err
		}
	}
	err := c.eachShard(func(shard string) error { return m.heads(ctx, shard) })
	for _, part := range []func(context.Context) error{m.survey, m.rows, m.entries} {
		if err == nil {
			err = part(ctx)
		}
	}
	if err == nil && stopped != nil {
		err = c.letIn(ctx, stopped)
	}
	return m.sum, err
}

// heads moves the shard's records that have a head.
func (m *migrator) heads(ctx context.Context, shard string) error {
	return m.each(ctx, m.Log, prefixQuery(shard, headPrefix), func(ctx context.Context, row storage.Entity) error {
		h, err := headOf(row)
		if err != nil {
			m.leave(row.Key, "%v", err)
			return nil
		}
		if h.Gone {
			return nil
		}
		all, err := m.copies(ctx, h.Write)
		if err != nil {
			return err
		}
		best := slices.IndexFunc(all, func(x copyOf) bool { return x.slot.Exists && !x.slot.Gone && x.record.Hash() == h.Content })
		if best < 0 {
			return nil // Check reports it
		}
		id, err := m.identify(all[best].record)
		if err != nil {
			m.leave(all[best].at, "the record does not fit the schema: %v", err)
			return nil
		}
		if id.Hash() == h.Identity {
			return nil
		}
		done, err := m.attempt(all[best].at, func() error { return m.move(ctx, h, id, all[best].record) })
		if done {
			m.count(func(s *Migrated) { s.Moved++ })
		}
		return err
	})
}

// move moves a record to the places of our schema.
func (m *migrator) move(ctx context.Context, h *head, id index.Identity, r record.Record) error {
	w := writeFor(id)
	if shardOf(h.First) == shardOf(w.First) {
		_, raced, err := m.replace(ctx, h, w, r)
		return unlessRaced(raced, err)
	}
	target, err := m.readHead(ctx, w.First, w.Identity)
	switch {
	case err != nil:
		return err
	case target != nil && !target.Gone && target.Content != r.Hash():
		return m.taken(w.Row)
	case target == nil || target.Gone:
		w = wal.Succeed(h.state(), target.state(), w, m.Now())
		if err := unlessRaced(m.enter(ctx, r, headUpdate{target, w, r.Hash()}, "")); err != nil {
			return err
		}
	}
	_, err = m.remove(ctx, h.First, h.Identity, r, Condition{})
	return err
}

// rows takes over the index rows that another program wrote.
func (m *migrator) rows(ctx context.Context) error {
	return m.Index.All(ctx, storage.Query{}, func(p storage.Page) error {
		g, ctx := task.WithContext(ctx)
		g.SetLimit(parallel)
		for _, rows := range m.byIdentity(p.Entities) {
			g.Go(func() error {
				for _, row := range rows { // in turn: the first is adopted
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

// byIdentity groups the rows that another program wrote by identity. It reports those that
// it can't take over.
func (m *migrator) byIdentity(rows []storage.Entity) map[identityHash][]foreignRow {
	all := map[identityHash][]foreignRow{}
	for _, row := range rows {
		if !foreign(row) {
			continue
		}
		r := contentOf(row)
		id, err := m.identify(r)
		switch {
		case err != nil:
			m.leave(row.Key, "the row does not hold a record: %v", err)
		case m.contentOf(id).ambiguous:
			m.leave(row.Key, "there are rows whose index and sort values differ in case only, with other contents; change the sort value of one of the records")
		default:
			all[hashOf(id)] = append(all[hashOf(id)], foreignRow{row, id, r})
		}
	}
	return all
}

// foreignRow is a row that another program wrote, and its record.
type foreignRow struct {
	storage.Entity
	id     index.Identity
	record record.Record
}

// row takes over one row.
func (m *migrator) row(ctx context.Context, row foreignRow) error {
	h, err := m.readHead(ctx, row.id.First(), row.id.Hash())
	if err != nil {
		return err
	}
	if h == nil {
		done, err := m.attempt(row.Key, func() error { return m.adopt(ctx, row.id, row.record) })
		if err != nil || !done {
			return err
		}
		m.count(func(s *Migrated) {
			of := m.contents[hashOf(row.id)]
			if !of.taken {
				s.Taken++
			}
			of.taken = true
			m.contents[hashOf(row.id)] = of
		})
	}
	return m.original(ctx, row)
}

// original deletes a row of another program if our schema has none in its place.
func (m *migrator) original(ctx context.Context, row foreignRow) error {
	placed := row.Key.Row == row.id.Row && slices.Contains(row.id.Partitions, row.Key.Partition)
	if m.dryRun {
		if !placed {
			m.count(func(s *Migrated) { s.Removed++ })
		}
		return nil
	}
	there, err := m.standsEverywhere(ctx, row.id, row.record)
	if err != nil || there && placed {
		return err
	}
	if !there {
		m.leave(row.Key, "the record in the log has other contents, or lacks rows; run: handler catalog check")
		return nil
	}
	if err := m.deleteRow(ctx, row.Entity); overtaken(err) {
		return nil
	} else if err != nil {
		return err
	}
	m.count(func(s *Migrated) { s.Removed++ })
	return nil
}
