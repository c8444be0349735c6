package scalebench

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

// world is a run under way.
type world struct {
	options     Options
	cores       float64 // of an instance
	costs       costs
	own         *account
	source      *account
	destination *account
	rows        rows
	sink        *sink
	log         zerolog.Logger

	running context.Context // ends with the run
	stop    context.CancelFunc
	work    sync.WaitGroup // all that runs

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
	*world
	queues []string // whose messages they take

	mu        sync.Mutex // guards instances
	instances []*instance
	starting  int
}

func (g *group) has(queue string) bool {
	for _, q := range g.queues {
		if q == queue {
			return true
		}
	}
	return false
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

func newWorld(o Options) (*world, error) {
	p := plans[o.Plan]
	w := &world{options: o, cores: p.cores(o.Memory), costs: assumedCosts, rows: newRows(o), start: time.Now(), warnings: map[string]int64{}}
	w.running, w.stop = context.WithCancel(context.Background())
	w.log = zerolog.New(io.Discard).Level(zerolog.WarnLevel).Hook(zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, message string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.warnings[message]++
	}))
	w.sink = newSink(w.rows)
	var errs [3]error
	w.own, errs[0] = newAccount("own", o, nil)
	w.source, errs[1] = newAccount("source", o, map[string]table.Rows{sourceTable: source{w.rows}})
	w.destination, errs[2] = newAccount("destination", o, map[string]table.Rows{destinationTable: w.sink})
	queues := []string{engine.Queues[engine.ScanPrefix], engine.Queues[engine.ScanPartition], engine.Queues[engine.CopyRows]}
	if p.apart {
		w.groups = append(w.groups, &group{world: w})
		for _, q := range queues {
			w.groups = append(w.groups, &group{world: w, queues: []string{q}})
		}
	} else {
		w.groups = append(w.groups, &group{world: w, queues: queues})
	}
	return w, errors.Join(errs[:]...)
}

// fail ends the run for a reason that has nothing to do with the app.
func (w *world) fail(err error) {
	if w.running.Err() != nil {
		return
	}
	w.mu.Lock()
	w.failure = errors.Join(w.failure, err)
	w.mu.Unlock()
	w.stop()
}

// instances returns how many instances take messages or calls.
func (w *world) instances() int {
	n := 0
	for _, g := range w.groups {
		g.mu.Lock()
		n += len(g.instances)
		g.mu.Unlock()
	}
	return n
}
