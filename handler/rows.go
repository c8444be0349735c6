package main

import (
	"github.com/spf13/cobra"

	"tablesweep/internal/job"
	"tablesweep/internal/sweep"
)

// rowFlags are the flags that choose a command's rows and how they are read.
type rowFlags struct{ job.Rows }

// sourceFlags are the flags of commands that read the rows of one place.
type sourceFlags struct {
	tableFlags
	rowFlags
}

func (f *sourceFlags) add(c *cobra.Command) {
	f.tableFlags.add(c)
	f.rowFlags.add(c)
}

// add adds the flags of all commands that read rows.
func (f *rowFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.Bounds.Prefix, "prefix", "", "only partition keys that start with this")
	flags.StringVar(&f.Bounds.After, "after", "", "only partition keys greater than this")
	flags.StringVar(&f.Bounds.Before, "before", "", "only partition keys less than this")
	flags.StringVar(&f.Filter, "filter", "", "OData filter, such as \"Size gt 10 and Color eq 'red'\"")
	flags.IntVar(&f.Workers, "workers", sweep.DefaultWorkers, "most requests at once; the command uses fewer while more do not help")
	flags.IntVar(&f.MaxRows, "max-rows-per-second", 0, "most rows a second that are read from a table, and that are written to one, retries included")
	flags.IntVar(&f.MaxRequests, "max-requests-per-second", 0, "most requests a second to all accounts, retries included")
}

// addSelect adds --select, for commands that need more than the keys.
func (f *rowFlags) addSelect(c *cobra.Command) {
	c.Flags().StringSliceVar(&f.Select, "select", nil, "only these properties, separated by commas; the keys always come")
}

// process returns what a job needs of the command around it.
func process(c *cobra.Command) job.Process {
	t := sharedBy(c)
	return job.Process{Meter: t.meter, Abort: t.second.Done(), In: c.InOrStdin(), Out: c.OutOrStdout(), Program: program(), FileBytes: t.fileBytes}
}
