package main

import (
	"bufio"
	"cmp"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/place"
	"tablesweep/internal/split/strategy"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// The values of --stats.
const (
	statsTotal   = "total" // the value if --stats is given without a value
	statsQueries = "queries"
)

type scanOptions struct {
	sourceFlags
	mapFlags
	csvFlags
	json            bool
	strategy, stats string
	segment         int
	limit           positive
	keysOnly        bool
	dryRun          bool
}

func (o *scanOptions) options() []option {
	names := strings.Join(strategy.Names, ", ")
	return slices.Concat(o.sourceFlags.options(), o.mapFlags.options(), o.csvFlags.options(), []option{
		o.selectOption(),
		{"json", perRun, &o.json, nil, "messages and progress on stderr as JSON, with a summary as the last line"},
		choose("format", perRun, &o.format, "jsonl or csv", "jsonl or csv (to count rows, use tablesweep count)", "jsonl", "csv"),
		{"dry-run", perRun, &o.dryRun, nil, "with --map, --rename or --drop: show the first 20 rows before and after the changes"},
		{"keys-only", perRun, &o.keysOnly, nil, "only PartitionKey and RowKey"},
		choose("strategy", perRun, &o.strategy, "how the rows are divided into ranges: "+names, "one of "+names, strategy.Names...),
		{"segment-size", perRun, &o.segment, storage.PageRows, "rows per query, 1 to 1000"},
		{"limit", perRun, &o.limit, nil, "print at most this many rows, from the beginning"},
		{"stats", perRun, &o.stats, nil, "print a line of figures on stderr at the end; --stats=queries also prints a line for each query"},
	})
}

func scanCommand() *cobra.Command {
	c := command("scan PLACE", "Print the rows of a table in order", &scanOptions{})
	_ = c.Flags().MarkHidden("types") // --types is only for reading CSV, and scan writes CSV
	c.Flags().Lookup("stats").NoOptDefVal = statsTotal
	return c
}

func (o *scanOptions) run(r *call) error {
	if o.stats != "" && o.stats != statsTotal && o.stats != statsQueries {
		return usagef("--stats is %q; write --stats without a value, or --stats=%s", o.stats, statsQueries)
	}
	if o.keysOnly && o.Select != nil {
		return usagef("--keys-only and --select cannot be combined")
	}
	if o.keysOnly {
		o.Select = []string{}
	}
	if o.dryRun && !o.mapFlags.given() {
		return usagef("--dry-run shows how --map, --rename or --drop changes rows, so it needs one of these three flags")
	}
	for name, fits := range map[string]bool{"delimiter": o.format == "csv", "types": false} {
		if r.text(name) != "" && !fits {
			return usagef("--%s cannot be combined with --format %s", name, o.format)
		}
	}
	m, err := o.mapFlags.open()
	if err != nil {
		return err
	}
	form, err := o.csvFlags.forRows()
	if err != nil {
		return err
	}
	if o.json {
		r.Meter.Use(progress.JSON)
	}
	memory.Limit()
	from, err := o.source(r, false)
	if err != nil {
		return err
	}
	if (o.limit > 0 || from.Table() == nil) && r.text("strategy") == "" {
		o.strategy = "serial"
	}
	options := job.ScanOptions{
		Options: job.Options{Process: r.Process, Rows: o.Rows, From: from}, Strategy: o.strategy, PageRows: o.segment, Limit: int(o.limit),
	}
	if options.Map = m; o.dryRun {
		return o.mapFlags.show(r, options.Options, o.json)
	}
	if o.stats == statsQueries {
		options.Trace = explain(r.toErr)
	}
	began := time.Now()
	totals, err := o.printRows(r, options, form)
	r.Meter.End()
	if err == nil && totals.Failed > 0 {
		err = failedRows(totals.Failed)
	}
	if err != nil && totals.Failed == 0 || o.stats == "" && !o.json {
		return err
	}
	sum := statsOf(totals)
	if o.json {
		sum.Seconds = time.Since(began).Round(time.Microsecond).Seconds() // a scan takes more than a microsecond, so the result is not 0; JSON would omit a 0
	}
	return cmp.Or(lines.JSON(r.toErr).Encode(sum), err)
}

func (o *scanOptions) printRows(r *call, scanned job.ScanOptions, form *place.CSV) (totals sweep.Totals, err error) {
	out := bufio.NewWriterSize(r.Out, 256<<10)
	if o.format == "csv" {
		totals, err = job.ScanCSV(r.ctx, scanned, *form, out)
	} else {
		var text []byte // the text of a page
		totals, err = job.Scan(r.ctx, scanned, func(rows []storage.Row) error {
			text = text[:0]
			for _, row := range rows {
				text = append(append(text, row.JSON()...), '\n')
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

// scanStats are the figures that --stats and --json print.
type scanStats struct {
	Rows             int64   `json:"rows"`
	Queries          int64   `json:"queries"`
	EmptyQueries     int64   `json:"emptyQueries"`
	PartitionQueries int64   `json:"partitionQueries"`
	Steps            int64   `json:"steps"`
	CriticalPath     int64   `json:"criticalPath"`
	Seconds          float64 `json:"seconds,omitempty"` // only with --json
}

func statsOf(t sweep.Totals) scanStats {
	return scanStats{t.Rows, t.Queries, t.EmptyQueries, t.PartitionQueries, t.Steps, t.CriticalPath, 0}
}

// explain returns a function that prints each query to w as JSON.
func explain(w io.Writer) func(sweep.Trace) {
	e := lines.JSON(w)
	return func(q sweep.Trace) {
		line := struct {
			Filter    string   `json:"filter"`
			Continues bool     `json:"continues,omitempty"` // the query had a continuation token
			Rows      int      `json:"rows"`
			First     []string `json:"first,omitempty"` // keys of the first and the last row
			Last      []string `json:"last,omitempty"`
			More      bool     `json:"more"` // the answer has a continuation token
		}{Filter: storage.RangeFilter(q.Step.Range), Continues: q.Step.Token != nil, Rows: len(q.Page.Keys), More: q.Page.Next != nil}
		if line.Rows > 0 {
			first, last := q.Page.Keys[0], q.Page.Last()
			line.First, line.Last = []string{first.Partition, first.Row}, []string{last.Partition, last.Row}
		}
		_ = e.Encode(line) // w is stderr, so a failure cannot be reported
	}
}
