package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/scan/estimate"
	"tablesweep/internal/scan/estimate/survey"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
)

// dryRunEffort bounds the cost of a dry run.
var dryRunEffort = survey.Effort{Queries: 40_000, Time: 30 * time.Second}

// dryRunFlags are the flags of commands with a dry run.
type dryRunFlags struct {
	dryRun bool
	price  float64
}

func (d *dryRunFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&d.dryRun, "dry-run", false, "change nothing; estimate rows, requests, time and cost within a minute, and check the permissions")
	c.Flags().Float64Var(&d.price, "price", estimate.Price, "dollars for 10,000 requests, for --dry-run")
}

// intent is what a command would do with rows.
type intent struct {
	verb string
	work estimate.Plan // but for what a survey and the flags tell
	// look asks whether it is allowed, and says in a sentence what it leads to. missing
	// tells that this would be created.
	look func(context.Context) (sentence string, missing bool, err error)
}

// print prints what a command would do. It reads keys of the source and changes nothing.
func (d *dryRunFlags) print(c *cobra.Command, s sweep.Spec, i intent, workers int, asJSON bool) error {
	if s.Keys != nil {
		return usagef("--dry-run is about ranges, not about the rows of --rows")
	}
	if err := checkPrice(d.price); err != nil {
		return err
	}
	if err := probe(c.Context(), s); err != nil {
		return err
	}
	sentence, missing, err := i.look(c.Context())
	if err != nil {
		return err
	}
	q := storage.Query{Range: s.Bounds.Range(), Filter: s.Filter, Top: s.Segment}
	e, latency, err := survey.Rows(c.Context(), s.Table, q, dryRunEffort)
	if err != nil {
		return err
	}
	w := i.work
	w.Segment, w.Parallel, w.Latency, w.Price = s.Segment, workers, latency, d.price
	if asJSON {
		r := e.Report(w)
		r.Creates = missing
		return jsonTo(c.OutOrStdout()).Encode(r)
	}
	return printEstimate(c.OutOrStdout(), i.verb, e, w, sentence)
}

// checkPrice checks the flag --price, which takes NaN and Inf for numbers.
func checkPrice(dollars float64) error {
	if !(dollars >= 0) || math.IsInf(dollars, 1) {
		return usagef("--price is %g, want dollars, at least 0", dollars)
	}
	return nil
}

// printEstimate writes numbers no more precisely than they are known.
func printEstimate(out io.Writer, verb string, e estimate.Estimate, w estimate.Plan, sentence string) error {
	cost, how := e.Cost(w), "counted"
	if !e.Exact {
		how = "sampled"
		e.Rows, cost.Requests, cost.Seconds = e.Rows.Rounded(), cost.Requests.Rounded(), cost.Seconds.Rounded()
	}
	rows, requests := countOf(e.Rows, "row"), countOf(cost.Requests, "request")
	lasts := between(cost.Seconds, func(x float64) string {
		return time.Duration(x * float64(time.Second)).Round(time.Second).String()
	})
	dollars := between(cost.Dollars, func(x float64) string {
		switch {
		case x < 0.0001:
			return "less than $0.0001"
		case cost.Dollars.High < 1:
			return fmt.Sprintf("$%.4f", x)
		}
		return fmt.Sprintf("$%.2f", x)
	})
	_, err := fmt.Fprintf(out, "would %s %s, %s by %s of %v each\n%s\nat least %s, at %s at once\n%s, at $%g for 10,000 requests\n%s\n",
		verb, rows, how, progress.Plural(e.Queries, "query"), w.Latency.Round(100*time.Microsecond), requests, lasts, progress.Plural(w.Parallel, "request"), dollars, w.Price, sentence)
	return err
}

// countOf writes a number of things.
func countOf(r estimate.Interval, noun string) string {
	low, high := int64(r.Low), int64(r.High)
	if low == high {
		return progress.Plural(high, noun)
	}
	return fmt.Sprintf("%d to %s", low, progress.Plural(high, noun))
}

// between writes both ends of a range, or one if they look the same.
func between(r estimate.Interval, write func(float64) string) string {
	low, high := write(r.Low), write(r.High)
	if low == high {
		return low
	}
	return low + " to " + high
}

// leadsTo describes a destination, and says whether it exists.
func leadsTo(place, takes string, missing bool) string {
	if missing {
		return fmt.Sprintf("the destination %s does not exist and would be created", place)
	}
	return fmt.Sprintf("the destination %s exists and takes %s", place, takes)
}
