package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// exportWorkers is how many workers compare an export, unless more are asked for: each holds a page of it that others would read again.
const exportWorkers = 8

// PairOptions are those of jobs about two places.
type PairOptions struct {
	Options
	To         Place
	AllWorkers bool // an export is compared by all workers, too
}

// comparison are the options of a comparison of the source with the other place.
func (o PairOptions) comparison() sweep.Options {
	c := o.sweep(o.Rows)
	if (o.From.Export() != nil || o.To.Export() != nil) && !o.AllWorkers {
		c.Workers = min(c.Workers, exportWorkers)
	}
	c.Failed = reporter(o.Meter, "further failed rows are counted, not listed")
	return c
}

// VerifyOptions are those of a comparison.
type VerifyOptions struct {
	PairOptions
	List       int // differences that are listed
	AllowExtra bool
	Repair     bool
}

// Verify prepares a comparison of two places, whose exports are open.
func Verify(ctx context.Context, o VerifyOptions) (*Job, error) {
	s, err := o.of(o.From)
	if err == nil && o.To.Export() != nil {
		_, err = Rows{Workers: 1}.of(o.To)
	}
	if err != nil {
		return nil, err
	}
	if o.From.Table() != nil || o.To.Table() != nil { // many ranges of the table at a time
		s.Steal = true
	}
	if _, err := try(ctx, s); err != nil {
		return nil, err
	}
	j := &Job{options: o.Options, spec: s}
	j.Places = []string{o.From.Address(), o.To.Address()}
	j.run = func(ctx context.Context, record Record, _ time.Time) (r Result, err error) {
		c := verify.Options{Options: o.comparison(), AllowExtra: o.AllowExtra}
		c.List = o.List
		if o.Repair {
			c.Repair = &action.Copy{Destination: o.To.Table(), Mode: action.Replace}
			if o.Select != nil { // properties that were not compared stay
				c.Repair.Mode = action.Merge
			}
		}
		if record.Journal != nil {
			if c.Checkpoint, err = sweep.NewCheckpoint(record.Journal); err != nil {
				return r, BadCheckpoint(err)
			}
		}
		o.Meter.Phase("verifying")
		r.Begun = true
		r.Comparison, err = verify.Compare(ctx, s, o.To.Source, c)
		o.Meter.End()
		return r, err
	}
	return j, nil
}

// MirrorOptions are those of a mirror.
type MirrorOptions struct {
	PairOptions
	MaxDeletes int64 // rows; less than 0 for any number
	// Ask, if set, is called before anything is changed, with what is to be done.
	Ask func(do string) error
}

// Mirror makes the destination equal to the source. With an error, it may have done some of it.
func Mirror(ctx context.Context, o MirrorOptions) (r verify.MirrorResult, err error) {
	if storage.ComparesTime(o.Filter) {
		return r, Hint(Refuse("filter", " compares Timestamp, which is another in each table, so that --mirror would delete equal rows"), "compare a property of your own")
	}
	s, err := o.of(o.From)
	if err == nil && o.From.Export() != nil {
		err = o.whole(o.From.Export().Manifest())
	}
	if err != nil {
		return r, err
	}
	s.Steal = true // many ranges of the destination at a time
	s.Source = o.kept(s.Source, false)
	if _, err := try(ctx, s); err != nil {
		return r, moved("mirror", err)
	}
	to := o.To.Table()
	if err := to.Create(ctx); err != nil {
		return r, err
	}
	options := verify.MirrorOptions{Options: verify.Options{Options: o.comparison()}, MaxDeletes: o.MaxDeletes}
	options.List = 1
	if o.Ask != nil {
		options.Ask = func(r verify.Result) error {
			o.Meter.Clear()
			o.Meter.Say("compared", Compared(r))
			defer o.Meter.Phase("mirroring")
			return o.Ask(fmt.Sprintf("copy %s to %s and delete %s of it", progress.Plural(r.Missing+r.Different, "row"), to, deletes(r.Extra, o.MaxDeletes)))
		}
	}
	o.Meter.Phase("mirroring")
	r, err = verify.Mirror(ctx, s, to, options)
	o.Meter.End()
	err = moved("mirror", err)
	switch {
	case errors.Is(err, verify.ErrEmptySource):
		err = Hint(err, fmt.Sprintf("%s has %s there; tablesweep delete removes them", to, progress.Plural(r.Extra, "row")))
	case errors.Is(err, task.ErrInterrupted):
		err = Hint(err, "run it again: it compares what is there then")
	}
	return r, err
}

// Compared says what a comparison found.
func Compared(r verify.Result) string {
	return fmt.Sprintf("%s by %s: %d missing, %d extra, %d different", progress.Plural(r.Rows, "row"), progress.Plural(r.Queries, "query"), r.Missing, r.Extra, r.Different)
}

// deletes says how many of the extra rows may be deleted.
func deletes(extra, most int64) string {
	if most >= 0 && most < extra {
		return fmt.Sprintf("%d of %s", most, progress.Plural(extra, "row"))
	}
	return progress.Plural(extra, "row")
}

// whole refuses an export that lacks rows of the mirror's range: they would be extra.
func (o MirrorOptions) whole(m place.Manifest) error {
	own, from := o.Bounds.Range(), o.From.Path
	within := own
	if m.Range != nil {
		of := m.Range.Range()
		within = own.Narrow(of.Low, of.High)
	}
	switch {
	case m.Since != nil:
		return Refuse("from", " %s has only the rows that had changed since %s, so that --mirror would delete all others", from, m.Since)
	case m.Select != nil:
		return Refuse("from", " %s has only the properties %s, so that --mirror would remove all others", from, strings.Join(m.Select, ","))
	case m.Filter != "" && m.Filter != o.Filter:
		return Hint(Refuse("from", " %s has only the rows of a filter, so that --mirror would delete all others", from), fmt.Sprintf("mirror just those: --filter %q", m.Filter))
	case storage.RangeFilter(own) != storage.RangeFilter(within):
		return Hint(Refuse("from", " %s has only the rows of a range, so that --mirror would delete all others", from), "mirror just those, by the same --prefix, --after and --before")
	}
	return nil
}
