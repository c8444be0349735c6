package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/place"
	"tablesweep/internal/scan/strategy"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
	"tablesweep/internal/task/memory"
)

// What --stats may be.
const (
	statsTotal   = "total" // without a value
	statsQueries = "queries"
)

// scanOptions are the flags of the command scan.
type scanOptions struct {
	sourceFlags
	jsonFlag
	mapFlags
	csvFlags
	strategy, stats string
	segment, limit  int
	keysOnly        bool
}

func scanCommand() *cobra.Command {
	var o scanOptions
	c := command("scan", "Print the rows of a table in order", o.run)
	flags := c.Flags()
	o.sourceFlags.add(c)
	o.addSelect(c)
	o.jsonFlag.add(c, "all that is on stderr as JSON, and a summary as its last line")
	o.mapFlags.add(c)
	o.csvFlags.add(c)
	_ = flags.MarkHidden("types") // nothing is read from CSV
	addChoice(c, &o.format, "format", "jsonl, csv, or count for only the number of rows", "jsonl, csv or count", "jsonl", "csv", "count")
	flags.BoolVar(&o.keysOnly, "keys-only", false, "only PartitionKey and RowKey")
	names := strings.Join(strategy.Names, ", ")
	addChoice(c, &o.strategy, "strategy", "how the rows are split into ranges: "+names, "one of "+names, strategy.Names...)
	flags.IntVar(&o.segment, "segment-size", storage.PageRows, "rows a query, 1 to 1000")
	flags.IntVar(&o.limit, "limit", 0, "only so many rows, the first ones")
	flags.StringVar(&o.stats, "stats", "", "print a line of figures on stderr at the end; --stats=queries prints one a query, too")
	flags.Lookup("stats").NoOptDefVal = statsTotal
	return c
}

func (o *scanOptions) run(c *cobra.Command) error {
	if o.stats != "" && o.stats != statsTotal && o.stats != statsQueries {
		return usagef("--stats is %q, want nothing or %s", o.stats, statsQueries)
	}
	if o.keysOnly && o.Select != nil {
		return usagef("--keys-only and --select exclude each other")
	}
	if c.Flags().Changed("limit") && o.limit < 1 {
		return usagef("--limit is %d, want at least 1", o.limit)
	}
	if o.limit > 0 && !c.Flags().Changed("strategy") {
		o.strategy = "serial"
	}
	if o.keysOnly {
		o.Select = []string{}
	}
	for name, fits := range map[string]bool{"delimiter": o.format == "csv", "types": false, "map": o.format != "count", "rename": o.format != "count", "drop": o.format != "count"} {
		if c.Flags().Changed(name) && !fits {
			return usagef("--%s does not fit --format %s", name, o.format)
		}
	}
	m, err := o.mapFlags.open(c)
	if err != nil {
		return err
	}
	form, err := o.csvFlags.of()
	if err != nil {
		return err
	}
	if o.json {
		sharedBy(c).meter.Use(progress.JSON)
	}
	memory.Limit()
	from, err := o.source(c)
	if err != nil {
		return err
	}
	if from.Table() == nil && !c.Flags().Changed("strategy") {
		o.strategy = "serial"
	}
	options := job.ScanOptions{
		Options: job.Options{Process: process(c), Rows: o.Rows, From: from}, Strategy: o.strategy, PageRows: o.segment, Limit: o.limit,
	}
	if options.Map = m; o.preview > 0 {
		return o.mapFlags.show(c, options.Options, o.json)
	}
	if o.stats == statsQueries {
		options.Trace = explain(c.ErrOrStderr())
	}
	began := time.Now()
	totals, err := o.printRows(c, options, form)
	sharedBy(c).meter.End()
	if err == nil && totals.Failed > 0 {
		err = failedRows(totals.Failed)
	}
	if err != nil && totals.Failed == 0 || o.stats == "" && !o.json {
		return err
	}
	sum := statsOf(totals)
	if o.json {
		sum.Seconds = time.Since(began).Round(time.Millisecond).Seconds()
	}
	if o.json && o.format == "count" {
		return o.print(c, sum, "")
	}
	return cmp.Or(lines.JSON(c.ErrOrStderr()).Encode(sum), err)
}

// printRows prints the rows, or their number.
func (o *scanOptions) printRows(c *cobra.Command, scanned job.ScanOptions, form *place.CSV) (totals sweep.Totals, err error) {
	if o.format == "count" {
		totals, err := job.Scan(c.Context(), scanned, nil)
		if err == nil && !o.json {
			_, err = fmt.Fprintln(c.OutOrStdout(), totals.Rows)
		}
		return totals, err
	}
	out := bufio.NewWriterSize(c.OutOrStdout(), 256<<10)
	if o.format == "csv" {
		totals, err = job.ScanCSV(c.Context(), scanned, *form, out)
	} else {
		var text []byte // of a page
		totals, err = job.Scan(c.Context(), scanned, func(rows []storage.Entity) error {
			text = text[:0]
			for _, row := range rows {
				text = append(row.AppendJSON(text), '\n')
			}
			_, err := out.Write(text)
			return err
		})
	}
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	return totals, err
}

// scanStats are a scan's figures, each named.
type scanStats struct {
	Rows             int64   `json:"rows"`
	Queries          int64   `json:"queries"`
	EmptyQueries     int64   `json:"emptyQueries"`
	PartitionQueries int64   `json:"partitionQueries"`
	Steps            int64   `json:"steps"`
	CriticalPath     int64   `json:"criticalPath"`
	Seconds          float64 `json:"seconds,omitempty"` // with --json
}

func statsOf(t sweep.Totals) scanStats {
	return scanStats{t.Rows, t.Queries, t.EmptyQueries, t.PartitionQueries, t.Steps, t.CriticalPath, 0}
}

// explain returns a function that prints each query.
func explain(w io.Writer) func(sweep.Trace) {
	e := lines.JSON(w)
	return func(q sweep.Trace) {
		line := struct {
			Filter    string   `json:"filter"`
			Continues bool     `json:"continues,omitempty"` // it carries a continuation token
			Rows      int      `json:"rows"`
			First     []string `json:"first,omitempty"` // keys of the first row and the last
			Last      []string `json:"last,omitempty"`
			More      bool     `json:"more"` // the answer has a continuation token
		}{Filter: storage.RangeFilter(q.Step.Range), Continues: q.Step.Token != nil, Rows: len(q.Page.Keys), More: q.Page.Next != nil}
		if line.Rows > 0 {
			first, last := q.Page.Keys[0], q.Page.Last()
			line.First, line.Last = []string{first.Partition, first.Row}, []string{last.Partition, last.Row}
		}
		_ = e.Encode(line) // stderr: there is no other place to report a failure
	}
}
