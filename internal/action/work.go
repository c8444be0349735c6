// Package action contains the actions of a scan: it copies rows into a table, deletes rows, or puts a message for each
// row into a queue. An action splits a page's rows into units and handles each unit separately.
//
// A step may be repeated, so every action is idempotent, except enqueue, which may send a message twice. If the service refuses a row, the
// work continues with the other rows, and the result contains the row's key and the reason.
//
// A copy writes the rows of one partition in entity group transactions of up to 100 rows and 4 MiB. If the destination
// refuses all writes, because the table or the permission is missing, the error ends the scan.
package action

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// parallel is the number of units that a call of [All] handles concurrently.
const parallel = 32

// Result counts rows. Rows that are neither written nor failed were
// skipped.
type Result struct {
	Written int64 // written, deleted, or enqueued
	Failed  []Failure
	Kept    []key.Key // rows that the destination already has and keeps
}

// Failure is a row that could not be written.
type Failure struct {
	Key    key.Key
	Reason string
	// Line is the number of an input line that is not a row. It is 0 if the failure is about a row.
	Line int
	// Broken is set if the service answered each try with status 500. The service may accept the row later.
	Broken bool
}

func (f Failure) String() string {
	if f.Line > 0 {
		return f.Reason
	}
	return fmt.Sprintf("PartitionKey %q RowKey %q: %s", f.Key.Partition, f.Key.Row, f.Reason)
}

// Work handles rows for an action: [Copy], [Delete] or [Enqueue]. Its methods are called concurrently.
type Work interface {
	// Split divides a page's rows into units. The rows are in table order. Split leaves out rows
	// that need no work.
	Split(rows []storage.Row) [][]storage.Row
	// Do handles a unit. It must be idempotent, because an interrupted unit is repeated. An error stops all work. A
	// refused row causes a failure in the result, not an error.
	Do(ctx context.Context, o storage.RequestOptions, unit []storage.Row) (Result, error)
}

// Changing is a [Work] that changes the rows of one table.
type Changing interface {
	Work
	Changes() *storage.Table
}

// All divides the rows, which must be in table order, into units, and handles several units concurrently. If l is
// not nil, a unit that changes a partition waits for l. If All returns an error, some units may have been done. If
// [storage.HeldBack] returns true for a unit's error, All continues with the other units, and returns the error at the
// end.
func All(ctx context.Context, o storage.RequestOptions, l *Limiter, w Work, rows []storage.Row) (Result, error) {
	var (
		mu    sync.Mutex // guards the fields below
		total Result
		held  error
	)
	if m, mapped := w.(Mapped); mapped {
		var err error
		if w, err = m.withReserve(o.Memory); err != nil {
			return total, err
		}
	}
	g, ctx := task.WithContext(ctx)
	g.SetLimit(parallel)
	for _, unit := range w.Split(rows) {
		g.Go(func() error {
			r, err := do(ctx, o, l, w, unit)
			mu.Lock()
			defer mu.Unlock()
			total.Written += r.Written
			total.Failed = append(total.Failed, r.Failed...)
			total.Kept = append(total.Kept, r.Kept...)
			if storage.HeldBack(err) {
				held = err
				return nil
			}
			return err
		})
	}
	err := cmp.Or(g.Wait(), held)
	slices.SortFunc(total.Failed, func(a, b Failure) int { return a.Key.Compare(b.Key) })
	return total, err
}

// do waits until the limiter permits the unit, and handles it.
func do(ctx context.Context, o storage.RequestOptions, l *Limiter, w Work, unit []storage.Row) (r Result, err error) {
	c, changes := w.(Changing)
	if l == nil || !changes || c.Changes() == nil {
		return w.Do(ctx, o, unit)
	}
	err = l.Do(ctx, o, PartitionName(c.Changes(), unit[0].Key.Partition), len(unit), func(o storage.RequestOptions) (_ int, err error) {
		r, err = w.Do(ctx, o, unit)
		return len(unit), err
	})
	return r, err
}
