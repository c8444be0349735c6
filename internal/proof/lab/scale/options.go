package scale

import (
	"errors"
	"time"

	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/scans"
)

// Options describe the table, the scan and the cloud of a run.
type Options struct {
	Rows         int64  // the number of rows of the table
	PerPartition int64  // the number of rows of each partition except the last
	Action       string // scans.Copy or scans.Count

	Decide time.Duration // the time between two decisions of the scale controller
	Step   int           // the most instances that one decision adds to a separately scaled group

	AccountLimit float64 // requests a second that an account allows

	Progress func(took time.Duration, rows int64) // if not nil, called every ten seconds with the number of rows read so far
}

// The duration of a request is its latency, times a random factor. [Options.Facts] has the sources of these numbers.
const (
	partitionLimit = 2_000 // entities a second in a partition, or messages a second in a queue

	queryLatency    = 20 * time.Millisecond  // for a range, plus queryRowLatency for each of its rows
	queryRowLatency = 80 * time.Microsecond  //
	pointLatency    = 8 * time.Millisecond   // for reading one row
	writeLatency    = 12 * time.Millisecond  // for a row or a transaction, plus writeRowLatency for each further row
	writeRowLatency = 600 * time.Microsecond //
	queueLatency    = 10 * time.Millisecond  // for any request about messages
	refusalLatency  = 2 * time.Millisecond   // for an answer of 503
)

// The model's hosting plan is Flex Consumption with instances of the default size. In this plan, each queue's function has separate instances, and all other
// functions share instances.
const (
	mostInstances = 100
	coldStart     = 5 * time.Second // the time until a new instance receives messages

	requestCost   = 220 * time.Microsecond // processor time for each request to storage
	sentCost      = 27 * time.Microsecond  // for each KiB of a request's body
	receivedCost  = 11 * time.Microsecond  // for each KiB of an answer's body
	executionCost = 2 * time.Millisecond   // for each execution, including the host's part
)

// hostQueues are the queue settings of host.json. A test checks that they are equal.
var hostQueues = hostjson.Queues{
	BatchSize: 8, NewBatchThreshold: 4, MaxPolling: 5 * time.Second, Visibility: 10 * time.Second, MaxDequeue: scans.MaxDeliveries, Base64: true,
}

const seed = 1 // the seed of the random factors of latencies

// DefaultOptions returns the options for a copy of the smallest table for which figures were published.
func DefaultOptions() Options {
	return Options{Rows: 3_560_000, PerPartition: 1, Action: scans.Copy, Decide: 10 * time.Second, Step: 4, AccountLimit: 20_000}
}

// Check returns an error about the first invalid option.
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

// copies reports whether the scan is a copy. Otherwise it is a count.
func (o Options) copies() bool { return o.Action == scans.Copy }

// limit returns the shortest time in seconds that an account's limit on requests allows. For a count, this is the source's account. For a copy, it is the
// destination's account, because each transaction has rows of only one partition.
func (o Options) limit() float64 {
	requests := (o.Rows + 999) / 1000
	if o.copies() {
		whole, left := o.Rows/o.PerPartition, o.Rows%o.PerPartition
		requests = whole*((o.PerPartition+99)/100) + (left+99)/100
	}
	return float64(requests) / o.AccountLimit
}
