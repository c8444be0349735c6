package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tablesweep/internal/proof/keysets"
	"tablesweep/internal/proof/lab/split"
)

const splitHelp = `Compare the scan strategies on real and made-up tables, by counting.

Runs every strategy over key sets of many kinds, in memory, and plays the queries
through a simulation of workers and message hops. Nothing is timed, so the figures are
the same on every machine. Prints Markdown: real sets first, with the worst of them,
then the means of made-up sets, and a table of these. 10 million rows take about
15 minutes and 4 GB of memory.

--process compares scans in one process instead, where workers share memory and there
are no messages: the same steps, and idle workers that steal, as the commands do it.

Real sets are samples: every n-th row of a table, read by pages of 1,000/n rows. Go's
source tree gives three more, if there is a go command. They depend on its version.

EXIT STATUS

0 if all was compared, 1 if a scan missed a row, 2 if a flag is wrong.`

// splitOptions are the flags of the command split.
type splitOptions struct {
	rows    int
	sets    []string
	keys    string
	process bool
}

func splitCommand() *cobra.Command {
	var o splitOptions
	c := &cobra.Command{
		Use:   "split",
		Short: "Compare the scan strategies on real and made-up tables, by counting",
		Long:  splitHelp,
		Args:  noArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return runSplit(c, o) },
	}
	c.Flags().IntVar(&o.rows, "rows", 100_000, "number of rows of each made-up table; real tables have a fixed number")
	c.Flags().StringSliceVar(&o.sets, "sets", nil, "names of the key sets; real means all real ones (default all)")
	c.Flags().StringVar(&o.keys, "keys", "", "a directory of key sets of your own")
	c.Flags().BoolVar(&o.process, "process", false, "compare scans in one process with 64 workers")
	return c
}

func runSplit(c *cobra.Command, o splitOptions) error {
	if o.rows < 1 {
		return usageError{fmt.Errorf("--rows is %d, want at least 1", o.rows)}
	}
	if o.keys != "" && len(o.sets) > 0 {
		return usageError{errors.New("--keys and --sets exclude each other")}
	}
	sets, err := chooseSets(c, o)
	if err != nil {
		return err
	}
	if o.process {
		return runProcess(c, sets, o.rows)
	}
	var real, made []split.Result
	err = eachSet(c, sets, o.rows, func(s keysets.Set, rows int) error {
		results, err := split.Compare(s, rows)
		if s.Real {
			real = append(real, results...)
		} else {
			made = append(made, results...)
		}
		return err
	})
	if err != nil {
		return err
	}
	var parts []string
	if len(real) > 0 {
		parts = append(parts, "Real keys; time of 64 workers with 3 units per message.\n\n"+split.RealTable(split.Figures(real)))
	}
	if len(made) > 0 {
		parts = append(parts, split.MeansTable(made, o.rows),
			"Queries ÷ optimum; time of 64 workers with 3 units per message, in multiples of the bound.\n\n"+split.SetsTable(made))
	}
	_, err = io.WriteString(c.OutOrStdout(), strings.Join(parts, "\n"))
	return err
}

// eachSet calls f with each set and its number of rows, in order.
func eachSet(c *cobra.Command, sets []keysets.Set, rows int, f func(s keysets.Set, rows int) error) error {
	for _, s := range sets {
		fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", s.Name, s.About)
		n := rows
		if s.Real {
			n = math.MaxInt
		}
		if err := f(s, n); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// runProcess compares scans in one process.
func runProcess(c *cobra.Command, sets []keysets.Set, rows int) error {
	const workers = 64
	var all [][]split.ProcessResult
	err := eachSet(c, sets, rows, func(s keysets.Set, rows int) error {
		results, err := split.CompareInProcess(s, rows, workers)
		all = append(all, results)
		return err
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(c.OutOrStdout(), "Queries ÷ optimum; time of 64 workers in one process, in multiples of the bound.\n\n"+split.ProcessTable(all))
	return err
}

// chooseSets returns the key sets of --keys or --sets, or all sets if neither is given.
func chooseSets(c *cobra.Command, o splitOptions) ([]keysets.Set, error) {
	if o.keys != "" {
		sets, err := keysets.FromFiles(o.keys)
		if err != nil {
			return nil, usageError{fmt.Errorf("--keys: %w", err)}
		}
		return sets, nil
	}
	made, err := keysets.MadeUp()
	if err != nil {
		return nil, err
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "the sets of Go's source tree are left out: go env GOROOT: %v\n", err)
	}
	real := keysets.Real(strings.TrimSpace(string(goroot)))
	sets := slices.Concat(real, made)
	if len(o.sets) == 0 {
		return sets, nil
	}
	var chosen []keysets.Set
	for _, name := range o.sets {
		if name == "real" {
			chosen = append(chosen, real...)
			continue
		}
		i := slices.IndexFunc(sets, func(s keysets.Set) bool { return s.Name == name })
		if i < 0 {
			known := []string{"real"}
			for _, s := range sets {
				known = append(known, s.Name)
			}
			return nil, usageError{fmt.Errorf("no key set %q; known sets: %s", name, strings.Join(known, ", "))}
		}
		chosen = append(chosen, sets[i])
	}
	return chosen, nil
}
