package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/app/config"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/job/estimate"
	"tablesweep/internal/problem"
)

// dryRunTime is the longest time for which a dry run counts rows, except with --dry-run=full.
const dryRunTime = 30 * time.Second

// dryRun is the flag --dry-run, a switch that also accepts the value "full".
type dryRun struct{ on, full bool }

func (d *dryRun) Set(text string) error {
	if text == "full" {
		*d = dryRun{true, true}
		return nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("is %q; write --dry-run, or --dry-run=full", text)
	}
	*d = dryRun{on: on}
	return nil
}

func (d *dryRun) String() string {
	if d.full {
		return "full"
	}
	return strconv.FormatBool(d.on)
}

// Type makes --help show the flag as a switch.
func (d *dryRun) Type() string { return "bool" }

// limit returns the longest time for which to count. 0 means no limit.
func (d *dryRun) limit() time.Duration {
	if d.full {
		return 0
	}
	return dryRunTime
}

// price returns the price of 10,000 requests in dollars.
func price() (float64, error) {
	dollars, err := config.Price(environment())
	if err != nil {
		return 0, usageError(err)
	}
	return dollars, nil
}

// showEstimate prints what a job would do. It reads only keys.
func (j *jobFlags) showEstimate(r *call, prepared *job.Job) error {
	dollars, err := price()
	if err != nil {
		return err
	}
	e, err := prepared.Estimate(r.ctx, j.dryRun.limit(), dollars)
	if err != nil {
		return err
	}
	if j.json {
		return lines.JSON(r.Out).Encode(e.Report)
	}
	return printEstimate(r.Out, e.Verb, e.Report, dollars, e.Sentence)
}

// printEstimate writes a report for people. If the count stopped early, but found a row, printEstimate prints "more than
// N rows". N is less than the number of counted rows, so the text is true even if the table has no other rows.
func printEstimate(out io.Writer, verb string, r estimate.Report, price float64, sentence string) error {
	rows, at := *r.Rows[0], fmt.Sprintf("at $%g for 10,000 requests", price)
	text := fmt.Sprintf("would %s %s\n%s, %s\n", verb, grouped(rows, "row"), requestsAndCost(r.Requests, r.Dollars), at)
	if !r.Counted && rows > 0 {
		text = fmt.Sprintf("would %s more than %s (not all counted in %v)\n%s, for the rows counted\n%s, for each million beyond\n%s\n",
			verb, grouped(below(rows), "row"), seconds(dryRunTime), requestsAndCost(r.Requests, r.Dollars), requestsAndCost(r.PerMillion, *r.DollarsPerMillion), at)
	} else if !r.Counted {
		text = fmt.Sprintf("would %s rows, but %v were not enough to find one; --dry-run=full counts to the end\n", verb, seconds(dryRunTime))
	}
	if r.Missing > 0 {
		text += fmt.Sprintf("%s of the list would fail, because no row of the table has such a key\n", grouped(r.Missing, "row"))
	}
	_, err := fmt.Fprintf(out, "%s%s\n", text, sentence)
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }

// below returns the greatest number below n with at most three significant digits.
func below(n int64) int64 {
	last := int64(1) // the result is a multiple of this power of ten
	for n-1 >= 1000*last {
		last *= 10
	}
	return (n - 1) / last * last
}

func requestsAndCost(requests int64, dollars float64) string {
	return "about " + grouped(requests, "request") + ", " + money(dollars)
}

// money formats a cost as the console does.
func money(dollars float64) string {
	switch {
	case dollars < 0.0001:
		return "less than $0.0001"
	case dollars < 1:
		return fmt.Sprintf("$%.4f", dollars)
	}
	return fmt.Sprintf("$%.2f", dollars)
}

// grouped returns a number and its noun, with commas between thousands, such as "12,345 rows".
func grouped(n int64, noun string) string {
	number, noun, _ := strings.Cut(problem.Plural(n, noun), " ")
	for i := len(number) - 3; i > 0; i -= 3 {
		number = number[:i] + "," + number[i:]
	}
	return number + " " + noun
}
