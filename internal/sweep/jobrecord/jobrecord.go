// Package jobrecord has what a checkpoint keeps of the command that made it: the flags, the
// addresses of what it reads and writes, and a digest of its list of rows. It decides what a resumed
// command takes over and what must not change, and keeps no secrets.
package jobrecord

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// version changes with the record's form.
const version = 1

// Record is what is kept. Its JSON form is stored.
type Record struct {
	Version int               `json:"version"`
	Command string            `json:"command"`
	Flags   map[string]string `json:"flags"`
	Again   []string          `json:"again,omitempty"` // flags with what may be secret
	Places  []string          `json:"places"`          // addresses of its tables and queue
	Rows    string            `json:"rows,omitempty"`  // a digest of the list of rows
}

// Flag is a flag of a command.
type Flag struct {
	Name    string
	Value   string
	Default string
	Given   bool
	Secret  bool // the value may be secret
}

// oncePerRun are flags that a record does not keep.
var oncePerRun = []string{"checkpoint", "resume", "progress", "json", "workers", "yes", "help", "dry-run", "patience", "pprof"}

// New returns the record of a command that is about to start.
func New(command string, flags []Flag, places []string, rows string) Record {
	r := Record{Version: version, Command: command, Flags: map[string]string{}, Places: places, Rows: rows}
	for _, f := range flags {
		switch {
		case !f.Given || slices.Contains(oncePerRun, f.Name):
		case f.Secret:
			r.Again = append(r.Again, f.Name)
		default:
			r.Flags[f.Name] = f.Value
		}
	}
	return r
}

// JSON returns the stored form.
func (r Record) JSON() json.RawMessage {
	b, err := json.Marshal(r)
	if err != nil {
		panic("jobrecord: internal error: " + err.Error())
	}
	return b
}

// Parse reads the stored form of a command's record.
func Parse(text json.RawMessage, command string) (Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil || r.Command != command {
		return r, fmt.Errorf("the file belongs to the command %q", r.Command)
	}
	if r.Version != version {
		return r, fmt.Errorf("another version of this program made the file; go on with that version")
	}
	return r, nil
}

// Restore returns what a resumed command's flags that are not given must be set to. It fails if one is given
// that can't change, or a secret is not given again.
//
// Files may stand elsewhere: the disk of --failed may be full, and the digest tells whether --rows
// is the list that it was. What a copy does afterwards may be added, and limits may change.
func (r Record) Restore(flags []Flag) (set map[string]string, err error) {
	given, known := map[string]Flag{}, map[string]bool{}
	for _, f := range flags {
		known[f.Name] = true
		if f.Given {
			given[f.Name] = f
		}
	}
	for _, name := range r.Again {
		if !given[name].Given {
			return nil, fmt.Errorf("--%s may have held a secret when the checkpoint was made, which keeps none; give it again", name)
		}
	}
	set = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(r.Flags)) {
		switch {
		case !known[name]:
			return nil, fmt.Errorf("this program has no flag --%s", name)
		case !given[name].Given:
			set[name] = r.Flags[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if err := r.unchanged(given[name]); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// unchanged returns an error if a flag that is given has changed and must not.
func (r Record) unchanged(f Flag) error {
	was, kept := r.Flags[f.Name]
	switch {
	case slices.Contains(oncePerRun, f.Name) || slices.Contains(r.Again, f.Name):
	case f.Name == "failed" || strings.HasPrefix(f.Name, "max-") || f.Name == "rows" && kept || f.Name == "verify" && !kept:
	case !kept && strings.Contains(f.Name, "connection"): // the places tell
	case !kept && f.Value != f.Default:
		return fmt.Errorf("--%s was not given when the checkpoint was made and can't change; leave it out", f.Name)
	case kept && f.Value != was:
		return fmt.Errorf("--%s was %q when the checkpoint was made and can't change; leave it out", f.Name, was)
	}
	return nil
}

// At returns an error if a resumed command is about other places.
func (r Record) At(places []string) error {
	if slices.Equal(places, r.Places) {
		return nil
	}
	return fmt.Errorf("the checkpoint is about %s, not %s; check the connections", strings.Join(r.Places, " and "), strings.Join(places, " and "))
}
