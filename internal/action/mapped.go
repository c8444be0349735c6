package action

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/semaphore"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// Mapped is [Work] with what becomes of the rows. It counts the rows as they were, and reports failures by their keys: a row is
// written if all that it becomes is, and failed if some of it is. Others are skipped.
type Mapped struct {
	Work
	// Map returns what a row becomes; an error is about this row.
	Map func(context.Context, storage.Entity) ([]storage.Entity, error)
	// Limiter is that of what the rows become, whose partitions are others.
	Limiter *Limiter
	// Slots, if set, has one for each request that may be under way.
	Slots *semaphore.Weighted
	// Only, if set, are the keys of the rows that are meant: the others were done, and tell alone which keys are taken.
	Only map[key.Key]bool
}

const (
	// maxHeld is how many bytes of rows are held until they are written: a page's rows may become a hundred times as much.
	maxHeld = 8 << 20
	// heldWeight is how many bytes of memory one of them takes: as a value, as text, and in the transaction that writes it.
	heldWeight = 3
)

// Split leaves a page whole: of rows that become rows of one key, the second fails. Messages have no keys: they are put one by one, so that an
// interrupt leaves few of them to be put twice.
func (m Mapped) Split(rows []storage.Row) [][]storage.Row {
	if _, keyed := m.Work.(Changing); !keyed {
		return m.Work.Split(rows)
	}
	return slices.Collect(slices.Chunk(rows, storage.PageRows))
}

// Do does the work of what the rows become.
func (m Mapped) Do(ctx context.Context, o storage.RequestOptions, rows []storage.Row) (r Result, err error) {
	_, keyed := m.Work.(Changing)
	w := m.Work
	if m.Slots != nil {
		w = slotted{w, m.Slots}
	}
	all, size := make([]storage.Row, 0, len(rows)), 0
	used := int64(0)                         // of the memory
	from := make(map[key.Key]int, len(rows)) // what a row became, and its place
	written, failed := map[int]bool{}, map[int]bool{}
	fail := func(i int, reason string, broken bool) {
		if !failed[i] {
			failed[i] = true
			r.Failed = append(r.Failed, Failure{Key: rows[i].Key, Reason: reason, Broken: broken})
		}
	}
	write := func() error {
		slices.SortFunc(all, func(a, b storage.Row) int { return a.Key.Compare(b.Key) })
		done, err := All(ctx, o, m.Limiter, w, all)
		for _, f := range done.Failed {
			i := from[f.Key]
			if f.Key != rows[i].Key {
				f.Reason = fmt.Sprintf("PartitionKey %.300q RowKey %.300q: %s", f.Key.Partition, f.Key.Row, f.Reason)
			}
			fail(i, f.Reason, f.Broken)
			delete(written, i)
		}
		for _, k := range done.Kept {
			delete(written, from[k])
		}
		clear(all)
		o.Memory.Use(-used)
		all, size, used = all[:0], 0, 0
		return err
	}
	hold := func(one storage.Row) error {
		bytes := len(one.JSON())
		if size+bytes > maxHeld || !o.Memory.Spare(heldWeight*int64(bytes)) {
			if err := write(); err != nil {
				return err
			}
		}
		if !o.Memory.Use(heldWeight * int64(bytes)) {
			return memory.ErrFull
		}
		all, size, used = append(all, one), size+bytes, used+heldWeight*int64(bytes)
		return nil
	}
	defer func() { o.Memory.Use(-used) }()
	for i, row := range rows {
		select {
		case <-o.Stop:
			return r, context.Canceled
		default:
		}
		if o.Ask != nil {
			if err := o.Ask(ctx); err != nil {
				return r, err
			}
		}
		became, err := m.Map(ctx, row.Entity())
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		for _, one := range became {
			if other, taken := from[one.Key]; taken && keyed && err == nil {
				err = fmt.Errorf("it becomes PartitionKey %.300q RowKey %.300q, and so does PartitionKey %q RowKey %q of the same page", one.Key.Partition, one.Key.Row, rows[other].Key.Partition, rows[other].Key.Row)
			}
			if err == nil {
				from[one.Key] = i
			}
		}
		switch {
		case m.Only != nil && !m.Only[row.Key]:
		case err != nil:
			fail(i, "map: "+err.Error(), false)
		case len(became) > 0:
			written[i] = true
			for _, one := range became {
				if err := hold(one.Row()); err != nil {
					return r, err
				}
			}
		}
	}
	err = write()
	r.Written = int64(len(written))
	return r, err
}

// slotted is work whose units wait for a slot.
type slotted struct {
	Work
	slots *semaphore.Weighted
}

// Changes implements [Changing]; nil if the work changes no table.
func (s slotted) Changes() *storage.Table {
	if c, ok := s.Work.(Changing); ok {
		return c.Changes()
	}
	return nil
}

// Do does a unit when there is a slot.
func (s slotted) Do(ctx context.Context, o storage.RequestOptions, unit []storage.Row) (Result, error) {
	if err := s.slots.Acquire(ctx, 1); err != nil {
		return Result{}, err
	}
	defer s.slots.Release(1)
	return s.Work.Do(ctx, o, unit)
}
