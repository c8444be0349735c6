// Package estimate counts the rows that a job would process, and estimates the job's cost. It reads only keys, for a limited time. If that time is
// too short for all rows, the counted rows are the minimum, and the maximum is unknown. docs/measurements.md explains what sampling would add.
package estimate

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"tablesweep/internal/job/sweep"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// grace is how long a running query may continue after the time limit.
const grace = 2 * time.Second

// spare is the assumed number of queries per full page. It exceeds 1, because parallel readers also query ranges in which few or no rows are left.
// Copies of tables of 600 pages made 1.1 to 2 queries per page. Scans in the app make 1.36 queries per page on average (docs/measurements.md).
const spare = 1.3

const million = 1_000_000

// Work describes the requests that a job makes for its rows, and their price.
type Work struct {
	Writes   func(rows []storage.Row) int // returns the number of requests that write a page's rows; nil for no writes
	PerQuery float64                      // requests that the work makes per query, in addition to the query and the writes
	Price    float64                      // price of 10,000 requests, in dollars
}

// Report is an estimate, as the app and the command line return it.
type Report struct {
	Rows    [2]*int64 `json:"rows"`    // lowest and highest number of rows; the highest is nil if not all rows were counted
	Counted bool      `json:"counted"` // all rows were counted
	// Requests and Dollars estimate the work for the counted rows.
	Requests int64   `json:"requests"`
	Dollars  float64 `json:"dollars"`
	// DollarsPerMillion is the estimated cost of a million more rows like the counted ones. It is nil if no row was counted.
	DollarsPerMillion *float64 `json:"dollarsPerMillion,omitempty"`
	// LeastSeconds is the shortest time that the work for the counted rows can take within the limits on rows and requests. It is 0 without limits.
	LeastSeconds float64 `json:"leastSeconds,omitempty"`
	Queries      int64   `json:"queries"`           // queries that the count made
	Missing      int64   `json:"missing,omitempty"` // listed rows that are not in the table
	Creates      bool    `json:"creates,omitempty"` // the destination is missing, and will be created

	// PerMillion is the number of requests that DollarsPerMillion pays for.
	PerMillion int64 `json:"-"`
}

// Count counts the sweep's rows until the time limit, or to the end if `limit` is 0.
func Count(ctx context.Context, s sweep.Spec, o sweep.Options, limit time.Duration, w Work) (Report, error) {
	counting := ctx
	if limit > 0 {
		var end, abort context.CancelFunc
		counting, end = context.WithTimeout(ctx, limit)
		defer end()
		var late context.Context
		late, abort = context.WithTimeout(ctx, limit+grace)
		defer abort()
		o.Abort = late.Done()
	}
	if watch := o.Watch; watch != nil {
		o.Watch = func(p sweep.Progress) { // reaching the time limit does not count as an interrupt
			p.Stopping = p.Stopping && ctx.Err() != nil
			watch(p)
		}
	}
	writes := 0
	totals, err := sweep.Count(counting, s, o, func(rows []storage.Row) {
		if w.Writes != nil {
			writes += w.Writes(rows)
		}
	})
	totals.Rows -= totals.Failed // do not count listed rows that are missing
	all := err == nil
	if errors.Is(err, task.ErrInterrupted) && ctx.Err() == nil {
		err = nil // the count ended because of its time limit
	}
	if err != nil {
		return Report{}, err
	}
	return report(s, totals, writes, all, w), nil
}

func report(s sweep.Spec, found sweep.Totals, writes int, all bool, w Work) Report {
	rows, most := found.Rows, &found.Rows
	if !all {
		most = nil
	}
	queries, each := queriesOf(s, found)
	requests := math.Ceil(queries*(1+w.PerQuery)) + float64(writes)
	dollars := func(requests float64) float64 { return rounded(requests / 10_000 * w.Price) }
	r := Report{Rows: [2]*int64{&rows, most}, Counted: all, Requests: int64(requests), Dollars: dollars(requests), Queries: found.Queries, Missing: found.Failed}
	if rows > 0 {
		more := math.Ceil(million * (each*(1+w.PerQuery) + float64(writes)/float64(rows)))
		price := dollars(more)
		r.PerMillion, r.DollarsPerMillion = int64(more), &price
	}
	return r
}

// queriesOf estimates how many queries the work makes for the counted rows, and for each further row. The count makes more queries than the work,
// because workers that only read take ranges from each other sooner than workers that also write. Therefore queriesOf ignores the count's queries,
// and multiplies the number of full pages by [spare]. If there is a filter or a list, or if the field Steal is not set, queriesOf uses the count's
// queries instead: a filter makes pages less full, and with a list or without Steal, the work makes as many queries as the count.
func queriesOf(s sweep.Spec, found sweep.Totals) (queries, each float64) {
	if !s.Steal || s.Filter != "" || s.Keys != nil {
		return float64(found.Queries), float64(found.Queries) / float64(max(1, found.Rows))
	}
	page := float64(cmp.Or(s.PageRows, storage.PageRows))
	queries, each = 1, spare/page
	if pages := math.Ceil(float64(found.Rows) / page); pages > 1 {
		queries = pages * spare
	}
	return queries, each
}

// rounded rounds a cost to three significant digits, because the number of requests is only an estimate.
func rounded(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	return x
}
