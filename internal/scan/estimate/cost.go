package estimate

import (
	"math"
	"strconv"
	"time"
)

// Targets of the service. (Microsoft Learn, "Scalability and performance targets for
// Table storage" and "for Queue Storage")
const (
	accountRows   = 20_000 // entities of 1 KiB that an account takes in a second
	partitionRows = 2_000  // and a partition
	queueMessages = 2_000  // messages of 1 KiB that a queue takes in a second
)

// Plan says what the work does with the rows, and how.
type Plan struct {
	Segment      int           // rows a query returns at most
	PerQuery     float64       // further requests for each query
	Transactions bool          // it writes rows in transactions
	Messages     bool          // it sends a message to one queue for each row
	Parallel     int           // requests under way at once
	Latency      time.Duration // of a request
	Price        float64       // dollars for 10,000 requests
}

// Cost is what work costs.
type Cost struct {
	Requests Interval
	Seconds  Interval // at least
	Dollars  Interval
}

// Cost returns what the work costs.
func (e Estimate) Cost(w Plan) Cost {
	const spare = 1.1 // queries of a parallel scan for each query of a serial one
	bound := func(rows, transactions float64) (requests, seconds float64) {
		queries := math.Ceil(rows / float64(w.Segment))
		if queries > 1 {
			queries *= spare
		}
		requests = math.Ceil(max(1, queries) * (1 + w.PerQuery))
		seconds = rows / accountRows
		if w.Messages {
			requests += rows
			seconds = rows / queueMessages
		}
		if w.Transactions {
			requests += math.Ceil(transactions)
			seconds = max(seconds, min(e.Busiest, rows)/partitionRows)
		}
		return requests, max(seconds, requests*w.Latency.Seconds()/float64(w.Parallel))
	}
	var c Cost
	c.Requests.Low, c.Seconds.Low = bound(e.Rows.Low, e.Transactions.Low)
	c.Requests.High, c.Seconds.High = bound(e.Rows.High, e.Transactions.High)
	const unit = 10_000
	c.Dollars = Interval{c.Requests.Low / unit * w.Price, c.Requests.High / unit * w.Price}
	return c
}

// Middle returns the geometric mean of the range's ends.
func (r Interval) Middle() float64 { return math.Sqrt(r.Low * r.High) }

// Rounded returns the range with two significant digits, rounded outwards: an estimate
// knows no more.
func (r Interval) Rounded() Interval {
	return Interval{round(r.Low, math.Floor), round(r.High, math.Ceil)}
}

func round(x float64, to func(float64) float64) float64 {
	if x < 100 {
		return to(x)
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-1)
	return to(x/unit) * unit
}

// significant returns the number rounded to so many digits.
func significant(x float64, digits int) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil {
		return x // no number
	}
	return rounded
}

// Price is the default price of 10,000 requests, in dollars.
const Price = 0.00036

// Report is an estimate as users see it, rounded to what it knows.
type Report struct {
	Rows     [2]int64 `json:"rows"`     // at least and at most; equal if they were counted
	Requests float64  `json:"requests"` // this, dollars and seconds are for a number of rows in between
	Dollars  float64  `json:"dollars"`
	Seconds  float64  `json:"seconds"`           // at least
	Queries  int      `json:"queries"`           // of the estimate
	Creates  bool     `json:"creates,omitempty"` // the destination is missing, and the work will create it
}

// Report returns the estimate with the cost of the work.
func (e Estimate) Report(w Plan) Report {
	r := Report{Queries: e.Queries}
	rows, cost := e.Rows, e.Cost(w)
	near, digits := func(x Interval) float64 { return round(x.Middle(), math.Round) }, 2
	if e.Exact {
		near, digits = Interval.Middle, 6
	} else {
		rows = rows.Rounded()
	}
	r.Rows = [2]int64{int64(rows.Low), int64(rows.High)}
	r.Requests, r.Dollars, r.Seconds = near(cost.Requests), significant(cost.Dollars.Middle(), digits), round(cost.Seconds.Middle(), math.Ceil)
	return r
}
