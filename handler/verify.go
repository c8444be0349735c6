package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tablesweep/internal/action"
	"tablesweep/internal/lines"
	"tablesweep/internal/memory"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
	"tablesweep/internal/sweep/verify"
)

const verifyHelp = `Compare two tables row by row, values and types included. All rows that are missing
from the destination, extra in it, or different are counted. The first of them in key order are
listed at the end: --list says how many.

Both tables are read once, many ranges at a time, in bounded memory. --repair copies the
rows that are missing or different; rows that are extra are never touched.

` + checkpointHelp + `

` + connectionHelp

const verifyExamples = `  handler verify --from orders --to orders --to-connection ARCHIVE
  handler verify --from orders --to orders2024 --prefix 2024- --allow-extra
  handler verify --from orders --to orders --to-connection ARCHIVE --repair --json
  handler verify --from orders --to orders --to-connection ARCHIVE --checkpoint verify.ckpt
  handler verify --resume verify.ckpt`

// verifyOptions are the flags of the command verify.
type verifyOptions struct {
	rowFlags
	pairFlags
	progressFlag
	checkpointFlags
	jsonFlag
	repair, allowExtra bool
	list               int
}

func verifyCommand() *cobra.Command {
	var o verifyOptions
	c := command("verify", "Compare two tables, and repair the second", verifyHelp, verifyExamples, o.run)
	o.pairFlags.add(c)
	o.rowFlags.add(c)
	o.addSelect(c)
	o.progressFlag.add(c, progress.Auto)
	o.checkpointFlags.add(c)
	flags := c.Flags()
	flags.BoolVar(&o.repair, "repair", false, "copy the rows that are missing or different")
	flags.BoolVar(&o.allowExtra, "allow-extra", false, "rows that only the destination has are no difference")
	flags.IntVar(&o.list, "list", verify.DefaultList, "differences to list, 1 to 1000000; all are counted")
	o.jsonFlag.add(c, "print differences and result as JSON, one object a line")
	return c
}

// maxList is what --list takes at most: twice as many differences are in memory, of some 100 bytes
// to 1 KB each.
const maxList = 1_000_000

// errDifferent ends a comparison that found differences.
var errDifferent = errors.New("the tables differ")

func (o *verifyOptions) run(c *cobra.Command) error {
	if o.list < 1 || o.list > maxList {
		return usagef("--list is %d, want 1 to %d", o.list, maxList)
	}
	memory.Limit(o.resume)
	from, to, err := o.open(c)
	if err != nil {
		return err
	}
	s, err := o.scan(from)
	if err != nil {
		return err
	}
	if err := probe(c.Context(), s); err != nil {
		return err
	}
	meter, err := o.meter(c)
	if err != nil {
		return err
	}
	options := verify.Options{Options: sweepOptions(c, o.workers), AllowExtra: o.allowExtra}
	options.List = o.list
	options.Failed = (&failures{meter: meter, more: "further failed rows are counted, not listed"}).list
	if o.repair {
		options.Repair = &action.Copy{Destination: to, Mode: o.mode()}
	}
	if options.Checkpoint, err = o.begin(c, from.Address(), to.Address()); err != nil {
		return err
	}
	meter.Phase("verifying")
	r, err := verify.Tables(c.Context(), s, to, options)
	meter.End()
	if err != nil && o.point != nil { // which keeps what was found
		return o.ended(c, err)
	}
	if err := o.ended(c, printComparison(c, &o.jsonFlag, r, o.repair, err)); err != nil {
		return err
	}
	switch {
	case r.Failed > 0:
		return failedRows(r.Failed)
	case r.Differences() > 0 && !(o.repair && r.Extra == 0):
		return errDifferent
	}
	return nil
}

// mode is that of a repair. It keeps properties that were not compared.
func (o *verifyOptions) mode() action.Mode {
	if o.selected != nil {
		return action.Merge
	}
	return action.Replace
}

// printDifferences prints those that are listed.
func printDifferences(c *cobra.Command, r verify.Result, asJSON bool) error {
	out := bufio.NewWriter(c.OutOrStdout())
	e := lines.JSON(out)
	for _, d := range r.List {
		if asJSON {
			_ = e.Encode(struct { // Flush tells
				Kind         sweep.Kind `json:"difference"`
				PartitionKey string
				RowKey       string
				Detail       string `json:"detail,omitempty"`
			}{d.Kind, d.Key.Partition, d.Key.Row, d.Detail})
			continue
		}
		detail := ""
		if d.Detail != "" {
			detail = ": " + d.Detail
		}
		fmt.Fprintf(out, "%-9s PartitionKey %q RowKey %q%s\n", d.Kind, d.Key.Partition, d.Key.Row, detail)
	}
	if more := r.Differences() - int64(len(r.List)); more > 0 && !asJSON {
		fmt.Fprintf(out, "%s behind these in key order\n", progress.Plural(more, "more difference"))
	}
	return out.Flush()
}

// printComparison prints what a comparison found, and then, unless it failed, the result.
func printComparison(c *cobra.Command, out *jsonFlag, r verify.Result, repaired bool, failed error) error {
	err := printDifferences(c, r, out.json)
	if failed != nil || err != nil {
		return cmp.Or(failed, err)
	}
	text := fmt.Sprintf("compared %s by %s: %d missing, %d extra, %d different\n", progress.Plural(r.Rows, "row"), progress.Plural(r.Queries, "query"), r.Missing, r.Extra, r.Different)
	if repaired {
		text += fmt.Sprintf("repaired %s\n", progress.Plural(r.Repaired, "row"))
	}
	return out.print(c, r, "%s", text)
}
