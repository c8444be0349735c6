package sweep

import (
	"context"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// Spec defines the rows of a sweep, and how they are divided into steps.
type Spec struct {
	Source   storage.Source
	Bounds   key.Bounds
	Filter   string        // a further condition in OData; "" for all rows
	Select   []string      // properties to read, nil for all; the keys are always read
	PageRows int           // rows of a full page; 0 means storage.PageRows
	Strategy scan.Strategy // nil means scan.Serial
	// If Steal is set, idle workers take parts of the remaining ranges of other workers, and no strategy divides the range.
	Steal      bool
	partitions bool // only partition keys are needed, so the sweep skips rows
	// If From is set, only rows after this key are read. From must be within the bounds, and the sweep must use Steal or the strategy Serial.
	From *key.Key
	// If Keys is set, it contains the keys of the rows to sweep, and the bounds and the strategy are ignored. One query searches for several keys of
	// a partition. Without a filter, a key that is not in the table counts as a failed row. A resumed sweep needs the same keys again.
	Keys *Keys
}

func (s Spec) table() *storage.Table {
	t, _ := s.Source.(*storage.Table)
	return t
}

// Options configure a sweep. The zero value is the default.
type Options struct {
	// Workers is the maximum number of concurrent requests to the source, and also the maximum number of concurrent
	// requests to the action's destination. 0 means DefaultWorkers.
	Workers int
	// Memory is the budget from which the sweep takes memory for its pages and for the data that its work holds. Nil means a budget of
	// [memory.Command] bytes. A page is held until all its rows are done.
	Memory *memory.Budget
	// Beside, if set, returns how many bytes the work holds in addition to the pages, for example for a file.
	Beside func() int64
	// Requests, if set, limits the number of requests of all kinds per second.
	Requests *storage.Limit
	// MaxRows is a limit on the rows read from a table per second, and also on the rows written to a table per second. 0 means no limit. If
	// there is a limit, a page has at most a tenth of MaxRows rows, or one row if MaxRows is below 10.
	MaxRows int
	// Share, if set, holds the limits that the sweep shares with other concurrent sweeps.
	Share *Share
	// Checkpoint, if set, records the sweep's state. If the checkpoint contains the state of earlier runs, the sweep continues from this state.
	Checkpoint *Checkpoint
	// List is the maximum number of differences that a [Comparison] lists.
	List int
	// Failed, if set, is called with the failed rows of each unit, never concurrently. Before it returns nil, it must store the rows, because a
	// resumed sweep does not report them again. An error stops the sweep, and a resumed sweep repeats the unit.
	Failed func([]action.Failure) error
	// If Abort is closed after the context was canceled, the sweep cancels the running requests. Without Abort, a canceled sweep waits up to 30 s
	// for these requests.
	Abort <-chan struct{}
	// Watch, if set, is called with the progress: about once a second, when the context is canceled, and once at the end. The calls are never
	// concurrent.
	Watch func(Progress)
	// Trace, if set, is called with every query, never concurrently.
	Trace func(Trace)
}

// DefaultWorkers is the default of [Options].Workers.
const DefaultWorkers = 128

// Room returns how many bytes the sweep may hold now.
func (o Options) Room() int64 {
	sweeps := 1
	if o.Share != nil {
		sweeps = o.Share.sweepCount()
	}
	return min(memory.Command, o.Memory.Share(sweeps))
}

// Trace is a query that was made.
type Trace struct {
	Step scan.Step
	Page scan.Page
}

// Each calls fn with the rows in table order, page by page, although pages are read in any order. If waiting pages use up the memory, Each reads
// only the next page in order.
func Each(ctx context.Context, s Spec, o Options, fn func([]storage.Row) error) (Totals, error) {
	return newRun(s, o, inOrder(fn), true).do(ctx)
}

// Do does the action with all rows, in any order.
func Do(ctx context.Context, s Spec, o Options, a action.Work) (Totals, error) {
	return newRun(s, o, a, false).do(ctx)
}

// Count counts the rows by reading their keys. If `seen` is not nil, Count calls it with the rows of each page, never concurrently.
func Count(ctx context.Context, s Spec, o Options, seen func([]storage.Row)) (Totals, error) {
	s.Select = []string{}
	return newRun(s, o, counting(seen), false).do(ctx)
}

// Partitions calls fn once with each partition key, in order. After a page, it skips the remaining rows of the page's last partition.
func Partitions(ctx context.Context, s Spec, o Options, fn func(partition string) error) (Totals, error) {
	s.Select, s.Steal, s.partitions = []string{}, true, true
	var last *string
	return Each(ctx, s, o, func(rows []storage.Row) error {
		for _, row := range rows {
			if p := row.Key.Partition; last == nil || *last != p {
				last = &p
				if err := fn(p); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// inOrder makes each page one unit.
type inOrder func([]storage.Row) error

func (inOrder) Split(rows []storage.Row) [][]storage.Row { return [][]storage.Row{rows} }

func (fn inOrder) Do(_ context.Context, _ storage.RequestOptions, rows []storage.Row) (action.Result, error) {
	return action.Result{Written: int64(len(rows))}, fn(rows)
}

// counting makes no units.
type counting func([]storage.Row)

func (seen counting) Split(rows []storage.Row) [][]storage.Row {
	if seen != nil {
		seen(rows)
	}
	return nil
}

func (counting) Do(context.Context, storage.RequestOptions, []storage.Row) (action.Result, error) {
	return action.Result{}, nil
}
