// Package jobrecord defines a checkpoint's record of its command: the command's options, the addresses of its places, and a digest of its list of
// rows. The package decides which options a resumed command takes from the record, and which must not change. A record contains no secrets. A
// checkpoint may come from somebody else. So its record may contain only options that the command allows, and must not choose a connection.
package jobrecord

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// version must change when the format of records changes.
const version = 1

// Record is a checkpoint's record of a command, stored as JSON.
type Record struct {
	Version int               `json:"version"`
	Command string            `json:"command"`
	Flags   map[string]string `json:"flags"`
	Again   []string          `json:"again,omitempty"`  // names of options that must be given again, because their values may be secret or lead to another account
	Places  []string          `json:"places"`           // addresses of the command's tables and queue
	Rows    string            `json:"rows,omitempty"`   // a digest of the list of rows
	Export  string            `json:"export,omitempty"` // the id of the command's export of many tables
}

// Option is an option of a command.
type Option struct {
	Name    string
	Keep    Keep
	Value   string // the value in the form that a record stores
	Default string // the value if the option is not given
	Again   bool   // not stored, because the value may be secret or may decide who receives rows or tokens
}

func (o Option) isGiven() bool { return o.Value != o.Default }

// Keep defines whether a record contains an option, and how the option may change in a later run.
type Keep int

const (
	PerRun  Keep = iota // not in the record, because the option applies to one run only
	Fixed               // must not change
	Free                // may change
	Added               // a later run may add the option, but must not change it
	EachRun             // each run must repeat the option, because it chooses a connection; the record contains the option only for an error message
	File                // names a file, which may have moved
	AnyFile             // names a file, which may have moved; a later run may also add the option
)

// New returns the record of a command that is about to start.
func New(command string, options []Option, places []string, rows string) Record {
	r := Record{Version: version, Command: command, Flags: map[string]string{}, Places: places, Rows: rows}
	for _, o := range options {
		switch {
		case !o.isGiven() || o.Keep == PerRun:
		case o.Again:
			r.Again = append(r.Again, o.Name)
		default:
			r.Flags[o.Name] = o.Value
		}
	}
	return r
}

// JSON returns the stored form of the record.
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
		return r, fmt.Errorf("the file belongs to the command %q; use it with that command", r.Command)
	}
	if r.Version != version {
		return r, fmt.Errorf("another version of this program made the file; continue with that version")
	}
	return r, nil
}

// Restore returns the recorded values of the options that a resumed command does not give. It fails if the command changes an option that must not
// change, or omits an option that must be given again. It also fails if the record contains an option that no record may contain.
//
// An option that names a file may change, because the file may have been moved, for example to a larger disk. The digest in Record.Rows shows
// whether the file of --rows still contains the same list. A resumed command may change limits. It may also add --verify, because this option
// applies only after the copy.
func (r Record) Restore(options []Option) (set map[string]string, err error) {
	all := map[string]Option{}
	for _, o := range options {
		all[o.Name] = o
	}
	set = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(r.Flags)) {
		switch o, known := all[name]; {
		case !known:
			return nil, fmt.Errorf("the file contains the flag --%s, which this command does not accept", name)
		case o.Keep == PerRun:
			return nil, fmt.Errorf("the file contains the flag --%s, which is not allowed in a checkpoint", name)
		case !o.isGiven() && (o.Keep != EachRun || r.Flags[name] == o.Default):
			set[name] = r.Flags[name]
		}
	}
	var missing []string
	for _, name := range r.Required(options) {
		if _, restored := set[name]; !restored && !all[name].isGiven() {
			missing = append(missing, strings.TrimSpace("--"+name+" "+r.Flags[name]))
		}
	}
	if missing != nil {
		return nil, fmt.Errorf("give %s again: for safety, a checkpoint does not supply connections, URLs or files in other directories", strings.Join(missing, " and "))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if o := all[name]; o.isGiven() {
			if err := r.checkUnchanged(o); err != nil {
				return nil, err
			}
		}
	}
	return set, nil
}

// Required returns the names of the options that must be given again to resume the command. It omits options that were not given to the first run.
func (r Record) Required(options []Option) []string {
	names := slices.Clone(r.Again)
	for _, o := range options {
		if _, kept := r.Flags[o.Name]; kept && o.Keep == EachRun {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkUnchanged returns an error if the given option must not change and has changed.
func (r Record) checkUnchanged(o Option) error {
	was, kept := r.Flags[o.Name]
	switch keep := o.Keep; {
	case keep == PerRun || keep == Free || keep == EachRun || keep == AnyFile || slices.Contains(r.Again, o.Name): // these options may change, but [Record.CheckPlaces] checks that connections lead to the same places
	case kept && keep == File || !kept && keep == Added:
	case !kept:
		return fmt.Errorf("--%[1]s cannot be added, because the checkpoint was made without it; resume without --%[1]s", o.Name)
	case o.Value != was:
		return fmt.Errorf("--%[1]s was %[2]q when the checkpoint was made; to continue with this value, leave --%[1]s out", o.Name, was)
	}
	return nil
}

// CheckPlaces returns an error if the places of a resumed command differ from those in the record.
func (r Record) CheckPlaces(places []string) error {
	if slices.Equal(places, r.Places) {
		return nil
	}
	return fmt.Errorf("the checkpoint is for %s, not %s; check the connections", strings.Join(r.Places, " and "), strings.Join(places, " and "))
}
