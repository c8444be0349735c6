package main

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/file"
	"tablesweep/internal/file/journal"
	"tablesweep/internal/job"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep/jobrecord"
	"tablesweep/internal/task"
)

// checkpointFlags are the flags of commands that can be resumed.
type checkpointFlags struct {
	checkpoint, resume string
	path               string            // of a new file, if it lies in the directory that checkpoint names; "" if it is that file
	file               *journal.File     // set by restore or begin; nil without a checkpoint
	record             jobrecord.Record  // of the checkpoint, set by restore or begin
	was                job.Facts         // of the checkpoint, set by restore
	own                map[string]string // values of flags that a record has in place of the command's
	export             string            // the id of the export of many tables that the command makes; "" for others
}

func (f *checkpointFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.checkpoint, "checkpoint", "", "new file that records the progress until the end")
	flags.StringVar(&f.resume, "resume", "", "resume from this checkpoint")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		return f.during(c, func() error { return run(c, args) })
	}
}

// during calls run with the flags as the checkpoint has them, and then lets others go on with it.
func (f *checkpointFlags) during(c *cobra.Command, run func() error) error {
	err := f.restore(c)
	if err == nil {
		err = run()
	}
	if err != nil && f.file != nil && c.Context().Err() != nil && !errors.As(err, new(job.Hinted)) { // interrupted before the work was begun
		err = f.ended(c, interrupted(err), nil)
	}
	if f.file != nil {
		_ = f.file.Close()
	}
	return err
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
		return job.BadCheckpoint(err)
	}
	if f.record, err = jobrecord.Parse(f.file.Job(), jobName(c)); err != nil {
		return usagef("--resume %s: %w", f.resume, err)
	}
	if export {
		delete(f.record.Flags, "to") // it may have moved
	}
	if err := f.restoreFlags(c); err != nil || !export || f.own != nil {
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
		export = export || job.IsThere(filepath.Join(dir, name))
	}
	if export {
		return filepath.Join(dir, place.JournalName), true
	}
	return filepath.Join(dir, job.TablesJournal), false
}

// withoutJournal is the error of an export in a directory that can't be resumed.
func withoutJournal(dir string) error {
	if job.IsThere(filepath.Join(dir, place.ManifestName)) {
		return usagef("--resume: %s is a complete export; nothing is left to do", dir)
	}
	return job.Hint(usagef("--resume: %s has no %s: it is gone, or another version of this program has begun the export", dir, place.JournalName), "export to another directory")
}

// restoreFlags sets flags to the record's values.
func (f *checkpointFlags) restoreFlags(c *cobra.Command) error {
	f.was.Digest, f.export = f.record.Rows, f.record.Export
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
	set, err := f.record.Restore(recordFlags(c, home, f.own))
	if err != nil {
		return usagef("--resume %s: %w", f.resume, err)
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		switch {
		case f.own == nil:
		case name == windowFlag:
			f.was.Window = restored[name]
			continue
		default:
			return usagef("--resume %s: --%s was not given to the command about many tables", f.resume, name)
		}
		if err := c.Flags().Set(name, restored[name]); err != nil {
			return usagef("--resume %s: %w", f.resume, err)
		}
	}
	return nil
}

// recordFlags returns the command's flags as a record takes them. home is what [homeOf] returns for its file; own are the values of flags that
// a table has in place of the command's, "" for none.
func recordFlags(c *cobra.Command, home string, own map[string]string) (flags []jobrecord.Flag) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		given, value := f.Changed, flagText(f)
		if text, mine := own[f.Name]; mine {
			given, value = text != "", cmp.Or(text, f.DefValue)
		}
		ok := true
		if given {
			value, ok = toRecord(f, value, home)
		}
		flags = append(flags, jobrecord.Flag{Name: f.Name, Value: value, Default: f.DefValue, Given: given, Again: !ok})
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
func toRecord(f *pflag.Flag, value, home string) (kept string, ok bool) {
	switch {
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
	case leadsElsewhere(f, kept), f.Name == "map" && strings.HasPrefix(kept, "@"): // whose file would be read
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

// begin opens the checkpoint of a job, a new one or that to go on from, if one was asked for.
func (f *checkpointFlags) begin(c *cobra.Command, facts job.Facts) (r job.Record, err error) {
	if f.file != nil {
		if err := f.record.At(facts.Places); err != nil {
			return r, usageError(err)
		}
		return job.Record{Journal: f.file}, nil
	}
	own := maps.Clone(f.own)
	if facts.Window != "" {
		if own == nil {
			own = map[string]string{}
		}
		own[windowFlag] = facts.Window
	}
	home, path := "", cmp.Or(f.path, f.checkpoint)
	if path != "" {
		home = homeOf(f.checkpoint)
	}
	f.record = jobrecord.New(jobName(c), recordFlags(c, home, own), facts.Places, facts.Digest)
	f.record.Export = f.export
	r.Request = f.record.JSON()
	if path == "" {
		return r, nil
	}
	f.file, err = journal.New(path, r.Request)
	switch {
	case errors.Is(err, fs.ErrExist):
		return r, job.Hint(usagef("checkpoint %w", err), "--resume continues from it; remove it to start over")
	case err != nil && isDirectory(path):
		return r, job.Hint(usagef("--checkpoint: %s is a directory", path), "name a file in it")
	case errors.Is(err, file.ErrNotRegular):
		return r, job.Hint(usagef("checkpoint %w", err), "--resume needs a file to go on from: name one, or leave --checkpoint out")
	case err != nil:
		return r, usagef("checkpoint %w", err)
	}
	r.Journal = f.file
	return r, nil
}

// do runs a job with its checkpoint, prints its result by show, and removes the checkpoint.
func (f *checkpointFlags) do(c *cobra.Command, j *job.Job, show func(job.Result) error) (job.Result, error) {
	record, err := f.begin(c, j.Facts)
	if err != nil {
		return job.Result{}, err
	}
	r, err := j.Run(c.Context(), record)
	if err == nil || r.Begun {
		err = f.ended(c, err, func() error { return show(r) })
	}
	return r, err
}

// ended prints the result of a command that came to its end, and then removes the checkpoint. If
// err is not nil, it returns that with a hint how to go on.
func (f *checkpointFlags) ended(c *cobra.Command, err error, result func() error) error {
	switch {
	case err == nil:
		if err := result(); err != nil || f.file == nil {
			return err
		}
		if part := sharedBy(c).part; part != nil {
			part.Ended = f.file
			return nil
		}
		return f.file.Remove()
	case f.file != nil:
		path := cmp.Or(f.resume, f.checkpoint)
		if !job.IsThere(f.file.Path()) { // nothing was begun
			return err
		}
		return job.Hint(err, f.resumes(c, path))
	case errors.As(err, new(job.Hinted)):
	case errors.Is(err, task.ErrInterrupted):
		return job.Hint(err, "it can't be resumed without --checkpoint FILE")
	case errors.Is(err, storage.ErrAway):
		return job.Hint(err, "it can't be resumed without --checkpoint FILE; --patience sets how long to wait for an account")
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
