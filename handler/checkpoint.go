package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/file"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/jobrecord"
	"tablesweep/internal/sweep/journal"
)

// checkpointFlags are the flags of commands that can be resumed.
type checkpointFlags struct {
	checkpoint, resume string
	file               *journal.File    // set by restore or begin; nil without a checkpoint
	record             jobrecord.Record // of the checkpoint, set by restore or begin
	digest             string           // of the file of rows; "" without one
	export             string           // the id of the export of many tables that the command makes; "" for others
}

func (f *checkpointFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.checkpoint, "checkpoint", "", "file that records the progress; it must not exist, and is removed at the end")
	flags.StringVar(&f.resume, "resume", "", "resume from this checkpoint; give connections, URLs, and files outside its directory again")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		err := f.restore(c)
		if err != nil {
			f.release()
		}
		return err
	}
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		defer f.release()
		return run(c, args)
	}
}

// release lets others go on with the checkpoint, if the command has ended without doing so.
func (f *checkpointFlags) release() {
	if f.file != nil {
		_ = f.file.Close()
	}
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
	path, export := f.resume, false
	if isDirectory(path) {
		path, export = journalIn(path)
	}
	var err error
	switch f.file, err = journal.Read(path); {
	case errors.Is(err, fs.ErrNotExist) && export:
		return withoutJournal(f.resume)
	case err != nil:
		return refused(err)
	}
	if f.record, err = jobrecord.Parse(f.file.Job(), jobName(c)); err != nil {
		return usagef("--resume %s: %w", f.resume, err)
	}
	if !export {
		return f.restoreFlags(c)
	}
	delete(f.record.Flags, "to") // it may have moved
	if err := f.restoreFlags(c); err != nil {
		return err
	}
	to := f.resume
	if kind, err := place.KindOf(to); err != nil || kind != place.KindExport {
		to = strings.TrimRight(to, "/") + "/"
	}
	return c.Flags().Set("to", to)
}

// journalIn returns the path of the journal in a directory: of the export that is made there, or else of a command about many tables.
func journalIn(dir string) (path string, export bool) {
	for _, name := range []string{place.JournalName, place.ClaimName} {
		export = export || isThere(filepath.Join(dir, name))
	}
	if export {
		return filepath.Join(dir, place.JournalName), true
	}
	return filepath.Join(dir, tablesName), false
}

// withoutJournal is the error of an export in a directory that can't be resumed.
func withoutJournal(dir string) error {
	if isThere(filepath.Join(dir, place.ManifestName)) {
		return usagef("--resume: %s is a complete export; nothing is left to do", dir)
	}
	return hinted{usagef("--resume: %s has no %s: it is gone, or another version of this program has begun the export", dir, place.JournalName), "export to another directory"}
}

// restoreFlags sets flags to the record's values.
func (f *checkpointFlags) restoreFlags(c *cobra.Command) error {
	f.digest, f.export = f.record.Rows, f.record.Export
	home, restored := homeOf(f.resume), map[string]string{}
	for name, kept := range f.record.Flags {
		flag := c.Flags().Lookup(name)
		if flag == nil {
			continue // Restore says so
		}
		value, ok := fromRecord(flag, kept, home)
		if restored[name] = value; !ok {
			delete(f.record.Flags, name)
			f.record.Again = append(f.record.Again, name)
		}
	}
	set, err := f.record.Restore(recordFlags(c, home))
	if err != nil {
		return usagef("--resume %s: %w", f.resume, err)
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if err := c.Flags().Set(name, restored[name]); err != nil {
			return usagef("--resume %s: %w", f.resume, err)
		}
	}
	return nil
}

// recordFlags returns the command's flags as a record takes them. home is what [homeOf] returns for its file.
func recordFlags(c *cobra.Command, home string) (flags []jobrecord.Flag) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		value, ok := toRecord(f, home)
		flags = append(flags, jobrecord.Flag{Name: f.Name, Value: value, Default: f.DefValue, Given: f.Changed, Again: !ok})
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

// homeOf returns the directory that holds what --checkpoint or --resume names: a file, or a directory with the file in it. The paths
// in a record are relative to it.
func homeOf(path string) string {
	if path = filepath.Clean(path); strings.HasSuffix(path, ".") { // . and .. do not name their parent
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
	}
	return filepath.Dir(path)
}

// toRecord returns a flag's value as a record keeps it. ok is false if a record must not have it.
func toRecord(f *pflag.Flag, home string) (value string, ok bool) {
	value = flagText(f)
	switch {
	case !f.Changed:
		return value, true
	case hasSAS(f.Value) || leadsElsewhere(f, value):
		return "", false
	case !onDisk(f, value):
		return value, true
	}
	return beside(home, value)
}

// beside returns the path of a file relative to a directory. It begins with ./, so it can't be a table's name. ok is false if the file is
// outside the directory.
func beside(home, path string) (rel string, ok bool) {
	from, err := filepath.Abs(home)
	to, toErr := filepath.Abs(path)
	rel, relErr := filepath.Rel(from, to)
	return "./" + filepath.ToSlash(rel), errors.Join(err, toErr, relErr) == nil && rel != "." && filepath.IsLocal(rel)
}

// fromRecord returns the value that a flag has in a record. ok is false if the record must not decide it.
func fromRecord(f *pflag.Flag, kept, home string) (value string, ok bool) {
	switch {
	case leadsElsewhere(f, kept):
		return "", false
	case !onDisk(f, kept):
		return kept, true
	case !filepath.IsLocal(filepath.FromSlash(kept)) || file.ByLink(home, kept):
		return "", false
	}
	value = filepath.Join(home, filepath.FromSlash(kept))
	if !onDisk(f, value) {
		value = "./" + value
	}
	return value, true
}

// leadsElsewhere reports whether a flag's value is a connection or a URL, which may lead anywhere, and not the name of a setting.
func leadsElsewhere(f *pflag.Flag, value string) bool {
	_, isPlace := placeOf(f.Value)
	return strings.Contains(f.Name, "connection") && !isSetting(value) || isPlace && place.IsURL(value)
}

// onDisk reports whether a flag's value is the path of a file or a directory.
func onDisk(f *pflag.Flag, value string) bool {
	if _, isPlace := placeOf(f.Value); isPlace && !place.InBlobs(value) {
		kind, _ := place.KindOf(value)
		return kind == place.KindExport || kind == place.KindFile
	}
	return jobrecord.IsFile(f.Name)
}

// begin returns the file of a checkpoint, a new one or that to go on from, nil if none was asked for. places are
// the addresses of the tables and queues that the command is about: a checkpoint is good for
// them alone.
func (f *checkpointFlags) begin(c *cobra.Command, places ...string) (*journal.File, error) {
	return f.beginAt(c, f.checkpoint, places...)
}

// beginAt is [checkpointFlags.begin] with another path for a new file. It may lie in the directory that --checkpoint names.
func (f *checkpointFlags) beginAt(c *cobra.Command, path string, places ...string) (*journal.File, error) {
	switch {
	case f.file != nil:
		if err := f.record.At(places); err != nil {
			return nil, usageError{err}
		}
	case path != "":
		var err error
		f.record = jobrecord.New(jobName(c), recordFlags(c, homeOf(f.checkpoint)), places, f.digest)
		f.record.Export = f.export
		f.file, err = journal.New(path, f.record.JSON())
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
		if !isThere(f.file.Path()) { // nothing was begun
			return err
		}
		return hinted{err, f.resumes(c, path)}
	case errors.As(err, new(hinted)):
	case errors.Is(err, sweep.ErrInterrupted):
		return hinted{err, "it can't be resumed without --checkpoint FILE"}
	case errors.Is(err, storage.ErrAway):
		return hinted{err, "it can't be resumed without --checkpoint FILE; --patience sets how long to wait for an account"}
	}
	return err
}

// resumes returns the command line that goes on, with the flags that a checkpoint does not choose.
func (f *checkpointFlags) resumes(c *cobra.Command, path string) string {
	text := c.CommandPath() + " --resume " + path
	for _, name := range f.record.Asks() {
		flag := c.Flags().Lookup(name)
		value := flagText(flag)
		switch {
		case hasSAS(flag.Value):
			value += "?SAS"
		case strings.Contains(name, "connection") && !isSetting(value):
			value = "CONNECTION" // it may be secret
		}
		text += " --" + name + " " + value
	}
	return text + " continues with the rest"
}
