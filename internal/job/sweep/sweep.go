package sweep

import (
	"context"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// Spec says which rows are swept, and in which steps.
type Spec struct {
	Source   storage.Source
	Bounds   key.Bounds
	Filter   string        // OData, on top of the bounds; "" for all rows
	Select   []string      // properties wanted, nil for all; the keys always come
	PageRows int           // rows of a full page; 0 means storage.PageRows
	Strategy scan.Strategy // nil means scan.Serial
	// Steal tells that idle workers take what lies ahead in the ranges of others, in place of a strategy.
	Steal      bool
	partitions bool // are wanted, and rows stepped over
	// From, if set, is a row of the bounds: only those behind it are read. The strategy must be Serial, or idle workers steal.
	From *key.Key
	// Keys, if set, are the rows to sweep; bounds and strategy are ignored then. A query looks for
	// several keys of a partition. Without a filter, a key that the table does not have
	// counts as failed. A resumed sweep needs the same keys again.
	Keys *Keys
}

// table returns the source if it is a table, and nil if it is not.
func (s Spec) table() *storage.Table {
	t, _ := s.Source.(*storage.Table)
	return t
}

// Options configure a sweep. The zero value is the default.
type Options struct {
	// Workers is how many requests may be under way at once to the source, and how
	// many to the action's destination; 0 means DefaultWorkers.
	Workers int
	// Memory is what the sweep takes its part of, for its pages and for what its work holds beside them; nil means a budget of
	// [memory.Command] bytes. A page is kept until all of its rows are done.
	Memory *memory.Budget
	// Beside, if set, returns how many bytes the work holds beside the pages, such as a file.
	Beside func() int64
	// Requests, if set, is the most requests a second of all kinds.
	Requests *storage.Limit
	// MaxRows is the most rows a second that are read from a table, and that are written to one; 0 means any
	// number. Pages are at most a tenth of it.
	MaxRows int
	// Share, if set, is what other sweeps that run now keep to, too.
	Share *Share
	// Checkpoint, if set, records what is done, and may hold what was done before.
	Checkpoint *Checkpoint
	// List is how many differences a [Comparison] keeps for its list.
	List int
	// Failed, if set, is called with the rows of each unit that failed, never
	// concurrently. If it returns nil, a resume does not report them again, so it must
	// have stored them. An error stops the sweep, and the unit is done again after a
	// resume.
	Failed func([]action.Failure) error
	// Abort, if set and closed after the context was canceled, ends the requests under
	// way. Otherwise a canceled sweep waits for them up to 30 s.
	Abort <-chan struct{}
	// Watch, if set, is called about once a second, never concurrently, with the
	// progress; also when the context is canceled, and once at the end.
	Watch func(Progress)
	// Trace, if set, gets every query, one at a time.
	Trace func(Trace)
}

// DefaultWorkers is the default of [Options].
const DefaultWorkers = 128

// Room is how many bytes the sweep may hold now.
func (o Options) Room() int64 {
	sweeps := 1
	if o.Share != nil {
		sweeps = o.Share.among()
	}
	return min(memory.Command, o.Memory.Share(sweeps))
}

// Trace is a query that was made.
type Trace struct {
	Step scan.Step
	Page scan.Page
}

// Each calls fn with the rows in table order, page by page, whatever the order
// in which they are read. If the pages that wait for their turn fill the memory, only what the next turn needs is read.
func Each(ctx context.Context, s Spec, o Options, fn func([]storage.Row) error) (Totals, error) {
	return newRun(s, o, inOrder(fn), true).do(ctx)
}

// Do does the action with all rows, in any order. What the action sends is counted by
// the counter in its options.
func Do(ctx context.Context, s Spec, o Options, a action.Work) (Totals, error) {
	return newRun(s, o, a, false).do(ctx)
}

// Count reads the keys of the rows and does nothing with them. seen, if not nil, gets those of
// each page, never concurrently.
func Count(ctx context.Context, s Spec, o Options, seen func([]storage.Row)) (Totals, error) {
	s.Select = []string{}
	return newRun(s, o, counting(seen), false).do(ctx)
}

// Partitions calls fn with the partition keys in order, each once. It steps over the rows behind a page's last partition.
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
