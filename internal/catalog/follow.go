package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// maxHops is how many moves of one record a query follows.
const maxHops = 10

// trail is what a reader has found, and how it keeps records that move while it reads.
type trail struct {
	*Catalog
	plan    plan
	found   []match
	met     []wal.Standing // of rows that are no matches, but may show that a match is out of date
	began   time.Time      // of the first page, see sheet
	date    time.Time      // of the last one
	pages   int            // that were read
	changed bool           // see answer

	ahead    map[key.Key]chase // tombstones that were followed ahead of their turn
	followed int               // records that were found so
}

// chase is what following a tombstone has led to.
type chase struct {
	m    *match // nil if the query does not ask for the record, or it was deleted
	lost bool   // nobody can tell where the record is
}

func newTrail(c *Catalog, p plan) trail {
	return trail{Catalog: c, plan: p, began: p.began, changed: p.after != "" && p.began.IsZero(), ahead: map[key.Key]chase{}}
}

// reads notes that pages were read.
func (t *trail) reads(pages int, began, date time.Time) {
	if t.pages == 0 && t.plan.after == "" {
		t.began = began
	}
	t.pages += pages
	t.date = date
}

// leadsOn reports whether a row is a tombstone whose record may have moved to where the reader has been
// before, or to a partition in which its row is not yet written; or the row has taken the place of such a
// tombstone. several says that several partitions are read.
func (t *trail) leadsOn(row storage.Entity, several bool) bool {
	switch {
	case row.Get(store.NextColumn) == "" && row.Get(store.ReusedColumn) == "":
		return false
	case several:
		return !row.Timestamp.Before(t.began.Add(-applyTime))
	}
	return (t.pages > 1 || t.plan.after != "") && !row.Timestamp.Before(t.began)
}

// moved follows the first of the rows, a tombstone. It also follows some of the next ones, at once.
func (t *trail) moved(ctx context.Context, rows []storage.Entity, several bool) (*match, error) {
	if _, done := t.ahead[rows[0].Key]; !done {
		var some []storage.Entity
		for _, row := range rows {
			if len(some) < store.Parallel && t.leadsOn(row, several) {
				some = append(some, row)
			}
		}
		ends := make([]chase, len(some))
		g, ctx := task.WithContext(ctx)
		for i, row := range some {
			g.Go(func() (err error) {
				ends[i], err = t.follow(ctx, row)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		for i, row := range some {
			t.ahead[row.Key] = ends[i]
		}
	}
	end := t.ahead[rows[0].Key]
	switch {
	case end.lost && rows[0].Timestamp.Before(t.began): // the move from there has ended long ago
	case end.lost && t.plan.after == "":
		return nil, t.busy()
	case end.lost:
		t.changed = true // asked again by the same cursor, it would still be lost
	case end.m != nil:
		t.followed++
		t.met = append(t.met, end.m.state)
	}
	return end.m, nil
}

// follow goes from a tombstone of a record that has moved to where the record is now: a request for each
// move, and one for the record.
func (t *trail) follow(ctx context.Context, row storage.Entity) (chase, error) {
	if row.Get(store.ReusedColumn) != "" {
		return chase{lost: true}, nil
	}
	var at, line wal.Past
	if store.Decode(row.Get(store.NextColumn), &at) != nil || store.Decode(row.Get(store.LineColumn), &line) != nil {
		return chase{lost: true}, nil // somebody has changed it
	}
	for hops := maxHops; ; {
		h, lost, err := t.trace(ctx, row.Get(store.FirstColumn), at, line, &hops)
		if err != nil || h == nil {
			return chase{lost: lost}, err
		}
		r, found, err := t.contents(ctx, h)
		if err != nil {
			return chase{}, err
		}
		if !found { // overtaken: it has moved again
			at = wal.Past{Identity: h.Identity, Version: h.Version}
			continue
		}
		id, err := t.Identify(r)
		if err != nil || !t.plan.wants(id) {
			return chase{}, nil
		}
		return chase{m: &match{record: r, id: id, version: h.Version, state: wal.Standing{Identity: h.Identity, Version: h.Version, Line: h.Line}}}, nil
	}
}

// trace goes from where a record has moved to, in a line of writes, to the live head of where it is: nil if it was deleted, or lost: nobody
// can tell any more. It takes a request for each move, which it takes off hops.
func (c *Catalog) trace(ctx context.Context, first string, at, line wal.Past, hops *int) (h *store.Head, lost bool, err error) {
	for *hops > 0 {
		*hops--
		h, err := c.ReadHead(ctx, first, at.Identity)
		switch {
		case err != nil || h == nil: // deleted a day ago
			return nil, false, err
		case h.Line == nil || *h.Line != line: // another record has this place by now
			return nil, true, nil
		case h.Next != nil:
			at = *h.Next
		case h.Gone:
			return nil, false, nil
		default:
			return h, false, nil
		}
	}
	return nil, true, nil
}

// add adds a match, unless a newer write of its identity was found.
func (t *trail) add(m match) {
	if t.followed > 0 && m.state.Identity != "" { // a record may be met in its place, too
		if i := slices.IndexFunc(t.found, func(f match) bool { return f.state.Identity == m.state.Identity }); i >= 0 {
			if t.found[i].version < m.version {
				t.found[i] = m
			}
			return
		}
	}
	t.found = append(t.found, m)
}

// answer returns what was found.
func (t *trail) answer() answer {
	return answer{found: t.found, changed: t.changed, followed: t.followed}
}

// end ends the reading: records that were found in two places are found in the newer one, and changed
// is true if tombstones were cleared away that may be younger than the first page.
func (t *trail) end(ctx context.Context) error {
	if t.followed > 0 {
		t.found, _ = newestOnly(t.found, nil, t.met)
		slices.SortStableFunc(t.found, func(a, b match) int {
			if len(t.plan.keys) == 0 { // a list
				return cmp.Or(key.Compare(a.id.Partitions[0], b.id.Partitions[0]), key.Compare(a.id.Row, b.id.Row))
			}
			return key.Compare(a.id.Row, b.id.Row)
		})
	}
	age := t.date.Sub(t.began)
	if t.changed || t.plan.after == "" || age < tombstoneAge {
		return nil
	}
	t.changed = age >= clearAfter-time.Minute
	err := t.Log.All(ctx, store.PrefixQuery(store.ClearedPartition, ""), func(p storage.Page) error {
		for _, row := range p.Entities {
			t.changed = t.changed || !row.Timestamp.Add(-tombstoneAge).Before(t.began)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("catalog %s: %w", t.Name, err)
	}
	return nil
}

// contents returns the record of a live head. found is false if a later write has overtaken it.
func (c *Catalog) contents(ctx context.Context, h *store.Head) (r record.Record, found bool, err error) {
	row, found, err := c.Index.Get(ctx, key.Key{Partition: h.Partitions[0], Row: h.Row})
	if err == nil && (!found || row.Get(store.IdentityColumn) != h.Identity || row.Int(store.VersionColumn) != h.Version) {
		// A write is under way. Its entry has the record.
		row, found, err = c.Recorded(ctx, store.ShardOf(h.First), h.Entry)
	}
	if err != nil || !found {
		return record.Record{}, false, err
	}
	r = record.FromProperties(row.Properties)
	return r, r.Hash() == h.Content, nil
}

// newestOnly drops the matches that are out of date: a newer write of the same record is
// among the rows or the met ones. old says which of the rows are out of date.
func newestOnly(found []match, rows, met []wal.Standing) (kept []match, old []bool) {
	all := make([]wal.Standing, 0, len(found)+len(rows)+len(met))
	for _, m := range found {
		all = append(all, m.state)
	}
	old = wal.Superseded(append(append(all, rows...), met...))
	for i, m := range found {
		if !old[i] {
			kept = append(kept, m)
		}
	}
	return kept, old[len(found):]
}
