package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"tablesweep/internal/scan"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
)

const keysHelp = `List the distinct partition keys of a table, in order, one a line.

The command does not read all rows. Once a page has shown a partition's key, the next
query starts behind that partition, however large it is. A partition is listed only if
a row in it matches --filter.

` + connectionHelp

const keysExamples = `  handler keys --table orders
  handler keys --table orders --prefix 2024- --json
  handler keys --table orders | wc -l`

// keysOptions are the flags of the command keys.
type keysOptions struct {
	sourceFlags
	progressFlag
	json bool
}

func keysCommand() *cobra.Command {
	var o keysOptions
	c := &cobra.Command{
		Use:     "keys",
		Short:   "List the partition keys of a table",
		Long:    keysHelp,
		Example: keysExamples,
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return runKeys(c, o) },
	}
	flags := c.Flags()
	o.sourceFlags.add(c)
	o.progressFlag.add(c, progress.None)
	flags.BoolVar(&o.json, "json", false, "print each key as a JSON string")
	return c
}

func runKeys(c *cobra.Command, o keysOptions) error {
	_, s, err := o.source(c)
	if err != nil {
		return err
	}
	meter, err := o.meter(c)
	if err != nil {
		return err
	}
	s.Select = []string{}
	s.Strategy = scan.Prefix{KeepPartitions: true} // it can step over rows
	out := bufio.NewWriterSize(c.OutOrStdout(), 64<<10)
	last, any := "", false
	_, err = sweep.Each(c.Context(), s, sweepOptions(c, o.workers), func(rows []storage.Entity) error {
		for _, row := range rows {
			if any && row.Key.Partition == last {
				continue
			}
			last, any = row.Key.Partition, true
			if err := printKey(out, last, o.json); err != nil {
				return err
			}
		}
		return nil
	})
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	meter.End()
	return err
}

func printKey(out *bufio.Writer, key string, asJSON bool) error {
	if asJSON {
		e := jsonTo(out)
		return e.Encode(key)
	}
	_, err := out.WriteString(key + "\n")
	return err
}
