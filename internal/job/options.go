package job

import (
	"context"
	"fmt"
	"io"
	"strings"

	"tablesweep/internal/job/progress"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/record/rowmap"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// Process contains what a process provides for its jobs.
type Process struct {
	Meter     *progress.Meter
	Abort     <-chan struct{} // closed by a second interrupt, which cancels the running requests
	In        io.Reader
	Out       io.Writer
	Program   string         // the program's name and version, for exports
	FileBytes int            // bytes of JSON in each file of an export; 0 for the default
	Memory    *memory.Budget // the budget of all sweeps together; nil for a separate budget for each sweep
	limits    *sharedLimits  // nil unless the job is for one of many tables
}

// Rows selects the rows that a job reads, and limits how fast it reads them.
type Rows struct {
	Bounds      key.Bounds
	Filter      string
	Select      []string // properties to read, nil for all; the keys are always read
	Workers     int      // at most this many concurrent requests
	MaxRows     int      // at most this many rows per second; 0 for no limit
	MaxRequests int      // at most this many requests per second; 0 for no limit
}

func (r Rows) check() error {
	if r.Workers < 1 {
		return Refuse("workers", " is %d; it must be at least 1", r.Workers)
	}
	for _, limit := range []struct {
		option string
		n      int
	}{{"max-rows-per-second", r.MaxRows}, {"max-requests-per-second", r.MaxRequests}} {
		if limit.n < 0 {
			return Refuse(limit.option, " is %d; it must be at least 1, or 0 for no limit", limit.n)
		}
	}
	for _, name := range r.Select {
		if name == "" {
			return Refuse("select", " contains an empty name")
		}
	}
	if err := storage.CheckFilter(r.Filter); err != nil {
		return Refuse("", "--%w", err) // the error's text starts with the option's name
	}
	if r.Bounds.Range().Empty() {
		return Refuse("", "no partition key fits --prefix, --after and --before together")
	}
	return nil
}

// String describes the rows for a question to the user.
func (r Rows) String() string {
	var limits []string
	for _, l := range []struct{ is, value string }{
		{"partition key starts with %q", r.Bounds.Prefix}, {"partition key is greater than %q", r.Bounds.After},
		{"partition key is less than %q", r.Bounds.Before}, {"properties match %q", r.Filter},
	} {
		if l.value != "" {
			limits = append(limits, fmt.Sprintf(l.is, l.value))
		}
	}
	if limits == nil {
		return "all rows"
	}
	return "the rows whose " + strings.Join(limits, " and whose ")
}

func (r Rows) selectsAll() bool { return r.Bounds == key.Bounds{} && r.Filter == "" }

func (r Rows) specOf(from Place) (sweep.Spec, error) {
	s := sweep.Spec{Source: from.Source, Bounds: r.Bounds, Filter: r.Filter, Select: r.Select, PageRows: storage.PageRows, Steal: true}
	if err := r.check(); err != nil {
		return s, err
	}
	if from.Export() != nil {
		if err := place.CheckFilter(r.Filter); err != nil {
			return s, Refuse("filter", ": %w", err)
		}
		s.Steal = false
	}
	return s, nil
}

func (p Process) sweepOptions(r Rows) sweep.Options {
	o := sweep.Options{Workers: r.Workers, Memory: p.Memory, Watch: p.Meter.Show, Abort: p.Abort, MaxRows: r.MaxRows}
	if p.limits != nil {
		o.Requests, o.Share = p.limits.requests, p.limits.sweeps
	} else {
		o.Requests = storage.NewLimit(r.MaxRequests)
	}
	return o
}

// Options are the options of jobs that read rows of a place.
type Options struct {
	Process
	Rows
	From   Place
	List   string      // a file with the list of rows to read; "" for all rows
	Failed string      // a file for the failed rows; "" lists them on stderr
	Map    *rowmap.Map // maps the rows; nil for no map
	// If an earlier process has begun the job, Resumed is set, and Was contains the facts with which that process
	// began the job.
	Resumed bool
	Was     Facts
}

// Facts are the facts about a job that are decided before the job begins.
type Facts struct {
	Places []string // the addresses of the job's places and queue; a checkpoint is valid only for these addresses
	Digest string   // the digest of the list of rows; "" without a list
	Window string   // the window of changed rows, see [Since]; "" for none
}

// Count counts the rows of a place.
func Count(ctx context.Context, o Options) (sweep.Totals, error) {
	s, err := o.specOf(o.From)
	if err != nil {
		return sweep.Totals{}, err
	}
	o.Meter.Phase("counting")
	defer o.Meter.End()
	return sweep.Count(ctx, s, o.sweepOptions(o.Rows), nil)
}

// Keys calls fn with the partition keys of a place, in order.
func Keys(ctx context.Context, o Options, fn func(partition string) error) error {
	s, err := o.specOf(o.From)
	if err != nil {
		return err
	}
	defer o.Meter.End()
	_, err = sweep.Partitions(ctx, s, o.sweepOptions(o.Rows), fn)
	return err
}
