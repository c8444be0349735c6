package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tablesweep/internal/splitbench"
)

const benchSplitHelp = `Compare the scan strategies on made-up tables, by counting.

Runs every strategy over key sets of many kinds, in memory, and plays the queries
through a simulation of workers and message hops. Nothing is timed: the figures are
the same on every machine. Prints Markdown: a table of means, and one of the sets.
10 million rows take about 15 minutes and 4 GB of memory.

EXIT STATUS

0 if all was compared, 1 if a scan missed a row, 2 if a flag is wrong.`

// benchSplitOptions are the flags of the command bench split.
type benchSplitOptions struct {
	rows int
	sets []string
	json bool
}

func benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure without a storage account",
	}
	c.AddCommand(benchSplitCommand())
	return c
}

func benchSplitCommand() *cobra.Command {
	var o benchSplitOptions
	c := &cobra.Command{
		Use:   "split",
		Short: "Compare the scan strategies on made-up tables, by counting",
		Long:  benchSplitHelp,
		Args:  noArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return runBenchSplit(c, o) },
	}
	c.Flags().IntVar(&o.rows, "rows", 100_000, "rows of each table")
	c.Flags().StringSliceVar(&o.sets, "sets", nil, "names of the key sets (default all)")
	c.Flags().BoolVar(&o.json, "json", false, "print the result of each scan as JSON, one a line")
	return c
}

func runBenchSplit(c *cobra.Command, o benchSplitOptions) error {
	if o.rows < 1 {
		return usageError{fmt.Errorf("--rows is %d, want at least 1", o.rows)}
	}
	sets, err := chooseSets(o.sets)
	if err != nil {
		return err
	}
	var all []splitbench.Result
	for _, s := range sets {
		fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", s.Name, s.About)
		results, err := splitbench.Compare(s, o.rows)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		all = append(all, results...)
	}
	out := c.OutOrStdout()
	if o.json {
		e := json.NewEncoder(out)
		for _, r := range all {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	if err := splitbench.WriteMarkdown(out, all, o.rows); err != nil {
		return err
	}
	if _, err := io.WriteString(out, "\nQueries ÷ optimum; time of 64 workers with hop 3, in multiples of the bound.\n\n"); err != nil {
		return err
	}
	return splitbench.WriteSets(out, all)
}

// chooseSets returns the key sets with the given names, all if there are none.
func chooseSets(names []string) ([]splitbench.Set, error) {
	sets, err := splitbench.Sets()
	if err != nil || len(names) == 0 {
		return sets, err
	}
	var chosen []splitbench.Set
	for _, name := range names {
		i := slices.IndexFunc(sets, func(s splitbench.Set) bool { return s.Name == name })
		if i < 0 {
			var known []string
			for _, s := range sets {
				known = append(known, s.Name)
			}
			return nil, usageError{fmt.Errorf("no key set %q; there are %s", name, strings.Join(known, ", "))}
		}
		chosen = append(chosen, sets[i])
	}
	return chosen, nil
}
