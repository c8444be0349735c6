package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// deleteTime is how long a deletion of many begins further records: hosts give a call some minutes.
const deleteTime = 100 * time.Second

// Deleted is what a deletion has done.
type Deleted struct {
	Records int  `json:"deleted"`
	More    bool `json:"more,omitzero"` // the time was over: the same call goes on

	// After an error, of the others that were found:
	committed int // the index rows are not all written yet
	unknown   int // perhaps committed: the answer was lost
	waiting   int // not started
}

// Told says after an error what was done, "" if nothing was found.
func (d Deleted) Told() string {
	all := d.Records + d.committed + d.unknown + d.waiting
	if all == 0 {
		return ""
	}
	text := fmt.Sprintf("of %d records found, %d were deleted", all, d.Records)
	add := func(n int, format string) {
		if n > 0 {
			text += fmt.Sprintf(format, n)
		}
	}
	add(d.committed, ", the deletion of %d is committed and will be completed")
	add(d.unknown, ", the deletion of %d may be committed")
	add(d.waiting, ", the deletion of %d was not started")
	return text + "; the same call goes on"
}

// Delete deletes all records that the query finds. It also completes deletions and moves that a
// crash has left half done. After deleteTime it returns More, with at least one record deleted. After
// an error, [Deleted.Told] says what was done; a retry goes on. With a condition, the query must
// find only one record; with an ID, that record must exist. The query's Top and Cursor must not be
// set. noted, unless nil, gets the number of deleted records whenever it has grown.
func (c *Catalog) Delete(ctx context.Context, q Lookup, on Condition, noted func(records int)) (Deleted, error) {
	if err := c.Writable(ctx); err != nil {
		return Deleted{}, err
	}
	if q.ID != "" || len(on.Match)+len(on.Differ) > 0 {
		return c.deleteOne(ctx, q, on)
	}
	p, err := c.plan(q)
	if err != nil {
		return Deleted{}, err
	}
	x := deleting{Catalog: c, plan: p, start: c.now(), noted: noted}
	q.Top = MaxTop
	for range maxRaces {
		if again, err := x.pass(ctx, q); err != nil || !again {
			return x.done, err
		}
	}
	return x.done, c.busy()
}

// deleting is a deletion of many records.
type deleting struct {
	*Catalog
	plan  plan
	start time.Time
	noted func(records int)
	heads map[string]*store.Head // by identity: those of the query's first index value that were not met

	mu     sync.Mutex
	done   Deleted
	behind bool  // rows or heads were met whose records are gone or have moved
	err    error // the first; nothing more begins then
}

// pass deletes what the query finds, page by page. It returns again if a record may have moved past
// the search.
func (x *deleting) pass(ctx context.Context, q Lookup) (again bool, err error) {
	x.behind = false
	if err := x.readHeads(ctx); err != nil {
		return false, err
	}
	for more := true; more; more = q.Cursor != "" {
		gone := map[string][]string{} // identities of tombstones met, by shard
		found, next, err := x.find(ctx, q, func(row storage.Entity) {
			shard := store.ShardOf(row.Get(store.FirstColumn))
			gone[shard] = append(gone[shard], row.Get(store.IdentityColumn))
		})
		if err != nil {
			return false, err
		}
		var g task.Group
		g.SetLimit(bulkWriters)
		for _, m := range found {
			hash := m.id.Hash()
			h := x.heads[hash]
			delete(x.heads, hash)
			g.Go(func() error { return x.one(func() (bool, error) { return x.removeFound(ctx, h, m) }) })
		}
		if next == "" { // no row shows these yet
			for _, h := range x.heads {
				g.Go(func() error { return x.one(func() (bool, error) { return x.removeUnseen(ctx, h) }) })
			}
		}
		for shard, identities := range gone {
			g.Go(func() error {
				_, err := x.completeAll(ctx, shard, func(w wal.Write) bool { return w.Gone && slices.Contains(identities, w.Identity) })
				return err
			})
		}
		if err := cmp.Or(g.Wait(), x.err); err != nil {
			return false, err
		}
		if x.done.More = x.over() && (next != "" || x.behind || x.done.waiting > 0); x.done.More {
			return false, nil
		}
		q.Cursor = next
	}
	return x.behind, nil
}

// over reports whether no further record is begun.
func (x *deleting) over() bool {
	return x.err != nil || x.done.Records > 0 && x.now().Sub(x.start) >= deleteTime
}

// one deletes a record by do, unless the deletion is over. do returns as remove does, and neither if
// the record was not there any more.
func (x *deleting) one(do func() (done bool, err error)) error {
	x.mu.Lock()
	over := x.over()
	if over {
		x.done.waiting++
	}
	x.mu.Unlock()
	if over {
		return nil
	}
	done, err := do()
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case err == nil && done:
		x.done.Records++
		if x.noted != nil {
			x.noted(x.done.Records)
		}
	case err == nil:
		x.behind = true
	case done:
		x.done.committed++
	case errors.As(err, new(*unanswered)):
		x.done.unknown++
	default:
		x.done.waiting++
	}
	x.err = cmp.Or(x.err, err)
	return nil // the others under way end in their own time
}

// readHeads reads the live heads of a query by the first index key. They have the records that are
// committed, of which rows may not be written yet.
func (x *deleting) readHeads(ctx context.Context) error {
	x.heads = map[string]*store.Head{}
	if x.plan.keys[0].rank > 0 {
		return nil
	}
	for _, first := range x.plan.keys[0].partitions {
		hash := index.FirstHash(first.Value)
		err := x.Log.All(ctx, store.PrefixQuery(store.ShardOf(hash), store.HeadPrefix+hash+"|"), func(p storage.Page) error {
			for _, row := range p.Entities {
				h, err := store.HeadOf(row)
				if err != nil {
					return err
				}
				if h.Live() && x.plan.names(h.Write) {
					x.heads[h.Identity] = h
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("catalog %s: %w", x.Name, err)
		}
	}
	return nil
}

// removeFound deletes a record that was found in an index row. h is its head, nil if that was not read.
func (x *deleting) removeFound(ctx context.Context, h *store.Head, m match) (done bool, err error) {
	slots := x.readAhead(ctx, store.WriteFor(m.id), m.row)
	done, err = x.removeAt(ctx, h, m.id.First(), m.id.Hash(), m.record, slots)
	if !done {
		slots() // leaves no reads under way
	}
	return done, err
}

// removeUnseen deletes the record of a live head, if the query asks for it.
func (x *deleting) removeUnseen(ctx context.Context, h *store.Head) (done bool, err error) {
	r, found, err := x.contents(ctx, h)
	if err != nil || !found {
		return false, err
	}
	id, err := x.Identify(r)
	if err != nil || !x.plan.window.Contains(id.Sort) {
		return false, err
	}
	return x.removeAt(ctx, h, h.First, h.Identity, r, nil)
}

// deleteOne deletes the only record that the query finds. There may be none, unless it asks for an ID.
func (c *Catalog) deleteOne(ctx context.Context, q Lookup, on Condition) (Deleted, error) {
	var deleted Deleted
	err := c.decided(ctx, func() (raced bool, err error) {
		x, err := c.choose(ctx, q)
		if err == nil {
			err = x.check(q, on)
		}
		if err != nil {
			return false, err
		}
		r, found, err := c.contents(ctx, x.head)
		if err != nil || !found {
			return true, err
		}
		done, err := c.remove(ctx, x.head, r, nil)
		if done && err == nil {
			deleted.Records = 1
		}
		return !done, err
	})
	if q.ID == "" && err != nil && problem.Of(err).Kind == problem.NotFound {
		return Deleted{}, nil
	}
	return deleted, err
}
