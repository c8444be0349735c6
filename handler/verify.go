package main

import (
	"bufio"
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/place"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
	"tablesweep/internal/sweep/verify"
)

// verifyOptions are the flags of the command verify.
type verifyOptions struct {
	rowFlags
	pairFlags
	reportFlags
	checkpointFlags
	repair, allowExtra bool
	list               int
}

func verifyCommand() *cobra.Command {
	var o verifyOptions
	c := command("verify", "Compare two tables, and repair the second", o.run)
	o.pairFlags.add(c)
	o.rowFlags.add(c)
	o.addSelect(c)
	o.reportFlags.add(c, progress.Auto, "print differences and result as JSON, one object a line")
	o.checkpointFlags.add(c)
	flags := c.Flags()
	flags.BoolVar(&o.repair, "repair", false, "copy the rows that are missing or different")
	flags.BoolVar(&o.allowExtra, "allow-extra", false, "rows that only the destination has are no difference")
	flags.IntVar(&o.list, "list", verify.DefaultList, "differences to list, 1 to 1000000; all are counted")
	return c
}

// maxList is what --list takes at most: twice as many differences are in memory, of some 100 bytes
// to 1 KB each.
const maxList = 1_000_000

func (o *verifyOptions) run(c *cobra.Command) error {
	if o.list < 1 || o.list > maxList {
		return usagef("--list is %d, want 1 to %d", o.list, maxList)
	}
	if o.many() {
		return o.allOf(&manyRun{Tables: job.Tables{Rows: o.Rows, Phase: "verifying"}, cmd: c, report: &o.reportFlags, point: &o.checkpointFlags, do: o.one}, o.check)
	}
	from, to, err := o.open(c, true, o.resume != "")
	if err == nil {
		err = o.check(c, from.Kind, to.Kind)
	}
	if err != nil {
		return err
	}
	pair := job.PairOptions{Options: job.Options{Process: o.process(c, o.resume), Rows: o.Rows, From: from}, To: to, AllWorkers: c.Flags().Changed("workers")}
	j, err := job.Verify(c.Context(), job.VerifyOptions{
		PairOptions: pair, List: o.list, AllowExtra: o.allowExtra, Repair: o.repair,
	})
	if err != nil {
		return err
	}
	printed := false
	done, err := o.do(c, j, func(r job.Result) error {
		printed = true
		return o.printComparison(c, r.Comparison, o.repair, nil)
	})
	r := done.Comparison
	switch {
	case err != nil && done.Begun && o.file == nil && !printed: // a checkpoint would keep what was found
		return o.printComparison(c, r, o.repair, err)
	case err != nil:
		return err
	case r.Failed > 0:
		return failedRows(r.Failed)
	case r.Differences() > 0 && !(o.repair && r.Extra == 0):
		return job.ErrDifferent
	}
	return nil
}

// one compares one of many tables.
func (o *verifyOptions) one(c *cobra.Command, t ofTable) error {
	one := *o
	one.manyFlags, one.from, one.to, one.checkpointFlags = manyFlags{}, t.from, t.to, t.point
	return one.during(c, func() error { return one.run(c) })
}

// check returns what is wrong with the flags for these places.
func (o *verifyOptions) check(c *cobra.Command, from, to place.Kind) error {
	for _, p := range []struct {
		flag, path string
		kind       place.Kind
	}{{"from", o.from, from}, {"to", o.to, to}} {
		if p.kind != place.KindTable && p.kind != place.KindExport {
			return usagef("--%s %s is %v, and verify reads both places in order; import it into a table first", p.flag, p.path, p.kind)
		}
	}
	return o.conflicts(c, []conflict{
		{"from-connection", from != place.KindTable && !place.InBlobs(o.from), "it is about a source in an account"},
		{"to-connection", to != place.KindTable && !place.InBlobs(o.to), "it is about a destination in an account"},
		{"repair", to != place.KindTable, "it is about a destination that is a table"},
	})
}

// difference is a row that differs, as it is printed.
type difference struct {
	Table        string     `json:"table,omitempty"` // if there are several
	Kind         sweep.Kind `json:"difference"`
	PartitionKey string
	RowKey       string
	Detail       string `json:"detail,omitempty"`
}

func (d difference) String() string {
	detail := ""
	if d.Detail != "" {
		detail = ": " + d.Detail
	}
	if d.Table != "" {
		d.Table += ": "
	}
	return fmt.Sprintf("%s%-9s PartitionKey %q RowKey %q%s", d.Table, d.Kind, d.PartitionKey, d.RowKey, detail)
}

// printDifferences prints those that are listed.
func (p *reportFlags) printDifferences(c *cobra.Command, r verify.Result) error {
	out := bufio.NewWriter(c.OutOrStdout())
	e := lines.JSON(out)
	table := ""
	if part := sharedBy(c).part; part != nil {
		table = part.Table
	}
	for _, d := range r.List {
		line := difference{table, d.Kind, d.Key.Partition, d.Key.Row, d.Detail}
		if p.json {
			_ = e.Encode(line) // Flush tells
		} else {
			fmt.Fprintln(out, line)
		}
	}
	if more := r.Differences() - int64(len(r.List)); more > 0 && !p.json {
		fmt.Fprintf(out, "%s behind these in key order\n", progress.Plural(more, "more difference"))
	}
	return out.Flush()
}

// printComparison prints what a comparison found, and then, unless it failed, the result.
func (p *reportFlags) printComparison(c *cobra.Command, r verify.Result, repaired bool, failed error) error {
	err := p.printDifferences(c, r)
	if failed != nil || err != nil {
		return cmp.Or(failed, err)
	}
	text := fmt.Sprintf("compared %s\n", job.Compared(r))
	if repaired {
		text += fmt.Sprintf("repaired %s\n", progress.Plural(r.Repaired, "row"))
	}
	return p.print(c, r, "%s", text)
}
