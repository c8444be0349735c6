package job

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"tablesweep/internal/action"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/record/rowmap"
	"tablesweep/internal/split/strategy"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

// forMap raises the memory limit once. Mapped rows are decoded, and use several times as much memory as rows that are copied unchanged.
// Without the higher limit, the garbage collector takes a third of the processor time.
var forMap = sync.OnceFunc(func() { new(memory.Held).Set(112 << 20) })

func (o Options) mapWork(w action.Work) action.Work {
	if o.Map == nil {
		return w
	}
	forMap()
	return action.Mapped{Work: w, Map: o.Map.Rows, Limiter: &action.Limiter{}, Slots: semaphore.NewWeighted(int64(o.Workers))}
}

// mappedSource returns a source with the mapped rows of s. The map must not change keys. If `pass` is true, the source omits rows for which the map
// fails.
func (o Options) mappedSource(s storage.Source, pass bool) storage.Source {
	if o.Map == nil {
		return s
	}
	return rowmap.Kept{Source: s, Map: o.Map, Pass: pass}
}

// If err means that the map has changed a key, refuseMoved refuses the option, because the option needs rows in key order. It returns other errors
// unchanged.
func refuseMoved(option string, err error) error {
	if !errors.Is(err, rowmap.ErrMoved) {
		return err
	}
	return Hint(Refuse(option, " needs rows in key order, so the map must not change keys: %w", err), "use the map to copy the rows to a new table, and run this command on the new table")
}

func (o Options) mapRows(ctx context.Context, rows []storage.Row) (became []storage.Row, failed []action.Failure, err error) {
	if o.Map == nil {
		return rows, nil, nil
	}
	for _, row := range rows {
		all, err := o.Map.Rows(ctx, row.Entity())
		if ctx.Err() != nil {
			return nil, nil, task.ErrInterrupted
		}
		if err != nil {
			failed = append(failed, action.Failure{Key: row.Key, Reason: "map: " + err.Error()})
		}
		became = append(became, storage.Rows(all)...)
	}
	return became, failed, nil
}

// tryMap returns the rows that the map makes from a job's first rows. It returns an error if the map fails for all of the first rows.
func (o Options) tryMap(ctx context.Context, rows []storage.Row) ([]storage.Row, error) {
	became, failed, err := o.mapRows(ctx, rows)
	if err == nil && len(rows) > 0 && len(failed) == len(rows) {
		err = Refuse("map", " fails for each of the first %s, so nothing was done: %s", problem.Plural(int64(len(rows)), "row"), strings.TrimPrefix(failed[0].Reason, "map: "))
	}
	return became, err
}

// printChanges prints the properties whose types the map has changed unintentionally.
func (o Options) printChanges() {
	o.Map.Changes(func(c rowmap.Change) { o.Meter.Print("types", c.String()) })
}

// Preview calls fn with each of the first n rows of a place, and with the rows that the map makes from that row. It changes nothing.
func Preview(ctx context.Context, o Options, n int, fn func(before storage.Entity, after []storage.Entity, err error) error) error {
	show := func(rows []storage.Row) error {
		for _, row := range rows {
			before := row.Entity()
			after, err := o.Map.Rows(ctx, before)
			if ctx.Err() != nil {
				return task.ErrInterrupted
			}
			if err := fn(before, after, err); err != nil {
				return err
			}
			if n--; n == 0 {
				return errEnough
			}
		}
		return nil
	}
	var err error
	if o.From.inLines() {
		err = o.previewLines(ctx, func() int { return n }, show)
	} else {
		plain := o
		plain.Map = nil
		_, err = Scan(ctx, ScanOptions{Options: plain, Strategy: strategy.Serial, PageRows: min(n, storage.PageRows)}, show)
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return err
}

// previewLines calls the function `show` with the first rows of a file or of stdin. The function `left` returns how many more
// rows are needed.
func (o Options) previewLines(ctx context.Context, left func() int, show func([]storage.Row) error) error {
	in, err := o.openLines(ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	next, err := o.readLines(ctx, in)
	if err != nil {
		return err
	}
	return notLines(place.Windows(next, false, nil, func(rows place.Rows, _ int) error {
		p, _, err := rows.Read(ctx, storage.RequestOptions{}, storage.Query{Range: o.Bounds.Range(), Filter: o.Filter, Select: o.Select, Top: min(left(), storage.PageRows)})
		if err == nil {
			err = show(p.Rows)
		}
		return err
	}))
}

func (o Options) openLines(ctx context.Context) (io.ReadCloser, error) {
	if o.From.Kind == place.KindStream {
		return interruptible(ctx, o.In), nil
	}
	in, err := place.OpenFile(ctx, o.From.Path)
	if err != nil {
		return nil, Unopened("from", err)
	}
	return in, nil
}

// readLines reads the rows of a file or stream. It reads CSV twice, first to find the types of the columns.
func (o Options) readLines(ctx context.Context, in io.Reader) (place.Lines, error) {
	if o.From.CSV == nil {
		return place.JSONLines(in), nil
	}
	form := *o.From.CSV
	form.Mixed = func(text string) { o.Meter.Print("types", text) }
	if info, err := os.Stat(o.From.Path); o.From.Kind == place.KindFile && err == nil && info.Mode().IsRegular() {
		first, err := o.openLines(ctx)
		if err != nil {
			return nil, err
		}
		defer first.Close()
		o.Meter.Phase("reading types")
		if form, err = form.Learn(ctx, first); err != nil {
			return nil, err
		}
	}
	return form.Lines(in), nil
}
