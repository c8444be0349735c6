package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
)

// rowFlags are the flags that choose a command's rows and how they are read.
type rowFlags struct {
	bounds   key.Bounds
	filter   string
	selected []string
	workers  int

	maxRows, maxRequests int // a second; 0 for any number
}

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
	flags.StringVar(&f.bounds.Prefix, "prefix", "", "only partition keys that start with this")
	flags.StringVar(&f.bounds.After, "after", "", "only partition keys greater than this")
	flags.StringVar(&f.bounds.Before, "before", "", "only partition keys less than this")
	flags.StringVar(&f.filter, "filter", "", "OData filter, such as \"Size gt 10 and Color eq 'red'\"")
	flags.IntVar(&f.workers, "workers", sweep.DefaultWorkers, "most requests at once; the command uses fewer while more do not help")
	flags.IntVar(&f.maxRows, "max-rows-per-second", 0, "most rows a second that are read from a table, and that are written to one, retries included")
	flags.IntVar(&f.maxRequests, "max-requests-per-second", 0, "most requests a second to all accounts, retries included")
}

// addSelect adds --select, for commands that need more than the keys.
func (f *rowFlags) addSelect(c *cobra.Command) {
	c.Flags().StringSliceVar(&f.selected, "select", nil, "only these properties, separated by commas; the keys always come")
}

// scan returns the sweep of a place that the flags ask for.
func (f *rowFlags) scan(from opened) (sweep.Spec, error) {
	s := sweep.Spec{Source: from.source, Bounds: f.bounds, Filter: f.filter, Select: f.selected, PageRows: storage.PageRows, Strategy: adaptive.Strategy{}}
	if f.workers < 1 {
		return s, usagef("--workers is %d, want at least 1", f.workers)
	}
	if f.maxRows < 0 {
		return s, usagef("--max-rows-per-second is %d, want at least 1, or 0 for any number", f.maxRows)
	}
	if f.maxRequests < 0 {
		return s, usagef("--max-requests-per-second is %d, want at least 1, or 0 for any number", f.maxRequests)
	}
	for _, name := range f.selected {
		if name == "" {
			return s, usagef("--select has an empty name in it")
		}
	}
	if err := storage.CheckFilter(f.filter); err != nil {
		return s, usagef("--%w", err) // it starts with the name
	}
	if f.bounds.Range().Empty() {
		return s, usagef("--prefix, --after and --before leave no partition key between them")
	}
	if from.export() != nil {
		if err := place.CheckFilter(f.filter); err != nil {
			return s, usagef("--filter: %w", err)
		}
		s.Strategy = scan.Serial{}
	}
	return s, nil
}

// what describes the rows in a question or a summary.
func (f *rowFlags) what() string {
	var limits []string
	for _, l := range []struct{ is, value string }{
		{"partition key starts with %q", f.bounds.Prefix}, {"partition key is behind %q", f.bounds.After},
		{"partition key is ahead of %q", f.bounds.Before}, {"properties match %q", f.filter},
	} {
		if l.value != "" {
			limits = append(limits, fmt.Sprintf(l.is, l.value))
		}
	}
	if limits == nil {
		return "all rows"
	}
	return "the rows whose " + strings.Join(limits, " and whose ")
}
