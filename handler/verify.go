package main

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
)

type verifyOptions struct {
	rowFlags
	pairFlags
	reportFlags
	checkpointFlags
	allowExtra bool
	list       int
}

func (o *verifyOptions) options() []option {
	return slices.Concat(o.pairFlags.options(), o.rowFlags.options(),
		o.reportFlags.options(progress.Auto, "print differences and result as JSON, one object per line"), o.checkpointFlags.options(), []option{
			o.selectOption(),
			{"allow-extra", fixed, &o.allowExtra, nil, "do not count extra rows of the destination as differences"},
			{"list", fixed, &o.list, verify.DefaultList, "maximum number of differences to list, 1 to 1000000; all differences are counted"},
		})
}

// maxList is the greatest value of --list. Up to twice this number of differences are in memory, with about 100 bytes to 1 KB each.
const maxList = 1_000_000

func (o *verifyOptions) run(r *call) error {
	if o.list < 1 || o.list > maxList {
		return usagef("--list is %d; it must be 1 to %d", o.list, maxList)
	}
	if o.Many() {
		all := job.Tables{Rows: o.Rows, Phase: "verifying", Compares: true, AllowExtra: o.allowExtra}
		if err := o.manyPlaces(r, &all, o.check); err != nil {
			return err
		}
		return r.allTables(&all, o.reportFlags, o.verifyTable)
	}
	from, to, err := o.openPair(r, true)
	if err == nil {
		err = o.check(r, from.Kind, to.Kind)
	}
	if err != nil {
		return err
	}
	r.work(o.style, o.resume)
	pair := job.PairOptions{Options: job.Options{Process: r.Process, Rows: o.Rows, From: from}, To: to, AllWorkers: o.Workers != sweep.DefaultWorkers}
	j, err := job.Verify(r.ctx, job.VerifyOptions{
		PairOptions: pair, List: o.list, AllowExtra: o.allowExtra,
	})
	if err != nil {
		return err
	}
	printed := false
	done, err := r.runJob(j, func(done job.Result) error {
		printed = true
		return o.printComparison(r, done.Comparison, nil)
	})
	found := done.Comparison
	switch {
	case err != nil && done.Begun && r.point.File == nil && !printed: // without a checkpoint, the differences would be lost
		return o.printComparison(r, found, err)
	case err != nil:
		return err
	case found.Differences() > 0:
		return job.ErrDifferent
	}
	return nil
}

func (o *verifyOptions) verifyTable(r *call, t job.Own) error {
	one := *o
	one.manyFlags, one.from.path, one.to.path, one.checkpointFlags = manyFlags{}, t.From, t.To, checkpointFlags{t.Checkpoint, t.Resume}
	return r.run(&one)
}

// check returns an error if the flags do not fit these places.
func (o *verifyOptions) check(r *call, from, to place.Kind) error {
	for _, p := range []struct {
		flag, path string
		kind       place.Kind
	}{{"from", o.from.path, from}, {"to", o.to.path, to}} {
		if p.kind != place.KindTable && p.kind != place.KindExport {
			return usagef("--%s %s is %v, but verify needs rows in order; import the rows into a table first", p.flag, p.path, p.kind)
		}
	}
	return o.conflicts(r, o.besideAccounts(from, to))
}

// difference is a row that differs, in its printed form.
type difference struct {
	Table        string     `json:"table,omitempty"` // only when verifying many tables
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

// printDifferences prints the listed differences, and the number of differences that are not listed.
func (p *reportFlags) printDifferences(r *call, found verify.Result) error {
	out := bufio.NewWriter(r.Out)
	e := lines.JSON(out)
	table := ""
	if r.part != nil {
		table = r.part.Table
	}
	for _, d := range found.List {
		line := difference{table, d.Kind, d.Key.Partition, d.Key.Row, d.Detail}
		if p.json {
			_ = e.Encode(line) // Flush returns the error
		} else {
			fmt.Fprintln(out, line)
		}
	}
	if more := found.Differences() - int64(len(found.List)); more > 0 && !p.json {
		fmt.Fprintf(out, "not listed: %s, with keys after those above\n", problem.Plural(more, "more difference"))
	}
	return out.Flush()
}

// printComparison prints a comparison's differences and, if the comparison did not fail, the totals.
func (p *reportFlags) printComparison(r *call, found verify.Result, failed error) error {
	err := p.printDifferences(r, found)
	if failed != nil || err != nil {
		return cmp.Or(failed, err)
	}
	return r.print(p.json, found, "compared %s\n", job.Compared(found))
}
