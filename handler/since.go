package main

import (
	"tablesweep/internal/job"
	"time"

	"github.com/spf13/cobra"
)

const sinceHelp = `--since TIME copies the rows that were written at TIME or later, by the Timestamps that the
service gave them. --since last begins where the last success began, by the service's clock. --state
FILE keeps that time, for one source, range, filter, selection and table of destination; without the file, all
rows are copied. A destination that has none of the rows that were copied before is refused. Both begin earlier by --overlap. The service has no index of Timestamps, so it reads
the whole range all the same. Deleted rows are not seen; --mirror sees them.`

// windowFlag is the flag of the window of --since in records: the first run decides it.
const windowFlag = "since-window"

func addSince(c *cobra.Command, f *job.Since, window *string) {
	flags := c.Flags()
	flags.StringVar(&f.Text, "since", "", "only rows written since a time, or since so long ago, such as 24h, or since the last success: last")
	flags.StringVar(&f.State, "state", "", "file that keeps the beginning of the last success, for --since last")
	flags.DurationVar(&f.Overlap, "overlap", 5*time.Minute, "how much earlier --since begins")
	flags.StringVar(window, windowFlag, "", "")
	_ = flags.MarkHidden(windowFlag)
}
