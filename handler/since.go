package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
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
rows are copied. Both begin earlier by --overlap. The service has no index of Timestamps, so it reads
the whole range all the same. Nobody sees rows that were deleted: --mirror does.`

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
	from  time.Time // zero for all
	began time.Time // the first run, by the service's clock
	state sinceState
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
	if from.table.Cosmos() {
		return nil, hinted{usagef("--since does not fit --from %s, a table of Cosmos DB, which finds no row by its Timestamp", o.from), "leave --since out, or compare a time of your own by --filter"}
	}
	meter, err := o.meter(c)
	if err != nil {
		return nil, err
	}
	about := sinceCopy{From: s.Address(), Range: o.bounds, Filter: o.filter, Select: strings.Join(o.selected, ",")}
	if to.table != nil {
		about.To = to.address()
	}
	w := &changedRows{state: sinceState{Format: stateFormat, Version: stateVersion, Copy: about}}
	if o.window == "" { // or else the first run has decided
		if err := o.decide(c, w, *s); err != nil {
			return nil, err
		}
	}
	bound, began, _ := strings.Cut(o.window, "/")
	if w.began, err = time.Parse(time.RFC3339, began); err == nil && bound != "" {
		w.from, err = time.Parse(time.RFC3339, bound)
	}
	if err != nil {
		return nil, usagef("--since-window: %w", err)
	}
	s.Filter = storage.And(w.filter(), s.Filter)
	if err := storage.CheckFilter(s.Filter); err != nil {
		return nil, usagef("--since adds a comparison: --%w", err)
	}
	text := "copies the rows written since " + bound
	switch {
	case bound == "" && o.since == lastSuccess:
		text = "copies all rows, since " + o.state + " is not there"
	case bound == "":
		text = "copies all rows"
	}
	meter.Say("since", text+"; rows that were deleted are not seen")
	return w, nil
}

// decide sets the window, by the service's clock.
func (o *copyOptions) decide(c *cobra.Command, w *changedRows, s sweep.Spec) error {
	began, err := moment(c.Context(), s)
	if err != nil {
		return err
	}
	var bound time.Time
	if o.since == lastSuccess {
		bound, err = w.state.last(o.state)
	} else {
		bound, err = parseSince(o.since, began)
	}
	if err != nil {
		return err
	}
	text := ""
	if !bound.IsZero() {
		bound = bound.Add(-o.overlap).UTC()
		if first := time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC); bound.Before(first) { // the service knows none before
			bound = first
		}
		if bound.After(began) {
			return usagef("--since %s leads to %s, but it is %s by the service's clock", o.since, bound.Format(time.RFC3339), began.UTC().Format(time.RFC3339))
		}
		text = bound.Format(time.RFC3339Nano)
	}
	return c.Flags().Set("since-window", text+"/"+began.UTC().Format(time.RFC3339Nano))
}

// succeeded writes the state, if one is kept.
func (w *changedRows) succeeded(path string) error {
	if w == nil || path == "" {
		return nil
	}
	w.state.Last = w.began
	if err := journal.Replace(path, w.state.text()); err != nil {
		return hinted{fmt.Errorf("the rows are copied, but --state: %w", err), "the next --since last copies them again"}
	}
	return nil
}

// The form of a state.
const (
	stateFormat  = "tablesweep-since"
	stateVersion = 1
)

// sinceState is what --state keeps: what the copy was about, and when the last success began.
type sinceState struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Copy    sinceCopy `json:"copy"`
	Last    time.Time `json:"last"`
	CRC     string    `json:"crc,omitempty"` // CRC-32C of the JSON without it
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
	text, _ := json.Marshal(c)
	return string(text)
}

// text returns the state's JSON, with its checksum.
func (s sinceState) text() []byte {
	s.CRC = ""
	text, _ := json.Marshal(s) // of strings, numbers and a time of this millennium
	s.CRC = fmt.Sprintf("%08x", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
	text, _ = json.Marshal(s)
	return append(text, '\n')
}

// last returns when the last success of a copy like this one began, zero if there was none.
func (s sinceState) last(path string) (time.Time, error) {
	text, err := os.ReadFile(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		var probe *os.File // or else hours of work would end with that
		if probe, err = os.CreateTemp(filepath.Dir(path), filepath.Base(path)); err == nil {
			err = errors.Join(probe.Close(), os.Remove(probe.Name()))
		}
	}
	if err != nil {
		return time.Time{}, usagef("--state: %w", err)
	}
	if text == nil {
		return time.Time{}, nil
	}
	var was sinceState
	switch err := json.Unmarshal(text, &was); {
	case err != nil:
		err = hinted{usagef("--state %s: the file is damaged: %w", path, err), damagedState}
		return time.Time{}, err
	case was.Format != stateFormat:
		return time.Time{}, usagef("--state %s: the file is no state of --since: its format is %.40q, want %q", path, was.Format, stateFormat)
	case was.Version != stateVersion:
		return time.Time{}, usagef("--state %s: the file has version %d; this program knows version %d", path, was.Version, stateVersion)
	case was.Last.IsZero() || string(was.text()) != string(text):
		return time.Time{}, hinted{usagef("--state %s: the file is damaged: its checksum does not fit", path), damagedState}
	}
	if was.Copy != s.Copy {
		err := usagef("--state %s: the file is about another copy: %v, not %v", path, was.Copy, s.Copy)
		return time.Time{}, hinted{err, "give each copy a file of its own"}
	}
	return was.Last, nil
}

const damagedState = "remove the file, and all rows are copied once, or give --since a time"
