// Package jobrecord has what a checkpoint keeps of the command that made it: the flags, the
// addresses of what it reads and writes, and a digest of its list of rows. It decides what a resumed
// command takes over and what must not change, and keeps no secrets. Somebody else may have written
// the file, so a record has only the flags that are listed here, and chooses no connection.
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
	Again   []string          `json:"again,omitempty"`  // flags to be given again: what they had may be secret, or lead elsewhere
	Places  []string          `json:"places"`           // addresses of its tables and queue
	Rows    string            `json:"rows,omitempty"`   // a digest of the list of rows
	Export  string            `json:"export,omitempty"` // the id of the export of many tables that it makes
}

// Flag is a flag of a command.
type Flag struct {
	Name    string
	Value   string // as a record has it
	Default string
	Given   bool
	Again   bool // a record must not have the value: it may be secret, or says where rows or tokens go
}

// keep is how a record keeps a flag.
type keep int

const (
	fixed   keep = iota + 1 // it must not change
	free                    // it may change
	added                   // it may be given in a later run, and must not change then
	asked                   // it chooses a connection, so it is given in each run; the record has it for the error
	aFile                   // it names a file, which may stand elsewhere
	anyFile                 // it does, too, and may be given in a later run
)

// keeps are the flags that a record has. All others are about one run.
var keeps = map[string]keep{
	"from": fixed, "to": fixed, "table": fixed, "all": fixed, "tables": fixed, "queue": fixed,
	"connection": asked, "from-connection": asked, "to-connection": asked, "queue-connection": asked, "catalog": asked,
	"prefix": fixed, "after": fixed, "before": fixed, "filter": fixed, "select": fixed,
	"rows": aFile, "failed": anyFile, "state": aFile,
	"mode": fixed, "verify": added, "compress": fixed, "with-timestamp": fixed,
	"since": fixed, "overlap": fixed, "since-window": fixed,
	"map": fixed, "rename": fixed, "drop": fixed, "types": fixed, "delimiter": fixed, "format": fixed,
	"repair": fixed, "allow-extra": fixed, "list": fixed,
	"message": fixed, "encoding": fixed,
	"index-keys": fixed, "row-key": fixed, "wal": fixed,
	"max-rows-per-second": free, "max-requests-per-second": free,
}

// Keeps reports whether records have a flag.
func Keeps(name string) bool { return keeps[name] != 0 }

// IsFile reports whether a flag that records have names a file.
func IsFile(name string) bool { return keeps[name] == aFile || keeps[name] == anyFile }

// New returns the record of a command that is about to start.
func New(command string, flags []Flag, places []string, rows string) Record {
	r := Record{Version: version, Command: command, Flags: map[string]string{}, Places: places, Rows: rows}
	for _, f := range flags {
		switch {
		case !f.Given || !Keeps(f.Name):
		case f.Again:
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
// that can't change, if one is not given that the record must not decide, and if the record has one that records don't have.
//
// Files may stand elsewhere: the disk of --failed may be full, and the digest tells whether --rows
// is the list that it was. What a copy does afterwards may be added, and limits may change.
func (r Record) Restore(flags []Flag) (set map[string]string, err error) {
	all := map[string]Flag{}
	for _, f := range flags {
		all[f.Name] = f
	}
	set = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(r.Flags)) {
		switch f, known := all[name]; {
		case !known:
			return nil, fmt.Errorf("this command has no flag --%s", name)
		case !Keeps(name):
			return nil, fmt.Errorf("the file has --%s, which no checkpoint has", name)
		case !f.Given && (keeps[name] != asked || r.Flags[name] == f.Default):
			set[name] = r.Flags[name]
		}
	}
	var missing []string
	for _, name := range r.Asks() {
		if _, restored := set[name]; !restored && !all[name].Given {
			missing = append(missing, strings.TrimSpace("--"+name+" "+r.Flags[name]))
		}
	}
	if missing != nil {
		return nil, fmt.Errorf("give %s again: a checkpoint does not choose connections, URLs and files that lie elsewhere", strings.Join(missing, " and "))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if f := all[name]; f.Given {
			if err := r.unchanged(f); err != nil {
				return nil, err
			}
		}
	}
	return set, nil
}

// Asks returns the names of the flags that a resumed command must be given, unless they have their defaults.
func (r Record) Asks() []string {
	names := slices.Clone(r.Again)
	for name := range r.Flags {
		if keeps[name] == asked {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// unchanged returns an error if a flag that is given has changed and must not.
func (r Record) unchanged(f Flag) error {
	was, kept := r.Flags[f.Name]
	switch keep := keeps[f.Name]; {
	case keep == 0 || keep == free || keep == asked || keep == anyFile || slices.Contains(r.Again, f.Name): // the places tell of connections
	case kept && keep == aFile || !kept && keep == added:
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
