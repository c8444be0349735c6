package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/jobrecord"
	"tablesweep/internal/sweep/journal"
)

// checkpointFlags are the flags of commands that can be resumed.
type checkpointFlags struct {
	checkpoint, resume string
	file               *journal.File    // set by restore or begin; nil without a checkpoint
	record             jobrecord.Record // of the checkpoint, set by restore
	digest             string           // of the file of rows; "" without one
}

func (f *checkpointFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.checkpoint, "checkpoint", "", "file that records the progress; it must not exist, and is removed at the end")
	flags.StringVar(&f.resume, "resume", "", "resume from this checkpoint")
	c.PreRunE = func(c *cobra.Command, _ []string) error { return f.restore(c) }
}

// refused is the error of a checkpoint that is not taken, with advice.
func refused(err error) error {
	err = fmt.Errorf("checkpoint %w", err)
	switch {
	case errors.Is(err, journal.ErrLocked):
		return hinted{usageError{err}, "wait until it has ended, or stop it"}
	case errors.Is(err, fs.ErrNotExist):
		return hinted{usageError{err}, "a finished command removes its checkpoint"}
	case errors.Is(err, journal.ErrDamaged):
		return hinted{usageError{err}, "bring back a copy of the file, or start over with a new --checkpoint: rows that are done already stay as they are, but enqueue puts their messages again"}
	}
	return usageError{err}
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
	path := f.resume
	if isDirectory(path) { // of many tables
		path = filepath.Join(path, tablesName)
	}
	if f.file, err = journal.Read(path); err != nil {
		return refused(err)
	}
	if f.record, err = jobrecord.Parse(f.file.Job(), jobName(c)); err != nil {
		return usagef("--resume %s: %w", f.resume, err)
	}
	return f.restoreFlags(c)
}

// restoreFlags sets flags to the record's values.
func (f *checkpointFlags) restoreFlags(c *cobra.Command) error {
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
			Secret: strings.Contains(f.Name, "connection") && !isSetting(f.Value.String()) || hasSAS(f.Value),
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

// begin returns the file of a checkpoint, a new one or that to go on from, nil if none was asked for. places are
// the addresses of the tables and queues that the command is about: a checkpoint is good for
// them alone.
func (f *checkpointFlags) begin(c *cobra.Command, places ...string) (*journal.File, error) {
	switch {
	case f.file != nil:
		if err := f.record.At(places); err != nil {
			return nil, usageError{err}
		}
	case f.checkpoint != "":
		var err error
		f.file, err = journal.New(f.checkpoint, jobrecord.New(jobName(c), recordFlags(c), places, f.digest).JSON())
		if errors.Is(err, fs.ErrExist) {
			return nil, hinted{usagef("checkpoint %w", err), "--resume continues from it; remove it to start over"}
		}
		if err != nil {
			return nil, usagef("checkpoint %w", err)
		}
	}
	return f.file, nil
}

// beginSweep returns the checkpoint of a sweep as begin does.
func (f *checkpointFlags) beginSweep(c *cobra.Command, places ...string) (*sweep.Checkpoint, error) {
	file, err := f.begin(c, places...)
	if file == nil || err != nil {
		return nil, err
	}
	point, err := sweep.NewCheckpoint(file)
	if err != nil {
		return nil, refused(err)
	}
	return point, nil
}

// ended prints the result of a command that came to its end, and then removes the checkpoint. If
// err is not nil, it returns that with a hint how to go on.
func (f *checkpointFlags) ended(c *cobra.Command, err error, result func() error) error {
	switch {
	case err == nil:
		if err := result(); err != nil || f.file == nil {
			return err
		}
		if t := sharedBy(c).together; t != nil {
			t.ended = f.file
			return nil
		}
		return f.file.Remove()
	case f.file != nil:
		path := cmp.Or(f.resume, f.checkpoint)
		if _, statErr := os.Stat(path); statErr != nil { // nothing was begun
			return err
		}
		return hinted{err, fmt.Sprintf("%s --resume %s continues with the rest", c.CommandPath(), path)}
	case errors.As(err, new(hinted)):
	case errors.Is(err, sweep.ErrInterrupted):
		return hinted{err, "it can't be resumed without --checkpoint FILE"}
	case errors.Is(err, storage.ErrAway):
		return hinted{err, "it can't be resumed without --checkpoint FILE; --patience sets how long to wait for an account"}
	}
	return err
}
