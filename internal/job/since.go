package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"tablesweep/internal/file/journal"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
)

// LastSuccess is a value of [Since].Text. With this value, the window of changes begins at the start of the last
// successful copy.
const LastSuccess = "last"

// A Since limits a copy to changed rows.
type Since struct {
	Text    string        // a time, a duration before now, or [LastSuccess]; "" for all rows
	State   string        // a file that stores when the last successful copy began
	Overlap time.Duration // how much earlier than Text the window begins
}

// ParseSince parses the option "since". The text may have the forms of [logtail.ParseTime]. For an empty text, it
// returns the zero time.
func ParseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := logtail.ParseTime(text, now)
	if err != nil {
		return t, Refuse("since", " %w", err)
	}
	return t, nil
}

// Check returns an error for invalid values.
func (w Since) Check() error {
	switch {
	case w.Text == LastSuccess && w.State == "":
		return Refuse("since", ` "last" needs --state FILE; the file stores the time at which the last successful copy began`)
	case w.Text != "" && w.Text != LastSuccess:
		_, err := ParseSince(w.Text, time.Now())
		return err
	}
	return nil
}

// changes describes a copy of only those rows that were written since a certain time.
type changes struct {
	from  time.Time   // the copy reads only rows written since this time; zero for all rows
	began time.Time   // when the first run began, by the service's clock
	state *sinceState // nil without a state
}

// filter returns the filter for the changed rows, or "" for all rows.
func (w *changes) filter() string {
	if w == nil || w.from.IsZero() {
		return ""
	}
	return storage.SinceFilter(w.from)
}

// narrow limits the sweep to the changed rows. The result `window` has the form FROM/BEGAN. FROM is the bound of the filter, or "" for all rows. BEGAN
// is the time when the first run began. Without --since, the results are nil and "".
func (o CopyOptions) narrow(ctx context.Context, s *sweep.Spec) (w *changes, window string, err error) {
	if o.Since.Text == "" {
		return nil, "", nil
	}
	if o.From.Table().Cosmos() {
		return nil, "", Hint(Refuse("since", " cannot be used with --from %s, because Cosmos DB cannot filter rows by Timestamp", o.From.Path), "leave --since out, or use --filter to compare a time property of your own")
	}
	w, window = &changes{}, o.Was.Window
	if window == "" { // a resumed job uses the window of its first run
		w.began, err = tryRow(ctx, *s)
	}
	if err == nil && o.State != "" {
		err = o.remember(ctx, w, *s)
	}
	if err == nil && window == "" {
		window, err = o.decide(w)
	}
	if err == nil {
		err = w.setWindow(window)
	}
	if s.Filter = storage.CombineFilters(w.filter(), s.Filter); err == nil {
		if err = storage.CheckFilter(s.Filter); err != nil {
			err = Refuse("since", " adds a comparison: --%w", err)
		}
	}
	if err != nil {
		return nil, "", w.endCopy(err, 0)
	}
	text := "copies the rows written since " + w.from.Format(time.RFC3339Nano)
	switch {
	case w.from.IsZero() && o.Since.Text == LastSuccess:
		text = fmt.Sprintf("copies all rows, because %s records no success", o.State)
	case w.from.IsZero():
		text = "copies all rows"
	}
	o.Meter.Print("since", text+"; --since does not find deleted rows")
	return w, window, nil
}

// setWindow sets the window of changed rows to the window of the job's first run.
func (w *changes) setWindow(window string) (err error) {
	bound, began, _ := strings.Cut(window, "/")
	if w.began, err = time.Parse(time.RFC3339, began); err == nil && bound != "" {
		w.from, err = time.Parse(time.RFC3339, bound)
	}
	if err != nil {
		return Refuse("since-window", ": %w", err)
	}
	return nil
}

// remember opens the state. It fails if the destination has lost the rows of earlier copies.
func (o CopyOptions) remember(ctx context.Context, w *changes, s sweep.Spec) (err error) {
	to := o.To
	about := sinceCopy{From: s.Source.Address(), Range: o.Bounds, Filter: o.Filter, Select: strings.Join(o.Select, ",")}
	if to.Table() != nil {
		about.To = to.Address()
	}
	if w.state, err = openState(o.State, about, o.DryRun); err != nil || to.Table() == nil || w.state.was.Rows == 0 {
		return err
	}
	why := "does not exist"
	for q := (storage.Query{Range: o.Bounds.Range(), Select: []string{}, Top: 1}); ; {
		p, err := to.Table().Query(ctx, q)
		switch {
		case err != nil && !storage.Gone(err):
			return fmt.Errorf("the search for the rows of earlier copies failed: %w", err)
		case len(p.Rows) > 0:
			return nil
		case err == nil && p.Next != nil:
			q.Token = p.Next
			continue
		case err == nil:
			why = "contains none of the copied rows"
		}
		err = Refuse("since", " last: according to --state %s, earlier copies wrote rows to %s, but that table %s; leave --since out to copy all rows again, or name another file with --state", o.State, to.Address(), why)
		return Hint(err, "--since copies only changed rows, so the destination would lack the other rows")
	}
}

// decide returns the window. Its times come from the service's clock.
func (o CopyOptions) decide(w *changes) (window string, err error) {
	var bound time.Time
	if w.state != nil {
		bound = w.state.was.Last
	} else if bound, err = ParseSince(o.Since.Text, w.began); err != nil {
		return "", err
	}
	text, began := "", w.began.UTC()
	if !bound.IsZero() {
		bound = bound.Add(-o.Overlap).UTC()
		if first := time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC); bound.Before(first) { // the service's earliest time
			bound = first
		}
		if bound.After(began) {
			return "", Refuse("since", " %s means %s, which is in the future: the service's time is %s", o.Since.Text, bound.Format(time.RFC3339), began.Format(time.RFC3339))
		}
		text = bound.Format(time.RFC3339Nano)
	}
	return text + "/" + began.Format(time.RFC3339Nano), nil
}

// endCopy ends a copy of the given number of rows. If err is nil, endCopy records the success in the state.
func (w *changes) endCopy(err error, rows int64) error {
	if w == nil || w.state == nil || w.state.file == nil {
		return err
	}
	state := w.state
	if err == nil && !state.dryRun {
		if err = state.file.Renew([]any{success{w.began, state.was.Rows + rows}}); err != nil {
			err = Hint(fmt.Errorf("the rows are copied, but the file of --state could not be updated: %w", err), `the next copy with "--since last" copies these rows again`)
		}
	}
	if state.file.Close(); err != nil && state.made {
		_ = state.file.Remove() // the state does not contain a success yet
	}
	return err
}

// sinceState is the locked file of --state. The file is a journal about one copy. The journal's only event is the last success.
type sinceState struct {
	file   *journal.File // nil in a dry run if there is no state
	dryRun bool          // the run changes nothing
	made   bool          // this run has made the file
	was    success       // the last success; zero for none
}

// stateJob is the member "job" of a state's journal. It identifies the copy for which the state is valid.
type stateJob struct {
	Since *sinceCopy `json:"since"`
}

// sinceCopy identifies the copy for which a state is valid.
type sinceCopy struct {
	From   string     `json:"from"`         // the source's address
	To     string     `json:"to,omitempty"` // the destination's address, if it is a table
	Range  key.Bounds `json:"range,omitzero"`
	Filter string     `json:"filter,omitempty"`
	Select string     `json:"select,omitempty"` // the selected properties, joined by commas
}

func (c sinceCopy) String() string {
	text, _ := json.Marshal(c) // never fails, because c consists of strings
	return string(text)
}

// success is the only event in a state's journal. It records the last successful copy.
type success struct {
	Last time.Time `json:"last"`           // when the last successful copy began, by the service's clock
	Rows int64     `json:"rows,omitempty"` // rows that all successful copies wrote to a table; a row that was copied twice counts twice
}

// openState opens the state of a copy, or makes an empty state. The state is made early, so that a full disk is reported before hours of work. In a
// dry run, openState makes nothing.
func openState(path string, about sinceCopy, dryRun bool) (s *sinceState, err error) {
	s = &sinceState{dryRun: dryRun}
	s.file, err = journal.Read(path)
	switch {
	case err == nil:
		err = s.parse(about)
	case dryRun && errors.Is(err, fs.ErrNotExist):
		err = nil
	case errors.Is(err, fs.ErrNotExist):
		job, _ := json.Marshal(stateJob{&about}) // never fails, because a sinceCopy consists of strings
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
	err = Refuse("state", ": %w", err)
	switch {
	case errors.Is(err, journal.ErrLocked):
		err = Hint(err, "wait until the other process has ended, or stop that process")
	case errors.Is(err, journal.ErrDamaged):
		err = Hint(err, `remove the file; without the file, "--since last" copies all rows, and "--since TIME" copies only the rows written since TIME`)
	}
	return nil, err
}

// parse reads when the last successful copy began, and fails if the state belongs to another copy.
func (s *sinceState) parse(about sinceCopy) error {
	var job stateJob
	if err := json.Unmarshal(s.file.Job(), &job); err != nil || job.Since == nil {
		return fmt.Errorf("%s was not written by --state; name another file", s.file.Path())
	}
	if *job.Since != about {
		return Hint(fmt.Errorf("%s contains the state of another copy (%v), not of this copy (%v)", s.file.Path(), job.Since, about), "each copy needs its own file, so name another file with --state")
	}
	return journal.Events(s.file, func(last success) error {
		s.was = last
		return nil
	})
}
