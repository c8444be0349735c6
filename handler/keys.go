package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/sweep/progress"
)

// keysOptions are the flags of the command keys.
type keysOptions struct {
	sourceFlags
	reportFlags
}

func keysCommand() *cobra.Command {
	var o keysOptions
	c := command("keys", "List the partition keys of a table", o.run)
	o.sourceFlags.add(c)
	o.reportFlags.add(c, progress.None, "print each key as a JSON string")
	return c
}

func (o *keysOptions) run(c *cobra.Command) error {
	from, err := o.source(c)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(c.OutOrStdout(), 64<<10)
	err = job.Keys(c.Context(), job.Options{Process: o.process(c), Rows: o.Rows, From: from}, func(partition string) error {
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
