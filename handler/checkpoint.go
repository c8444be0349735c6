package main

import (
	"errors"
	"fmt"

	"tablesweep/internal/job"
	"tablesweep/internal/job/jobrecord"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// checkpointFlags are the flags of commands that can be resumed.
type checkpointFlags struct{ checkpoint, resume string }

func (f *checkpointFlags) options() []option {
	return []option{
		{"checkpoint", perRun, &f.checkpoint, nil, "new file for the progress; it is removed when the command has finished"},
		{"resume", perRun, &f.resume, nil, "resume from this checkpoint"},
	}
}

// resumable returns the flags. Only the commands that can be resumed have this method.
func (f *checkpointFlags) resumable() checkpointFlags { return *f }

// run restores the options from the checkpoint, if there is one, and runs the command. Then it closes the checkpoint, so that another process can
// continue.
func (r *call) run(o runnable) error {
	r.command = o
	r.point.Command = r.jobName()
	if o, ok := o.(interface{ resumable() checkpointFlags }); ok {
		r.point.New, r.point.Resume = o.resumable().checkpoint, o.resumable().resume
	}
	err := r.restore()
	if err == nil {
		r.announceTables()
		err = o.run(r)
	}
	if err != nil && r.point.File != nil && r.ctx.Err() != nil && !errors.As(err, new(job.Hinted)) { // the interrupt came before runJob could add a hint
		err = r.withResumeHint(interrupted(err))
	}
	if r.point.File != nil {
		_ = r.point.File.Close()
	}
	if err = r.explainRefusal(err); err != nil && r.ctx.Err() != nil {
		return interrupted(err)
	}
	return err
}

// restore sets the options from the checkpoint, except the options that the user has set.
func (r *call) restore() error {
	switch {
	case r.point.Resume == "":
		return nil
	case r.point.New != "":
		return usagef("--checkpoint is for a new run, and --resume continues an earlier run; give only one of them")
	case place.InBlobs(r.point.Resume):
		return usagef("--resume cannot read blobs; name the file that --checkpoint created")
	}
	set, err := r.point.Open(r.givenFlags())
	if err != nil {
		return err
	}
	for _, o := range r.command.options() {
		value, restored := set[o.name]
		switch {
		case !restored:
		case r.part != nil && o.usage != "":
			err = fmt.Errorf("this table's checkpoint was made with --%[1]s, but the command for all tables was run without --%[1]s", o.name)
		default:
			err = o.value().Set(value)
		}
		if err != nil {
			return usagef("--resume %s: %w", r.point.Resume, err)
		}
	}
	return nil
}

func (r *call) givenFlags() (all []job.Option) {
	for _, o := range r.command.options() {
		as := job.Option{Option: jobrecord.Option{Name: o.name, Keep: o.keep, Value: o.text(), Default: o.byDefault()}}
		switch field := o.field.(type) {
		case *connection:
			as.Kind = job.AConnection
		case *location:
			as.Kind, as.SAS = job.APlace, field.sas != ""
		case programValue:
			as.Kind = job.AProgram
		}
		all = append(all, as)
	}
	return all
}

// runJob runs a job with its checkpoint. After success, it calls the function `show` with the result, and then removes the
// checkpoint. But if the call is for one of many tables, the checkpoint stays until the table's result is recorded.
func (r *call) runJob(j *job.Job, show func(job.Result) error) (done job.Result, err error) {
	record, err := r.point.Begin(r.givenFlags(), j.Facts)
	if err != nil {
		return done, err
	}
	done, err = j.Run(r.ctx, record)
	switch {
	case err == nil:
		err = r.finish(func() error { return show(done) })
	case done.Begun:
		err = r.withResumeHint(err)
	}
	return done, err
}

// finish prints the result of a finished command, and then removes the checkpoint. For one of many tables, finish only marks the
// checkpoint as ended.
func (r *call) finish(result func() error) error {
	file := r.point.File
	switch err := result(); {
	case err != nil || file == nil:
		return err
	case r.part != nil:
		r.part.Ended = file
		return nil
	}
	return file.Remove()
}

// withResumeHint adds a hint to the error of an unfinished command. The hint says how to continue the command.
func (r *call) withResumeHint(err error) error {
	p := &r.point
	_, resumable := find(r.command.options(), "checkpoint")
	switch {
	case !resumable && errors.Is(err, task.ErrInterrupted):
		return job.Hint(err, job.SyncAgain)
	case !resumable:
	case p.File != nil && job.IsThere(p.File.Path()): // without a file, no work has begun
		return job.Hint(err, r.path+p.ResumeOptions(r.givenFlags())+" continues the command")
	case p.File != nil, errors.As(err, new(job.Hinted)):
	case errors.Is(err, task.ErrInterrupted):
		return job.Hint(err, "without --checkpoint FILE, the command cannot be resumed")
	case errors.Is(err, storage.ErrAway):
		return job.Hint(err, "without --checkpoint FILE, the command cannot be resumed; --patience sets how long to wait for an account")
	}
	return err
}

// jobName is the command's name in checkpoints. copy, export and import share a name, so each of them can resume checkpoints of the others.
func (r *call) jobName() string {
	if r.path == "tablesweep export" || r.path == "tablesweep import" { // r.path, because "catalog export" and "catalog import" have the same r.name
		return "copy"
	}
	return r.name
}
