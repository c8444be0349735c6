package main

import (
	"cmp"
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
	"tablesweep/internal/sweep/jobrecord"
)

// checkpointFlags are the flags of commands that can be resumed.
type checkpointFlags struct {
	checkpoint, resume string
	point              *sweep.Checkpoint // set by restore
	record             jobrecord.Record  // of the checkpoint, set by restore
	digest             string            // of the file of rows; "" without one
}

func (f *checkpointFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.checkpoint, "checkpoint", "", "file that records the progress; it must not exist, and is removed at the end")
	flags.StringVar(&f.resume, "resume", "", "resume from this checkpoint")
	c.PreRunE = func(c *cobra.Command, _ []string) error { return f.restore(c) }
}

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
	if f.record, err = jobrecord.Parse(f.point.Job(), c.Name()); err != nil {
		return usagef("--resume %s: %w", f.resume, err)
	}
	f.digest = f.record.Rows
	set, err := f.record.Restore(recordFlags(c))
	if err != nil {
		return usageError{err}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if err := c.Flags().Set(name, set[name]); err != nil {
			return usagef("--resume %s: %w", f.resume, err)
		}
	}
	return nil
}

// recordFlags returns the command's flags as a record takes them.
func recordFlags(c *cobra.Command) (flags []jobrecord.Flag) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		flags = append(flags, jobrecord.Flag{
			Name: f.Name, Value: flagText(f), Default: f.DefValue, Given: f.Changed,
			Secret: strings.Contains(f.Name, "connection") && !isSetting(f.Value.String()),
		})
	})
	return flags
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
	case f.point != nil:
		if err := f.record.At(places); err != nil {
			return nil, usageError{err}
		}
	case f.checkpoint != "":
		var err error
		f.point, err = sweep.NewCheckpoint(f.checkpoint, jobrecord.New(c.Name(), recordFlags(c), places, f.digest).JSON())
		if errors.Is(err, fs.ErrExist) {
			return nil, hinted{usageError{err}, "--resume continues from it; remove it to start over"}
		}
		if err != nil {
			return nil, usageError{err}
		}
	}
	return f.point, nil
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
