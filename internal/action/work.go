// Package action does something with the rows of a scan: it copies them into a table,
// deletes them, or puts a message for each into a queue. An action splits a page's
// rows into units and does one unit at a time. It knows neither scans nor checkpoints.
//
// A step may be repeated, so every action is idempotent, but for messages, which may
// arrive twice. A row that the service refuses does not stop the others: it is reported
// with its key and the reason.
package action

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// parallel is the number of units that one [All] has under way.
const parallel = 32

// Result tells what became of the rows. Rows that are in neither count were
// skipped.
type Result struct {
	Written int64
	Failed  []Failure
}

// Failure is a row that could not be written.
type Failure struct {
	Key    key.Key
	Reason string
}

func (f Failure) String() string {
	return fmt.Sprintf("PartitionKey %q RowKey %q: %s", f.Key.Partition, f.Key.Row, f.Reason)
}

// Work is what is done with rows, a unit at a time: copying them, as a [Copier] does,
// or what package action has. Its methods are called concurrently.
type Work interface {
	// Split cuts the rows of a page, in table order, into units. Rows that it
	// leaves out need no work.
	Split(rows []storage.Entity) [][]storage.Entity
	// Do does a unit. One that was interrupted is done again, so repeating it must
	// be harmless. An error stops all work; a row that can't be dealt with is no
	// error but a failure in the result.
	Do(ctx context.Context, unit []storage.Entity) (Result, error)
}

// All does the work of all rows, which must be in table order, several units at
// once. On an error, some units may have been done.
func All(ctx context.Context, w Work, rows []storage.Entity) (Result, error) {
	var (
		mu    sync.Mutex // guards total
		total Result
	)
	g, ctx := task.WithContext(ctx)
	g.SetLimit(parallel)
	for _, unit := range w.Split(rows) {
		g.Go(func() error {
			r, err := w.Do(ctx, unit)
			mu.Lock()
			defer mu.Unlock()
			total.Written += r.Written
			total.Failed = append(total.Failed, r.Failed...)
			return err
		})
	}
	err := g.Wait()
	slices.SortFunc(total.Failed, func(a, b Failure) int { return a.Key.Compare(b.Key) })
	return total, err
}
