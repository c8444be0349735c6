package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// Finding is something that is wrong with a catalog.
type Finding struct {
	Partition string `json:"partition"`
	Row       string `json:"row"`
	Problem   string `json:"problem"`
	Repaired  bool   `json:"repaired"`
}

// Checked sums up a check.
type Checked struct {
	Records   int `json:"records"`   // that the log knows
	Rows      int `json:"rows"`      // of the index table
	Untracked int `json:"untracked"` // rows of records that the log doesn't know, such as another program's
	Pending   int `json:"pending"`   // entries in the log
	Problems  int `json:"problems"`  // findings
	Repaired  int `json:"repaired"`  // of the problems
}

// checker is a check under way.
type checker struct {
	*Catalog
	repair bool
	found  func(Finding)

	mu  sync.Mutex
	sum Checked
}

// Check compares the index rows with each other and with the log, and calls found
// for what is wrong; found is not called concurrently. Writes that are under way are
// not wrong. It reads the index and the heads once and, if they differ, once more, with
// a few requests for each record that differs. A catalog that another
// program wrote, or that has another schema, is a Conflict: see [Catalog.Migrate].
//
// With repair, it makes all rows of a record those of its newest write. It may be
// broken off, and run again.
func (c *Catalog) Check(ctx context.Context, repair bool, found func(Finding)) (Checked, error) {
	k := &checker{Catalog: c, repair: repair, found: found}
	if err := c.Writable(ctx); err != nil {
		return k.sum, err
	}
	if repair {
		if _, err := c.recover(ctx, time.Time{}); err != nil {
			return k.sum, err
		}
	}
	if err := c.eachShard(func(shard string) error { return k.entries(ctx, shard) }); err != nil {
		return k.sum, err
	}
	suspect, err := k.compare(ctx)
	if err != nil || suspect == nil {
		return k.sum, err
	}
	// Heads first: what they know is in place when the rows are looked at.
	if err := c.eachShard(func(shard string) error { return k.heads(ctx, shard, suspect) }); err != nil {
		return k.sum, err
	}
	return k.sum, k.rows(ctx, suspect)
}

// count changes the sum, and reports a finding unless it is empty.
func (k *checker) count(f Finding, change func(*Checked)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(&k.sum)
	if f.Problem != "" {
		k.sum.Problems++
		if f.Repaired {
			k.sum.Repaired++
		}
		k.found(f)
	}
}

// report counts a finding.
func (k *checker) report(at key.Key, repaired bool, format string, args ...any) {
	k.count(Finding{at.Partition, at.Row, fmt.Sprintf(format, args...), repaired}, func(*Checked) {})
}

// entries counts the log's entries, and reports those that are parked.
func (k *checker) entries(ctx context.Context, shard string) error {
	return k.Log.All(ctx, prefixQuery(shard, entryPrefix), func(p storage.Page) error {
		for _, row := range p.Entities {
			k.count(Finding{}, func(s *Checked) { s.Pending++ })
			if reason := row.Get(parkedColumn); reason != "" {
				k.report(row.Key, false, "an entry of the log can't be applied: %s", reason)
			}
		}
		return nil
	})
}

// heads checks the index rows of every suspect record that the log knows.
func (k *checker) heads(ctx context.Context, shard string, suspect func(identity string) bool) error {
	return k.each(ctx, k.Log, prefixQuery(shard, headPrefix), func(ctx context.Context, row storage.Entity) error {
		h, err := headOf(row)
		if err != nil || h.Gone || !suspect(h.Identity) {
			return nil // what can't be read is reported
		}
		return k.head(ctx, h)
	})
}

// each calls fn for every row of the query, several at once.
func (c *Catalog) each(ctx context.Context, t *storage.Table, q storage.Query, fn func(context.Context, storage.Entity) error) error {
	return t.All(ctx, q, func(p storage.Page) error {
		g, ctx := task.WithContext(ctx)
		g.SetLimit(parallel)
		for _, row := range p.Entities {
			g.Go(func() error { return fn(ctx, row) })
		}
		return g.Wait()
	})
}

// copyOf is what was found where an index row should be.
type copyOf struct {
	at     key.Key
	row    storage.Entity
	slot   slot
	record record.Record
}

// copies reads the rows where the write's record should be.
func (c *Catalog) copies(ctx context.Context, w wal.Write) ([]copyOf, error) {
	all := make([]copyOf, len(w.Partitions))
	g, ctx := task.WithContext(ctx)
	for i, p := range w.Partitions {
		g.Go(func() error {
			at := key.Key{Partition: p, Row: w.Row}
			row, found, err := c.Index.Get(ctx, at)
			all[i] = copyOf{at: at, row: row}
			if found {
				all[i].slot, all[i].record = c.slotOf(row), record.FromProperties(row.Properties)
			}
			return err
		})
	}
	return all, g.Wait()
}

// good reports whether the row is what the head's newest write made.
func (x copyOf) good(h *head) bool {
	return x.ours(h) && x.slot.Version == h.Version && x.record.Hash() == h.Content
}

// ours reports whether the row holds a record of the head's identity.
func (x copyOf) ours(h *head) bool {
	return x.slot.Exists && !x.slot.Gone && x.slot.Identity == h.Identity
}

// head checks the rows of one record.
func (k *checker) head(ctx context.Context, h *head) error {
	all, err := k.copies(ctx, h.Write)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(x copyOf) bool { return !x.good(h) }) {
		if changing, err := k.changing(ctx, h); changing || err != nil {
			return err
		}
		// What was read may be what a write has replaced that has ended meanwhile.
		if all, err = k.copies(ctx, h.Write); err != nil {
			return err
		}
	}
	best := slices.IndexFunc(all, func(x copyOf) bool { return x.slot.Exists && !x.slot.Gone && x.record.Hash() == h.Content })
	if best >= 0 {
		id, err := k.identify(all[best].record)
		if err != nil {
			k.report(all[best].at, false, "the record does not fit the schema: %v", err)
			return nil
		}
		if id.Hash() != h.Identity {
			k.report(all[best].at, false, "the record stands where another schema wants it: move it by: handler catalog migrate")
			return nil
		}
	}
	if best < 0 {
		return k.rewrite(ctx, h, all)
	}
	for _, x := range all {
		if !x.good(h) {
			if err := k.mend(ctx, h, x, all[best].record); err != nil {
				return err
			}
		}
	}
	return nil
}

// changing reports whether the record is being written.
func (k *checker) changing(ctx context.Context, h *head) (bool, error) {
	_, pending, err := k.Log.Get(ctx, key.Key{Partition: shardOf(h.First), Row: entryPrefix + h.Entry})
	if pending || err != nil {
		return true, err
	}
	now, err := k.readHead(ctx, h.First, h.Identity)
	return now == nil || now.etag != h.etag, err
}

// mend makes one row what it should be.
func (k *checker) mend(ctx context.Context, h *head, x copyOf, r record.Record) error {
	what := "the index row is missing"
	op := storage.Op{Kind: storage.Insert, Entity: indexRow(h.Write, x.at.Partition, r)}
	if x.slot.Exists {
		if x.slot.Identity != h.Identity {
			k.report(x.at, false, "another record has this row's key: change the sort value of one of the two")
			return nil
		}
		if x.slot.Version > h.Version {
			if changing, err := k.changing(ctx, h); changing || err != nil {
				return err
			}
			k.report(x.at, false, "the index row is newer than the log knows: was the log set back?")
			return nil
		}
		what = "the index row differs from the record's others"
		op.Kind, op.IfMatch = storage.Replace, x.slot.etag
	}
	return k.repairing(x.at, what, func() error {
		if op.Kind == storage.Insert && h.Sure { // an insertion depends on no row, and may come late
			if err := k.Log.Write(ctx, doubt(shardOf(h.First), h.Write, h.etag)); err != nil {
				return err
			}
			h.Sure = false
		}
		return k.Index.Write(ctx, op)
	})
}

// errRaced means that a repair was overtaken by a writer, and nothing was done.
var errRaced = errors.New("overtaken")

// repairing reports a finding, after its repair if repair is asked for.
func (k *checker) repairing(at key.Key, what string, repair func() error) error {
	if !k.repair {
		k.report(at, false, "%s", what)
		return nil
	}
	switch err := repair(); {
	case err == nil:
		k.report(at, true, "%s", what)
	case overtaken(err), errors.Is(err, errRaced): // it changes at this moment
	case problem.Status(err) < 500:
		k.report(at, false, "%s, and can't be repaired: %v", what, err)
	default:
		return err
	}
	return nil
}

// rewrite handles a record of which no row is as it should be: the newest there is
// becomes the record.
func (k *checker) rewrite(ctx context.Context, h *head, all []copyOf) error {
	at := key.Key{Partition: h.Partitions[0], Row: h.Row}
	all = slices.DeleteFunc(slices.Clone(all), func(x copyOf) bool { return !x.ours(h) })
	if len(all) == 0 {
		k.report(at, false, "the record has lost all its index rows: if it was written lately, get it back by: handler catalog recover --since TIME")
		return nil
	}
	newest := newestOf(all)
	return k.repairing(at, "none of the record's index rows is as it was last written", func() error {
		return unlessRaced(k.replace(ctx, h, h.Write, newest.record))
	})
}

func unlessRaced(_ Written, raced bool, err error) error {
	if raced {
		return errRaced
	}
	return err
}

func newestOf(all []copyOf) copyOf {
	return slices.MaxFunc(all, func(a, b copyOf) int { return a.row.Timestamp.Compare(b.row.Timestamp) })
}
