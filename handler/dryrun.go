package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/estimate"
	"tablesweep/internal/estimate/survey"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
)

// dryRunEffort is what a dry run may cost.
var dryRunEffort = survey.Effort{Queries: 4000, Time: 30 * time.Second}

// dryRun tells what a copy would take. It reads keys of the source, asks whether it may
// write to the destination, and changes nothing.
func dryRun(c *cobra.Command, s sweep.Scan, to *storage.Table, o copyOptions) error {
	if err := probe(c.Context(), s); err != nil {
		return err
	}
	exists, err := to.MayWrite(c.Context())
	if err != nil {
		return fmt.Errorf("try the destination: %w", err)
	}
	q := storage.Query{Range: s.Bounds.Range(), Filter: s.Filter, Top: s.Segment}
	e, latency, err := survey.Rows(c.Context(), s.Table, q, dryRunEffort)
	if err != nil {
		return err
	}
	w := estimate.Work{Segment: s.Segment, Transactions: true, Parallel: o.workers, Latency: latency, Price: o.price}
	if o.json {
		r := e.Report(w)
		r.Creates = !exists
		return json.NewEncoder(c.OutOrStdout()).Encode(r)
	}
	return printEstimate(c.OutOrStdout(), e, w, to, exists)
}

func printEstimate(out io.Writer, e estimate.Estimate, w estimate.Work, to *storage.Table, exists bool) error {
	cost := e.Cost(w)
	number := func(r estimate.Range, format string) string {
		if e.Exact {
			return fmt.Sprintf(format, r.Middle())
		}
		r = r.Rounded()
		return fmt.Sprintf(format+" to "+format, r.Low, r.High)
	}
	lasts := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)).Round(time.Second) }
	how := "sampled"
	if e.Exact {
		how = "counted"
	}
	table := fmt.Sprintf("the destination %s exists and takes rows", to)
	if !exists {
		table = fmt.Sprintf("the destination %s does not exist and would be created", to)
	}
	seconds := lasts(cost.Seconds.Low).String()
	if high := lasts(cost.Seconds.High).String(); high != seconds {
		seconds += " to " + high
	}
	_, err := fmt.Fprintf(out, "would copy %s rows, %s by %d queries of %v each\n%s requests\nat least %s, at %d requests at once\n$%.4f to $%.4f, at $%g for 10,000 requests\n%s\n",
		number(e.Rows, "%.0f"), how, e.Queries, w.Latency.Round(time.Millisecond), number(cost.Requests, "%.0f"), seconds, w.Parallel, cost.Dollars.Low, cost.Dollars.High, w.Price, table)
	return err
}
