package scale

import (
	"fmt"
	"time"

	"tablesweep/internal/engine"
)

// Options describe the table, the scan and the cloud of a run.
type Options struct {
	Rows         int64 // of the table
	Done         int64 // the first rows that are already counted in the ledger when a count starts
	PerPartition int64 // rows of each partition but the last

	Action   string // engine.Copy or engine.Count
	Strategy string // as a request has it; "" for the default
	Segments int    // queries an invocation; 0 for the action's default

	Decide time.Duration // between two decisions of the scale controller
	Step   int           // the most instances that one decision adds to a group that scales by itself

	Limits  Limits
	Latency Latency

	Progress func(Sample) `json:"-"` // if not nil, called with a sample now and then
}

// Limits are the services' limits a second.
type Limits struct {
	Account   float64 // requests
	Partition float64 // entities of a partition, messages of a queue
}

// Latency is how long requests take, without the random factor.
type Latency struct {
	Query    time.Duration // of a range, and for each row of it QueryRow
	QueryRow time.Duration
	Point    time.Duration // one row, read
	Write    time.Duration // a row or a transaction, and for each further row of it WriteRow
	WriteRow time.Duration
	Queue    time.Duration // anything about messages
	Refusal  time.Duration // 503
}

// The model's hosting plan is Flex Consumption with instances of the default size. Each queue's function, and
// all others, have instances of their own there.
const (
	plan          = "flex"
	mostInstances = 100
	memory        = 2048 // MB of an instance
	cores         = 1.0  // of an instance
	gbSecond      = 0.000026
	million       = 0.40            // dollars for a million executions
	coldStart     = 5 * time.Second // until a new instance takes messages
)

const (
	rowBytes = 40 // of a row's text, beside its keys and number
	seed     = 1  // of what varies from request to request
)

// DefaultOptions are a copy of the smallest table that was published.
func DefaultOptions() Options {
	return Options{
		Rows: 3_560_000, PerPartition: 1, Action: engine.Copy, Decide: 10 * time.Second, Step: 4,
		Limits: Limits{Account: 20_000, Partition: 2_000},
		Latency: Latency{
			Query: 20 * time.Millisecond, QueryRow: 80 * time.Microsecond, Point: 8 * time.Millisecond,
			Write: 12 * time.Millisecond, WriteRow: 600 * time.Microsecond, Queue: 10 * time.Millisecond, Refusal: 2 * time.Millisecond,
		},
	}
}

// Check returns what is wrong with an option.
func (o Options) Check() error {
	for _, f := range []struct {
		name string
		ok   bool
	}{
		{"rows must be at least 1", o.Rows >= 1},
		{"done must be 0, or of a count whole partitions and fewer rows than the table has", o.Done == 0 || o.Done > 0 && o.Done < o.Rows && !o.copies() && o.PerPartition > 0 && o.Done%o.PerPartition == 0},
		{"per-partition must be from 1 to 1,000,000", o.PerPartition >= 1 && o.PerPartition <= 1_000_000},
		{"action must be copy or count", o.Action == engine.Copy || o.Action == engine.Count},
		{"segments must be from 1 to 24, or 0 for the action's default", o.Segments >= 0 && o.Segments <= 24},
		{"step must be at least 1", o.Step >= 1},
		{"decide must be at least 1s", o.Decide >= time.Second},
	} {
		if !f.ok {
			return fmt.Errorf("%s", f.name)
		}
	}
	return nil
}

// read returns how many rows the run reads.
func (o Options) read() int64 { return o.Rows - o.Done }
