package action

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// Mapped is a [Work] that maps each row and handles the results, which are called the row's mapped rows. Counts and failures are about source rows.
// A source row counts as written if all of its mapped rows are written, and as failed if one of them failed. All other source rows count as
// skipped.
type Mapped struct {
	Work
	// Map returns a row's mapped rows. If it returns an error, only this row fails.
	Map func(context.Context, storage.Entity) ([]storage.Entity, error)
	// Limiter delays writes of mapped rows to a partition that throttles. The partitions of the source rows do not matter.
	Limiter *Limiter
	// Slots, if set, limits the number of concurrent requests.
	Slots *semaphore.Weighted
	// Only, if set, contains the keys of the rows to handle. The other rows were handled earlier, and are mapped only to find duplicate keys.
	Only map[key.Key]bool

	reserve *sync.Mutex // see [Mapped.withReserve]; nil for work that may be restarted
}

const (
	// maxMapped limits the size of unwritten mapped rows, in bytes, because a map may make a page's rows a hundred times
	// larger.
	maxMapped = 8 << 20
	// mappedWeight is the number of bytes of memory for each byte of a mapped row's text. The row exists as a value, as
	// text, and in the transaction that writes it.
	mappedWeight = 3
	// maxText is the maximum size of a mapped row's text, in bytes. The service allows 1 MiB for a row, and
	// counts two bytes for each character. In the row's text, a character takes at most six bytes.
	maxText = 3 << 20
)

// If the work puts messages, withReserve reserves memory for the largest row. Such work must not be restarted, because a
// restart would put the same messages again. If no other memory is free, units use the reserve, one unit at a time. If no
// memory is free for the reserve, withReserve returns [memory.ErrFull] before any work is done.
func (m Mapped) withReserve(part *memory.Part) (Work, error) {
	if _, keyed := m.Work.(Changing); keyed {
		return m, nil
	}
	if !part.Use(mappedWeight * maxText) {
		return m, memory.ErrFull
	}
	m.reserve = &sync.Mutex{}
	return m, nil
}

// Split returns all rows of a page as one unit, so that [Mapped.Do] can find rows that map to the same key. But if the
// work puts messages, which have no keys, each source row is a unit, so that an interruption repeats only a few messages.
func (m Mapped) Split(rows []storage.Row) [][]storage.Row {
	if _, keyed := m.Work.(Changing); !keyed {
		return m.Work.Split(rows)
	}
	return slices.Collect(slices.Chunk(rows, storage.PageRows))
}

// Do handles the mapped rows.
func (m Mapped) Do(ctx context.Context, o storage.RequestOptions, rows []storage.Row) (r Result, err error) {
	_, keyed := m.Work.(Changing)
	w := m.Work
	if m.Slots != nil {
		w = slotted{w, m.Slots}
	}
	h := mappedRows{memory: o.Memory, reserve: m.reserve}
	defer h.clear()
	from := make(map[key.Key]int, len(rows)) // from a mapped row's key to the index of its source row
	written, failed := map[int]bool{}, map[int]bool{}
	fail := func(i int, reason string, broken bool) {
		if !failed[i] {
			failed[i] = true
			r.Failed = append(r.Failed, Failure{Key: rows[i].Key, Reason: reason, Broken: broken})
		}
	}
	write := func() error {
		slices.SortFunc(h.rows, func(a, b storage.Row) int { return a.Key.Compare(b.Key) })
		done, err := All(ctx, o, m.Limiter, w, h.rows)
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
		h.clear()
		return err
	}
	for i, row := range rows {
		select {
		case <-o.Stop:
			return r, context.Canceled
		default:
		}
		if o.MayProceed != nil {
			if err := o.MayProceed(ctx); err != nil {
				return r, err
			}
		}
		became, err := m.Map(ctx, row.Entity())
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		for _, one := range became {
			switch other, taken := from[one.Key]; {
			case !taken || !keyed || err != nil:
			case other == i:
				err = fmt.Errorf("the map gives PartitionKey %.300q RowKey %.300q to two of the rows that it makes from this row", one.Key.Partition, one.Key.Row)
			default:
				err = fmt.Errorf("the map gives PartitionKey %.300q RowKey %.300q to this row and to another row of the same page: PartitionKey %q RowKey %q", one.Key.Partition, one.Key.Row, rows[other].Key.Partition, rows[other].Key.Row)
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
				row := one.Row()
				if !h.fits(row) {
					if err := write(); err != nil {
						return r, err
					}
				}
				if err := h.add(row); err != nil {
					return r, err
				}
			}
		}
	}
	err = write()
	r.Written = int64(len(written))
	return r, err
}

// mappedRows holds mapped rows until they are written.
type mappedRows struct {
	memory   *memory.Part
	reserve  *sync.Mutex // see [Mapped.withReserve]
	rows     []storage.Row
	size     int   // size of the rows' text, in bytes
	used     int64 // bytes of memory in use
	reserved bool  // some of these rows use the reserved memory
}

// fits reports whether there is memory for another row. If a row of the unit already uses the reserve, fits returns false, because the unit must
// not wait for its own reserve.
func (h *mappedRows) fits(row storage.Row) bool {
	bytes := len(row.JSON())
	return !h.reserved && h.size+bytes <= maxMapped && h.memory.Spare(mappedWeight*int64(bytes))
}

func (h *mappedRows) add(row storage.Row) error {
	bytes := len(row.JSON())
	switch {
	case h.memory.Use(mappedWeight * int64(bytes)):
		h.used += mappedWeight * int64(bytes)
	case h.reserve == nil:
		return memory.ErrFull
	default:
		h.reserve.Lock()
		h.reserved = true
	}
	h.rows, h.size = append(h.rows, row), h.size+bytes
	return nil
}

func (h *mappedRows) clear() {
	clear(h.rows)
	h.memory.Use(-h.used)
	if h.reserved {
		h.reserve.Unlock()
	}
	h.rows, h.size, h.used, h.reserved = h.rows[:0], 0, 0, false
}

// slotted is work in which each unit waits until one of [Mapped.Slots] is free.
type slotted struct {
	Work
	slots *semaphore.Weighted
}

// Changes implements [Changing]. The result is nil if the work does not change a table.
func (s slotted) Changes() *storage.Table {
	if c, ok := s.Work.(Changing); ok {
		return c.Changes()
	}
	return nil
}

// Do handles a unit as soon as a slot is free.
func (s slotted) Do(ctx context.Context, o storage.RequestOptions, unit []storage.Row) (Result, error) {
	if err := s.slots.Acquire(ctx, 1); err != nil {
		return Result{}, err
	}
	defer s.slots.Release(1)
	return s.Work.Do(ctx, o, unit)
}
