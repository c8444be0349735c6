package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/journal"
)

const sinceHelp = `--since TIME copies the rows that were written at TIME or later, by the Timestamps that the
service gave them. --since last begins where the last success began, by the service's clock. --state
FILE keeps that time, for one source, range, filter, selection and table of destination; without the file, all
rows are copied. A destination that has none of the rows that were copied before is refused. Both begin earlier by --overlap. The service has no index of Timestamps, so it reads
the whole range all the same. Deleted rows are not seen; --mirror sees them.`

// lastSuccess is the value of --since that continues from a state.
const lastSuccess = "last"

// sinceFlags are the flags that choose the rows that have changed.
type sinceFlags struct {
	since, state string
	overlap      time.Duration
	// window is FROM/BEGAN, set by the first run and kept in checkpoints: the bound of the filter, "" for all
	// rows, and when that run began.
	window string
}

func (f *sinceFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.since, "since", "", "only rows written since a time, or since so long ago, such as 24h, or since the last success: last")
	flags.StringVar(&f.state, "state", "", "file that keeps the beginning of the last success, for --since last")
	flags.DurationVar(&f.overlap, "overlap", 5*time.Minute, "how much earlier --since begins")
	flags.StringVar(&f.window, "since-window", "", "")
	_ = flags.MarkHidden("since-window")
}

// check refuses values that can't be.
func (f *sinceFlags) check(j *jobFlags) error {
	switch {
	case f.since == lastSuccess && f.state == "":
		return usagef("--since last needs --state FILE, which keeps the beginning of the last success")
	case f.overlap < 0:
		return usagef("--overlap is %v, want a time of 0 or more", f.overlap)
	case f.window != "" && j.resume == "":
		return usagef("--since-window is what checkpoints keep of --since")
	case f.since != "" && f.since != lastSuccess:
		_, err := parseSince(f.since, time.Now())
		return err
	}
	return nil
}

// changedRows are the rows that a copy with --since takes.
type changedRows struct {
	from  time.Time   // zero for all
	began time.Time   // the first run, by the service's clock
	state *sinceState // nil without --state
}

// filter returns the filter of the rows, "" for all.
func (w *changedRows) filter() string {
	if w == nil || w.from.IsZero() {
		return ""
	}
	return storage.SinceFilter(w.from)
}

// narrow narrows the sweep to the rows that have changed. It returns nil if all rows are copied as they are.
func (o *copyOptions) narrow(c *cobra.Command, s *sweep.Spec, from, to opened) (*changedRows, error) {
	if o.since == "" {
		return nil, nil
	}
	if from.table().Cosmos() {
		return nil, hinted{usagef("--since does not fit --from %s, a table of Cosmos DB, which finds no row by its Timestamp", o.from), "leave --since out, or compare a time of your own by --filter"}
	}
	meter, err := o.meter(c)
	if err != nil {
		return nil, err
	}
	w := &changedRows{}
	if o.window == "" { // or else the first run has decided
		w.began, err = moment(c.Context(), *s)
	}
	if err == nil && o.state != "" {
		err = o.remember(c.Context(), w, *s, to)
	}
	if err == nil && o.window == "" {
		err = o.decide(c, w)
	}
	if err == nil {
		err = w.take(o.window)
	}
	if s.Filter = storage.And(w.filter(), s.Filter); err == nil {
		if err = storage.CheckFilter(s.Filter); err != nil {
			err = usagef("--since adds a comparison: --%w", err)
		}
	}
	if err != nil {
		return nil, w.end(err, 0)
	}
	text := "copies the rows written since " + w.from.Format(time.RFC3339Nano)
	switch {
	case w.from.IsZero() && o.since == lastSuccess:
		text = fmt.Sprintf("copies all rows, since %s knows of no success", o.state)
	case w.from.IsZero():
		text = "copies all rows"
	}
	meter.Say("since", text+"; rows that were deleted are not seen")
	return w, nil
}

// take takes the window that the first run has decided.
func (w *changedRows) take(window string) (err error) {
	bound, began, _ := strings.Cut(window, "/")
	if w.began, err = time.Parse(time.RFC3339, began); err == nil && bound != "" {
		w.from, err = time.Parse(time.RFC3339, bound)
	}
	if err != nil {
		return usagef("--since-window: %w", err)
	}
	return nil
}

// remember opens the state, and refuses a destination that has lost what was copied there.
func (o *copyOptions) remember(ctx context.Context, w *changedRows, s sweep.Spec, to opened) (err error) {
	about := sinceCopy{From: s.Source.Address(), Range: o.bounds, Filter: o.filter, Select: strings.Join(o.selected, ",")}
	if to.table() != nil {
		about.To = to.address()
	}
	if w.state, err = openState(o.state, about, o.dryRun.on); err != nil || to.table() == nil || w.state.was.Rows == 0 {
		return err
	}
	why := "is not there"
	for q := (storage.Query{Range: o.bounds.Range(), Select: []string{}, Top: 1}); ; {
		p, err := to.table().Query(ctx, q)
		switch {
		case err != nil && !storage.NotFound(err):
			return fmt.Errorf("look for the rows that were copied before: %w", err)
		case len(p.Entities) > 0:
			return nil
		case err == nil && p.Next != nil:
			q.Token = p.Next
			continue
		case err == nil:
			why = "has none of them"
		}
		err = usagef("--since last: by --state %s, earlier copies wrote rows to %s, which %s; leave --since out to copy all rows again, or give another --state", o.state, to.address(), why)
		return hinted{err, "rows that have not changed since then would stay lost"}
	}
}

// decide sets the window, by the service's clock.
func (o *copyOptions) decide(c *cobra.Command, w *changedRows) (err error) {
	var bound time.Time
	if w.state != nil {
		bound = w.state.was.Last
	} else if bound, err = parseSince(o.since, w.began); err != nil {
		return err
	}
	text, began := "", w.began.UTC()
	if !bound.IsZero() {
		bound = bound.Add(-o.overlap).UTC()
		if first := time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC); bound.Before(first) { // the service knows none before
			bound = first
		}
		if bound.After(began) {
			return usagef("--since %s leads to %s, but it is %s by the service's clock", o.since, bound.Format(time.RFC3339), began.Format(time.RFC3339))
		}
		text = bound.Format(time.RFC3339Nano)
	}
	return c.Flags().Set("since-window", text+"/"+began.Format(time.RFC3339Nano))
}

// end ends a copy of so many rows, and keeps in the state that it succeeded, if err is nil.
func (w *changedRows) end(err error, rows int64) error {
	if w == nil || w.state == nil || w.state.file == nil {
		return err
	}
	state := w.state
	if err == nil && !state.look {
		if err = state.file.Renew([]any{success{w.began, state.was.Rows + rows}}); err != nil {
			err = hinted{fmt.Errorf("the rows are copied, but --state: %w", err), "the next --since last copies them again"}
		}
	}
	if state.file.Close(); err != nil && state.made {
		_ = state.file.Remove() // it has nothing to say
	}
	return err
}

// sinceState is what --state keeps: a journal about one copy, whose event is the last success. It is locked.
type sinceState struct {
	file *journal.File // nil in a dry run without a state
	look bool          // a dry run, which changes nothing
	made bool          // by this run
	was  success       // zero for none
}

// stateJob says what a state is about.
type stateJob struct {
	Since *sinceCopy `json:"since"`
}

// sinceCopy is what a state is good for.
type sinceCopy struct {
	From   string     `json:"from"`         // the source's address
	To     string     `json:"to,omitempty"` // the destination's, if that is a table
	Range  key.Bounds `json:"range,omitzero"`
	Filter string     `json:"filter,omitempty"`
	Select string     `json:"select,omitempty"` // joined by commas
}

func (c sinceCopy) String() string {
	text, _ := json.Marshal(c) // of strings
	return string(text)
}

// success is the event of a state.
type success struct {
	Last time.Time `json:"last"`           // when it began, by the service's clock
	Rows int64     `json:"rows,omitempty"` // that all successes copied to a table; one that was copied twice counts twice
}

// openState opens the state of a copy. If there is none, it makes an empty one: a disk that takes none is found before hours of work,
// not after them. With look, it makes and changes nothing.
func openState(path string, about sinceCopy, look bool) (s *sinceState, err error) {
	s = &sinceState{look: look}
	s.file, err = journal.Read(path)
	switch {
	case err == nil:
		err = s.parse(about)
	case look && errors.Is(err, fs.ErrNotExist):
		err = nil
	case errors.Is(err, fs.ErrNotExist):
		job, _ := json.Marshal(stateJob{&about}) // of strings
		if s.file, err = journal.New(path, job); err == nil {
			err = s.file.Renew(nil)
			s.made = true
		}
	}
	if err == nil {
		return s, nil
	}
	if s.file != nil {
		s.file.Close()
	}
	err = usagef("--state: %w", err)
	switch {
	case errors.Is(err, journal.ErrLocked):
		err = hinted{err, "wait until it has ended, or stop it"}
	case errors.Is(err, journal.ErrDamaged):
		err = hinted{err, "remove the file, and all rows are copied once, or give --since a time"}
	}
	return nil, err
}

// parse reads the last success of a copy like this one.
func (s *sinceState) parse(about sinceCopy) error {
	var job stateJob
	if err := json.Unmarshal(s.file.Job(), &job); err != nil || job.Since == nil {
		return fmt.Errorf("%s is no state of --since", s.file.Path())
	}
	if *job.Since != about {
		return hinted{fmt.Errorf("%s is about another copy: %v, not %v", s.file.Path(), job.Since, about), "give each copy a file of its own"}
	}
	return journal.Events(s.file, func(last success) error {
		s.was = last
		return nil
	})
}
