package main

import (
	"bufio"
	"slices"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/job/progress"
)

type keysOptions struct {
	sourceFlags
	reportFlags
}

func (o *keysOptions) options() []option {
	return slices.Concat(o.sourceFlags.options(), o.reportFlags.options(progress.None, "print each key as a JSON string"))
}

func (o *keysOptions) run(r *call) error {
	from, err := o.source(r, false)
	if err != nil {
		return err
	}
	r.work(o.style)
	out := bufio.NewWriterSize(r.Out, 64<<10)
	err = job.Keys(r.ctx, job.Options{Process: r.Process, Rows: o.Rows, From: from}, func(partition string) error {
		if o.json {
			return lines.JSON(out).Encode(partition)
		}
		_, err := out.WriteString(partition + "\n")
		return err
	})
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	return err
}
