// Package estimate says how many rows there are for some work, and what the work costs. It
// counts the rows, keys alone, for a limited time: what it met by then is true, and nothing
// tells how much else there is. (docs/measurements.md has what sampling would add.)
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

// grace is how long queries that are under way when the time is over may still take.
const grace = 2 * time.Second

// spare is how many queries work makes for each full page: parallel readers also ask where little or
// nothing is left. Copies of 600 pages by the command line took 1.1 to 2; scans by messages
// take 1.36 on the mean (docs/measurements.md).
const spare = 1.3

const million = 1_000_000

// Work is what is to be done with the rows.
type Work struct {
	Writes   func(rows []storage.Row) int // requests that write a page's rows; nil for none
	PerQuery float64                      // further requests for each query
	Price    float64                      // dollars for 10,000 requests
}

// Report is an estimate as users see it.
type Report struct {
	Rows    [2]*int64 `json:"rows"`    // at least and at most; the latter is nil if not all were counted
	Counted bool      `json:"counted"` // all rows were
	// Requests and Dollars are about what the work takes for the rows counted.
	Requests int64   `json:"requests"`
	Dollars  float64 `json:"dollars"`
	// DollarsPerMillion is about what it takes for a million further rows that are like these; nil
	// if no row was counted.
	DollarsPerMillion *float64 `json:"dollarsPerMillion,omitempty"`
	// LeastSeconds is the least time that limits allow the rows counted and their requests; 0 without limits.
	LeastSeconds float64 `json:"leastSeconds,omitempty"`
	Queries      int64   `json:"queries"`           // of the count
	Missing      int64   `json:"missing,omitempty"` // listed rows that the table does not have
	Creates      bool    `json:"creates,omitempty"` // what the work writes to is missing, and will be created

	// PerMillion has the requests for DollarsPerMillion.
	PerMillion int64 `json:"-"`
}

// Count counts the sweep's rows for so long, or to the end if limit is 0.
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
		o.Watch = func(p sweep.Progress) { // the end of the time is no interrupt
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
	totals.Rows -= totals.Failed // listed rows that are missing
	all := err == nil
	if errors.Is(err, task.ErrInterrupted) && ctx.Err() == nil {
		err = nil // the time was over
	}
	if err != nil {
		return Report{}, err
	}
	return report(s, totals, writes, all, w), nil
}

// report makes a report of what a count found.
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

// queriesOf returns about how many queries the work makes for the rows counted, and for each further
// one. A count makes more than work does, since its workers wait for nothing else and steal
// from each other sooner: full pages tell better. With a filter pages are not full; listed
// rows, and a strategy without thefts, take the same queries for count and work.
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

// rounded leaves three significant digits: requests are known about.
func rounded(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	return x
}
