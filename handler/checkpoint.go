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

	"tablesweep/internal/file"
	"tablesweep/internal/file/journal"
	"tablesweep/internal/job"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep/jobrecord"
	"tablesweep/internal/task"
)

// checkpointFlags are the flags of commands that can be resumed.
type checkpointFlags struct{ checkpoint, resume string }

func (f *checkpointFlags) options() []option {
	return []option{
		{"checkpoint", perRun, &f.checkpoint, nil, "new file that records the progress until the end"},
		{"resume", perRun, &f.resume, nil, "resume from this checkpoint"},
	}
}

// resumable returns the flags, of commands that have them.
func (f *checkpointFlags) resumable() checkpointFlags { return *f }

// point is the checkpoint of a call.
type point struct {
	checkpointFlags
	path   string           // of a new file, if it lies in the directory that checkpoint names; "" if it is that file
	file   *journal.File    // set by restore or begin; nil without a checkpoint
	record jobrecord.Record // of the file, set by restore or begin
	export string           // the id of the export of many tables that the command makes; "" for others
}

// run runs the command with the options as the checkpoint has them, if there is one, and then lets others go on with it.
func (r *call) run(o runnable) error {
	r.command = o
	if o, ok := o.(interface{ resumable() checkpointFlags }); ok {
		r.point.checkpointFlags = o.resumable()
	}
	err := r.restore()
	if err == nil {
		err = o.run(r)
	}
	if err != nil && r.point.file != nil && r.ctx.Err() != nil && !errors.As(err, new(job.Hinted)) { // interrupted before the work was begun
		err = r.leave(interrupted(err))
	}
	if r.point.file != nil {
		_ = r.point.file.Close()
	}
	return err
}

// restore opens the checkpoint to go on from, and sets the options that it has and that are not given.
func (r *call) restore() (err error) {
	p := &r.point
	switch {
	case p.resume == "":
		return nil
	case p.checkpoint != "":
		return usagef("--checkpoint starts and --resume continues; give one of them")
	case place.InBlobs(p.resume):
		return usagef("--resume takes the file that --checkpoint named, not blobs")
	}
	path, export := p.resume, false
	if isDirectory(path) {
		path, export = journalIn(path)
	}
	switch p.file, err = journal.Read(path); {
	case errors.Is(err, fs.ErrNotExist) && export:
		return withoutJournal(p.resume)
	case err != nil:
		return job.BadCheckpoint(err)
	}
	p.record, err = jobrecord.Parse(p.file.Job(), r.jobName())
	if err == nil {
		p.export = p.record.Export
		err = r.restoreOptions(export)
	}
	if err != nil {
		return usagef("--resume %s: %w", p.resume, err)
	}
	return nil
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

// restoreOptions sets options to the record's values. An export does not say where it is: it may have moved.
func (r *call) restoreOptions(export bool) error {
	table, record, home := r.command.options(), &r.point.record, homeOf(r.point.resume)
	values := map[string]string{}
	for name, kept := range record.Flags {
		o, known := find(table, name)
		if !known {
			continue // Restore says so
		}
		value, ok := o.fromRecord(kept, home)
		if values[name] = value; !ok {
			delete(record.Flags, name)
			record.Again = append(record.Again, name)
		}
	}
	if export {
		to := r.point.resume
		if kind, err := place.KindOf(to); err != nil || kind != place.KindExport {
			to = strings.TrimRight(to, "/") + "/"
		}
		record.Flags["to"], _ = beside(home, to)
		values["to"] = to
	}
	set, err := record.Restore(r.toRecord(home))
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		o, _ := find(table, name)
		if r.part != nil && o.usage != "" {
			return fmt.Errorf("--%s was not given to the command about many tables", name)
		}
		if err := o.value().Set(values[name]); err != nil {
			return err
		}
	}
	return nil
}

// toRecord returns the options as a record takes them, in a file in the directory home.
func (r *call) toRecord(home string) (all []jobrecord.Option) {
	for _, o := range r.command.options() {
		to := jobrecord.Option{Name: o.name, Keep: o.keep, Value: o.text(), Default: o.byDefault()}
		if to.Value != to.Default {
			kept, ok := o.toRecord(to.Value, home)
			if to.Again = !ok; ok {
				to.Value = kept
			}
		}
		all = append(all, to)
	}
	return all
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

// toRecord returns a value as a record keeps it. ok is false if a record must not have it.
func (o option) toRecord(value, home string) (kept string, ok bool) {
	switch {
	case o.hasSAS() || o.leadsElsewhere(value):
		return "", false
	case !o.onDisk(value):
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

// fromRecord returns the value of what a record keeps. ok is false if the record must not decide it.
func (o option) fromRecord(kept, home string) (value string, ok bool) {
	_, program := o.field.(programValue)
	switch {
	case o.leadsElsewhere(kept), program && strings.HasPrefix(kept, "@"): // whose file would be read
		return "", false
	case !o.onDisk(kept):
		return kept, true
	case !filepath.IsLocal(filepath.FromSlash(kept)) || file.ByLink(home, kept):
		return "", false
	}
	value = filepath.Join(home, filepath.FromSlash(kept))
	if !o.onDisk(value) {
		value = "./" + value
	}
	return value, true
}

// hasSAS reports whether the option is a place with a SAS.
func (o option) hasSAS() bool {
	at, ok := o.field.(*location)
	return ok && at.sas != ""
}

// leadsElsewhere reports whether a value is a connection or a URL, which may lead anywhere, and not the name of a setting.
func (o option) leadsElsewhere(value string) bool {
	switch o.field.(type) {
	case *connection:
		return !isSetting(value)
	case *location:
		return place.IsURL(value)
	}
	return false
}

// onDisk reports whether a value is the path of a file or a directory.
func (o option) onDisk(value string) bool {
	if _, ok := o.field.(*location); ok && !place.InBlobs(value) {
		kind, _ := place.KindOf(value)
		return kind == place.KindExport || kind == place.KindFile
	}
	return o.keep == aFile || o.keep == anyFile
}

// begin opens the checkpoint of a job, a new one or that to go on from, if one was asked for.
func (r *call) begin(facts job.Facts) (record job.Record, err error) {
	p := &r.point
	if p.file != nil {
		if err := p.record.At(facts.Places); err != nil {
			return record, usageError(err)
		}
		return job.Record{Journal: p.file}, nil
	}
	home, path := "", cmp.Or(p.path, p.checkpoint)
	if path != "" {
		home = homeOf(p.checkpoint)
	}
	p.record = jobrecord.New(r.jobName(), r.toRecord(home), facts.Places, facts.Digest)
	p.record.Export = p.export
	record.Request = p.record.JSON()
	if path == "" {
		return record, nil
	}
	p.file, err = journal.New(path, record.Request)
	switch {
	case errors.Is(err, fs.ErrExist):
		return record, job.Hint(usagef("checkpoint %w", err), "--resume continues from it; remove it to start over")
	case err != nil && isDirectory(path):
		return record, job.Hint(usagef("--checkpoint: %s is a directory", path), "name a file in it")
	case errors.Is(err, file.ErrNotRegular):
		return record, job.Hint(usagef("checkpoint %w", err), "--resume needs a file to go on from: name one, or leave --checkpoint out")
	case err != nil:
		return record, usagef("checkpoint %w", err)
	}
	record.Journal = p.file
	return record, nil
}

// do runs a job with its checkpoint, prints its result by show, and removes the checkpoint.
func (r *call) do(j *job.Job, show func(job.Result) error) (done job.Result, err error) {
	record, err := r.begin(j.Facts)
	if err != nil {
		return done, err
	}
	done, err = j.Run(r.ctx, record)
	switch {
	case err == nil:
		err = r.finish(func() error { return show(done) })
	case done.Begun:
		err = r.leave(err)
	}
	return done, err
}

// finish prints the result of a command that came to its end, and then removes the checkpoint.
func (r *call) finish(result func() error) error {
	file := r.point.file
	switch err := result(); {
	case err != nil || file == nil:
		return err
	case r.part != nil:
		r.part.Ended = file
		return nil
	}
	return file.Remove()
}

// leave returns the error of a command that did not come to its end, with a hint how to go on.
func (r *call) leave(err error) error {
	p := r.point
	switch {
	case p.file != nil && job.IsThere(p.file.Path()): // or else nothing was begun
		return job.Hint(err, r.resumes(cmp.Or(p.resume, p.checkpoint)))
	case p.file != nil, errors.As(err, new(job.Hinted)):
	case errors.Is(err, task.ErrInterrupted):
		return job.Hint(err, "it can't be resumed without --checkpoint FILE")
	case errors.Is(err, storage.ErrAway):
		return job.Hint(err, "it can't be resumed without --checkpoint FILE; --patience sets how long to wait for an account")
	}
	return err
}

// resumes returns the command line that goes on, with the options that a checkpoint does not choose.
func (r *call) resumes(path string) string {
	text := r.path + " --resume " + path
	for _, name := range r.point.record.Asks(r.toRecord("")) {
		o, _ := find(r.command.options(), name)
		value := o.text()
		switch _, account := o.field.(*connection); {
		case o.hasSAS():
			value += "?SAS"
		case account && !isSetting(value):
			value = "CONNECTION" // it may be secret
		}
		text += " --" + name + " " + value
	}
	return text + " continues with the rest"
}

// jobName is the command's name in checkpoints: those of copy are good for its aliases.
func (r *call) jobName() string {
	if r.path == "tablesweep export" || r.path == "tablesweep import" { // catalogs have these, too
		return "copy"
	}
	return r.name
}
