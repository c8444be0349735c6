package scale

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/emulator/table"
	"tablesweep/internal/engine"
	"tablesweep/internal/host/app"
)

const (
	stateTable            = "tablesweep"
	sourceConnection      = "SOURCE"
	destinationConnection = "DESTINATION"
	sourceTable           = "source"
	destinationTable      = "destination"
	// functionTimeout and hostQueues are host.json's, which a test compares.
	functionTimeout = 10 * time.Minute
)

var hostQueues = app.Queues{
	BatchSize: 8, NewBatchThreshold: 4, MaxPolling: 5 * time.Second, Visibility: 10 * time.Second, MaxDequeue: engine.MaxDeliveries, Base64: true,
}

// cloud is the model around the app in a run: storage, instances and what starts them.
type cloud struct {
	options     Options
	own         *account
	source      *account
	destination *account
	rows        rows
	sink        *sink
	log         zerolog.Logger

	over context.Context // ends with the run
	stop context.CancelFunc
	work sync.WaitGroup // all that runs

	start     time.Time
	groups    []*group
	listeners atomic.Uint64 // so many have started
	samples   []Sample

	mu       sync.Mutex // guards the fields below
	failure  error      // of the model, not of the app
	warnings map[string]int64
}

// group is the instances that are started together, for the same functions.
type group struct {
	*cloud
	queue string // whose messages they take; "" for those that take calls alone

	mu        sync.Mutex // guards instances
	instances []*instance
	starting  int
}

// add starts an instance.
func (g *group) add() *instance {
	g.mu.Lock()
	g.starting++
	g.mu.Unlock()
	in := g.launch()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.starting--
	g.instances = append(g.instances, in)
	return in
}

// size returns the number of instances, those that are starting included.
func (g *group) size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.instances) + g.starting
}

func newCloud(o Options) (*cloud, error) {
	c := &cloud{options: o, rows: newRows(o), start: time.Now(), warnings: map[string]int64{}}
	c.over, c.stop = context.WithCancel(context.Background())
	c.log = zerolog.New(io.Discard).Level(zerolog.WarnLevel).Hook(zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, message string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.warnings[message]++
	}))
	c.sink = newSink(c.rows)
	var errs [3]error
	c.own, errs[0] = newAccount("own", o, nil)
	c.source, errs[1] = newAccount("source", o, map[string]table.Rows{sourceTable: source{c.rows}})
	c.destination, errs[2] = newAccount("destination", o, map[string]table.Rows{destinationTable: c.sink})
	queues := []string{engine.Queues[engine.ScanPrefix], engine.Queues[engine.ScanPartition], engine.Queues[engine.CopyRows]}
	c.groups = append(c.groups, &group{cloud: c})
	for _, q := range queues {
		c.groups = append(c.groups, &group{cloud: c, queue: q})
	}
	return c, errors.Join(errs[:]...)
}

// fail ends the run for a reason that has nothing to do with the app.
func (c *cloud) fail(err error) {
	if c.over.Err() != nil {
		return
	}
	c.mu.Lock()
	c.failure = errors.Join(c.failure, err)
	c.mu.Unlock()
	c.stop()
}

// instances returns how many instances take messages or calls.
func (c *cloud) instances() int {
	n := 0
	for _, g := range c.groups {
		g.mu.Lock()
		n += len(g.instances)
		g.mu.Unlock()
	}
	return n
}
