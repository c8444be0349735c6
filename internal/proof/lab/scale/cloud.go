package scale

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tablesweep/internal/local/emulator/table"
	"tablesweep/internal/scans"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

var (
	sourceTable      = scans.TableRef{Table: "source", Connection: "SOURCE"}
	destinationTable = scans.TableRef{Table: "destination", Connection: "DESTINATION"}
)

// cloud is the model around the app in a run: storage, instances and the scale controller that starts them.
type cloud struct {
	options     Options
	own         *account
	source      *account
	destination *account
	sink        sink

	over context.Context // ends with the run
	stop context.CancelFunc
	work sync.WaitGroup // counts everything that runs

	start     time.Time
	groups    []*group
	listeners atomic.Uint64 // the number of listeners that have started
}

// group consists of the instances that the scale controller starts for the same functions.
type group struct {
	*cloud
	queue string       // the queue from which they get messages; "" if they only receive calls
	size  atomic.Int64 // the number of instances, including those that are starting
}

// add starts an instance.
func (g *group) add() *instance {
	g.size.Add(1)
	in := &instance{cloud: g.cloud}
	in.launch(g.queue)
	return in
}

func newCloud(o Options) *cloud {
	c := &cloud{options: o, start: time.Now()}
	c.over, c.stop = context.WithCancel(context.Background())
	c.own = newAccount("own", o, nil)
	c.source = newAccount("source", o, map[string]table.Rows{sourceTable.Table: rows{o.Rows, o.PerPartition}})
	c.destination = newAccount("destination", o, map[string]table.Rows{destinationTable.Table: &c.sink})
	for _, queue := range []string{"", scans.Queues[scans.ScanPrefix], scans.Queues[scans.ScanPartition], scans.Queues[scans.CopyRows]} {
		c.groups = append(c.groups, &group{cloud: c, queue: queue})
	}
	return c
}

// must returns v. An error would be a mistake in the model, so must panics if there is one.
func must[T any](v T, err error) T {
	if err != nil {
		panic("scale: internal error: " + err.Error())
	}
	return v
}

// scale runs the scale controller. At each decision, it reads the length of every queue and starts instances.
func (c *cloud) scale() {
	a := must(storage.Open(c.own.connection, storage.Options{Transport: c.own.transport}))
	for task.Sleep(c.over, c.options.Decide) {
		for _, g := range c.groups {
			if g.queue == "" {
				continue
			}
			length, err := must(a.Queue(g.queue)).Length(c.over)
			if err != nil {
				continue // the queue does not exist yet, or the account refuses the request; the next decision tries again
			}
			for range g.more(length) {
				c.work.Go(func() { g.add() })
			}
		}
	}
}

// more returns how many instances the scale controller adds for a queue of this length.
func (g *group) more(length int) int {
	perInstance := hostQueues.BatchSize + hostQueues.NewBatchThreshold
	wanted := (length + perInstance - 1) / perInstance
	return max(0, min(wanted-int(g.size.Load()), g.options.Step, mostInstances-g.instances()))
}

// instances returns the number of all instances.
func (c *cloud) instances() int {
	n := 0
	for _, g := range c.groups {
		n += int(g.size.Load())
	}
	return n
}
