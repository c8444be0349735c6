package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
)

// checkpointFlags are the flags of commands that can be resumed.
type checkpointFlags struct {
	checkpoint, resume string
	point              *sweep.Checkpoint // set by restore
	places             []string          // that the checkpoint was made for
	digest             string            // of the file of rows; "" without one
}

func (f *checkpointFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.checkpoint, "checkpoint", "", "file that records the progress; it must not exist, and is removed at the end")
	flags.StringVar(&f.resume, "resume", "", "resume from this checkpoint")
	c.PreRunE = func(c *cobra.Command, _ []string) error { return f.restore(c) }
}

// oncePerRun are flags that a checkpoint does not keep.
var oncePerRun = []string{"checkpoint", "resume", "progress", "json", "workers", "yes", "help", "dry-run", "patience", "pprof"}

// jobRecord is what a checkpoint keeps of a command.
type jobRecord struct {
	Version int               `json:"version"`
	Command string            `json:"command"`
	Flags   map[string]string `json:"flags"`
	Again   []string          `json:"again,omitempty"` // flags with a connection that may be secret
	Places  []string          `json:"places"`          // addresses of its tables and queue
	Rows    string            `json:"rows,omitempty"`  // a digest of the file of rows
}

// jobVersion changes with the record.
const jobVersion = 1

// restore sets flags to the checkpoint's values.
func (f *checkpointFlags) restore(c *cobra.Command) error {
	switch {
	case f.resume == "":
		return nil
	case f.checkpoint != "":
		return usagef("--checkpoint starts and --resume continues; give one of them")
	}
	var err error
	if f.point, err = sweep.ReadCheckpoint(f.resume); err != nil {
		switch {
		case errors.Is(err, sweep.ErrLocked):
			return hinted{usageError{err}, "wait until it has ended, or stop it"}
		case errors.Is(err, fs.ErrNotExist):
			return hinted{usageError{err}, "a finished command removes its checkpoint"}
		}
		return usageError{err}
	}
	var record jobRecord
	if err := json.Unmarshal(f.point.Job(), &record); err != nil || record.Command != c.Name() {
		return usagef("--resume %s: the file belongs to the command %q", f.resume, record.Command)
	}
	if record.Version != jobVersion {
		return usagef("--resume %s: another version of this program made the file; go on with that version", f.resume)
	}
	for _, name := range record.Again {
		if flag := c.Flags().Lookup(name); flag == nil || !flag.Changed {
			return usagef("--%s held more than a setting's name when the checkpoint was made, which does not keep secrets; give it again", name)
		}
	}
	f.places, f.digest = record.Places, record.Rows
	for _, name := range slices.Sorted(maps.Keys(record.Flags)) {
		flag := c.Flags().Lookup(name)
		switch {
		case flag == nil:
			return usagef("--resume %s: this program has no flag --%s", f.resume, name)
		case !flag.Changed:
			if err := c.Flags().Set(name, record.Flags[name]); err != nil {
				return usagef("--resume %s: %w", f.resume, err)
			}
		}
	}
	return record.changed(c.Flags())
}

// changed returns an error if a flag is no longer what it was. Files may stand elsewhere: the disk of --failed may
// be full, and a digest tells whether --rows is the list that it was. What a copy does afterwards may be added.
func (r jobRecord) changed(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(flag *pflag.Flag) {
		was, given := r.Flags[flag.Name]
		switch {
		case err != nil || slices.Contains(oncePerRun, flag.Name) || slices.Contains(r.Again, flag.Name):
		case flag.Name == "failed" || flag.Name == "rows" && given || flag.Name == "verify" && !given:
		case !given && strings.Contains(flag.Name, "connection"): // the places tell
		case !given && flagText(flag) != flag.DefValue:
			err = usagef("--%s was not given when the checkpoint was made and can't change; leave it out", flag.Name)
		case given && flagText(flag) != was:
			err = usagef("--%s was %q when the checkpoint was made and can't change; leave it out", flag.Name, was)
		}
	})
	return err
}

// flagText returns a flag's value in the form that its Set method takes.
func flagText(f *pflag.Flag) string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(list.GetSlice(), ",")
	}
	return f.Value.String()
}

// begin returns the checkpoint, a new one or that to go on from, nil if none was asked for. places are
// the addresses of the tables and queues that the command is about: a checkpoint is good for
// them alone.
func (f *checkpointFlags) begin(c *cobra.Command, places ...string) (*sweep.Checkpoint, error) {
	switch {
	case f.point != nil && !slices.Equal(places, f.places):
		return nil, usagef("the checkpoint is about %s, not %s; check the connections", strings.Join(f.places, " and "), strings.Join(places, " and "))
	case f.checkpoint != "":
		var err error
		f.point, err = sweep.NewCheckpoint(f.checkpoint, f.record(c, places))
		if errors.Is(err, fs.ErrExist) {
			return nil, hinted{usageError{err}, "--resume continues from it; remove it to start over"}
		}
		if err != nil {
			return nil, usageError{err}
		}
	}
	return f.point, nil
}

func (f *checkpointFlags) record(c *cobra.Command, places []string) json.RawMessage {
	r := jobRecord{Version: jobVersion, Command: c.Name(), Flags: map[string]string{}, Places: places, Rows: f.digest}
	c.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case slices.Contains(oncePerRun, f.Name):
		case strings.Contains(f.Name, "connection") && !isSetting(f.Value.String()):
			r.Again = append(r.Again, f.Name)
		default:
			r.Flags[f.Name] = flagText(f)
		}
	})
	b, err := json.Marshal(r)
	if err != nil {
		panic("handler: internal error: " + err.Error())
	}
	return b
}

// ended returns the error of a command's sweep, which may be nil, with a hint how to go on. The
// checkpoint of one that came to its end is removed.
func (f *checkpointFlags) ended(c *cobra.Command, err error) error {
	switch {
	case err == nil && f.point != nil:
		return f.point.Remove()
	case err == nil:
		return nil
	case f.point != nil:
		return hinted{err, fmt.Sprintf("%s %s --resume %s continues with the rest", c.Root().Name(), c.Name(), cmp.Or(f.resume, f.checkpoint))}
	case errors.Is(err, sweep.ErrInterrupted):
		return hinted{err, "it can't be resumed without --checkpoint FILE"}
	case errors.Is(err, storage.ErrAway):
		return hinted{err, "it can't be resumed without --checkpoint FILE; --patience sets how long to wait for an account"}
	}
	return err
}
