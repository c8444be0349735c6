package scalebench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/engine"
)

// Options describe the table, the scan and the cloud of a run.
type Options struct {
	Rows         int64  // of the table
	Done         int64  // the first rows that are already counted in the ledger when a count starts
	PerPartition int64  // rows of each partition but the last
	RowBytes     int    // of a row's text, beside its keys and number
	Keys         string // one of [Keys]

	Action   string // engine.Copy or engine.Count
	Strategy string // as a request has it; "" for the default
	Segments int    // queries an invocation; 0 for the action's default

	Plan      string        // one of Plans
	Memory    int           // of an instance, in MB; on the plan Flex the processor's speed depends on it
	Instances int           // at most, in all
	Decide    time.Duration // between two decisions of the scale controller
	Step      int           // the most instances that one decision adds to a group that scales by itself
	ColdStart time.Duration // until a new instance takes messages

	Limits  Limits
	Latency Latency
	Slower  float64 // every latency times this
	Seed    uint64  // of the random factors

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

// plan is a hosting plan.
type plan struct {
	apart     bool // each queue's function, and all others, have instances of their own
	instances int
	memory    int // MB, the default
	cores     func(memory int) float64
	gbSecond  float64 // dollars
	million   float64 // dollars for a million executions
}

var plans = map[string]plan{
	"flex":        {apart: true, instances: 100, memory: 2048, cores: func(mb int) float64 { return float64(mb) / 2048 }, gbSecond: 0.000026, million: 0.40},
	"consumption": {instances: 200, memory: 1536, cores: func(int) float64 { return 1 }, gbSecond: 0.000016, million: 0.20},
}

// Plans names the hosting plans that the model knows.
func Plans() []string { return slices.Sorted(maps.Keys(plans)) }

// DefaultOptions are a copy of the smallest table that was published, on the plan Flex.
func DefaultOptions() Options {
	return Options{
		Rows: 3_560_000, PerPartition: 1, RowBytes: 40, Keys: "guid",
		Action: engine.Copy,
		Plan:   "flex", Decide: 10 * time.Second, Step: 4, ColdStart: 5 * time.Second,
		Limits: Limits{Account: 20_000, Partition: 2_000},
		Latency: Latency{
			Query: 20 * time.Millisecond, QueryRow: 80 * time.Microsecond, Point: 8 * time.Millisecond,
			Write: 12 * time.Millisecond, WriteRow: 600 * time.Microsecond, Queue: 10 * time.Millisecond, Refusal: 2 * time.Millisecond,
		},
		Slower: 1, Seed: 1,
	}
}

// Check fills in options that depend on the plan. Its error is a wrong option.
func (o *Options) Check() error {
	p, ok := plans[o.Plan]
	if !ok {
		return fmt.Errorf("no plan %q; there are %s", o.Plan, strings.Join(Plans(), ", "))
	}
	o.Memory, o.Instances = cmp.Or(o.Memory, p.memory), cmp.Or(o.Instances, p.instances)
	for _, f := range []struct {
		name string
		ok   bool
	}{
		{"rows must be at least 1", o.Rows >= 1},
		{"done must be 0, or of a count whole partitions and fewer rows than the table has", o.Done == 0 || o.Done > 0 && o.Done < o.Rows && !o.copies() && o.PerPartition > 0 && o.Done%o.PerPartition == 0},
		{"per-partition must be from 1 to 1,000,000", o.PerPartition >= 1 && o.PerPartition <= 1_000_000},
		{"row-bytes must be from 0 to 30,000", o.RowBytes >= 0 && o.RowBytes <= 30_000},
		{"keys must be one of " + strings.Join(Keys, ", "), slices.Contains(Keys, o.Keys)},
		{"action must be copy or count", o.Action == engine.Copy || o.Action == engine.Count},
		{"segments must be from 1 to 24, or 0 for the action's default", o.Segments >= 0 && o.Segments <= 24},
		{"memory must be at least 256", o.Memory >= 256},
		{"instances must be at least 3", o.Instances >= 3},
		{"step must be at least 1", o.Step >= 1},
		{"decide must be at least 1s", o.Decide >= time.Second},
		{"cold-start must not be negative", o.ColdStart >= 0},
		{"slower must be more than 0", o.Slower > 0},
	} {
		if !f.ok {
			return fmt.Errorf("%s", f.name)
		}
	}
	return nil
}

// read returns how many rows the run reads.
func (o Options) read() int64 { return o.Rows - o.Done }
