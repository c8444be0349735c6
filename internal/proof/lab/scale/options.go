package scale

import (
	"errors"
	"time"

	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/scans"
)

// Options describe the table, the scan and the cloud of a run.
type Options struct {
	Rows         int64  // of the table
	PerPartition int64  // rows of each partition but the last
	Action       string // scans.Copy or scans.Count

	Decide time.Duration // between two decisions of the scale controller
	Step   int           // the most instances that one decision adds to a group that scales by itself

	AccountLimit float64 // requests a second that an account takes

	Progress func(took time.Duration, rows int64) // if not nil, called every ten seconds with the rows that are read
}

// A request takes its latency, times a random factor. [Options.Facts] has the sources of these numbers.
const (
	partitionLimit = 2_000 // entities a second of a partition, messages of a queue

	queryLatency    = 20 * time.Millisecond  // of a range, and for each row of it queryRowLatency
	queryRowLatency = 80 * time.Microsecond  //
	pointLatency    = 8 * time.Millisecond   // one row, read
	writeLatency    = 12 * time.Millisecond  // a row or a transaction, and for each further row of it writeRowLatency
	writeRowLatency = 600 * time.Microsecond //
	queueLatency    = 10 * time.Millisecond  // anything about messages
	refusalLatency  = 2 * time.Millisecond   // 503
)

// The model's hosting plan is Flex Consumption with instances of the default size. Each queue's function, and
// all others, have instances of their own there.
const (
	mostInstances = 100
	coldStart     = 5 * time.Second // until a new instance takes messages

	requestCost   = 220 * time.Microsecond // of the processor, on each request to storage
	sentCost      = 27 * time.Microsecond  // on each KiB of a request's body
	receivedCost  = 11 * time.Microsecond  // on each KiB of an answer's
	executionCost = 2 * time.Millisecond   // on each execution, the host's part included
)

// hostQueues are host.json's, which a test compares.
var hostQueues = hostjson.Queues{
	BatchSize: 8, NewBatchThreshold: 4, MaxPolling: 5 * time.Second, Visibility: 10 * time.Second, MaxDequeue: scans.MaxDeliveries, Base64: true,
}

const seed = 1 // of what varies from request to request

// DefaultOptions are a copy of the smallest table that was published.
func DefaultOptions() Options {
	return Options{Rows: 3_560_000, PerPartition: 1, Action: scans.Copy, Decide: 10 * time.Second, Step: 4, AccountLimit: 20_000}
}

// Check returns what is wrong with an option.
func (o Options) Check() error {
	switch {
	case o.Rows < 1:
		return errors.New("rows must be at least 1")
	case o.PerPartition < 1 || o.PerPartition > 1_000_000:
		return errors.New("per-partition must be from 1 to 1,000,000")
	case o.Action != scans.Copy && o.Action != scans.Count:
		return errors.New("action must be copy or count")
	case o.Step < 1:
		return errors.New("step must be at least 1")
	case o.Decide < time.Second:
		return errors.New("decide must be at least 1s")
	}
	return nil
}

// copies reports whether the scan is a copy, and not a count.
func (o Options) copies() bool { return o.Action == scans.Copy }

// limit returns the shortest time that an account's limit on requests allows, in seconds: the
// destination's for a copy, in which each transaction takes rows of one partition, the source's for a count.
func (o Options) limit() float64 {
	requests := (o.Rows + 999) / 1000
	if o.copies() {
		whole, left := o.Rows/o.PerPartition, o.Rows%o.PerPartition
		requests = whole*((o.PerPartition+99)/100) + (left+99)/100
	}
	return float64(requests) / o.AccountLimit
}
