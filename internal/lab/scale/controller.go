package scale

import (
	"fmt"
	"time"

	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// scale is the scale controller: again and again it looks how long each group's queues are,
// and starts instances.
func (c *cloud) scale() {
	a, err := storage.Open(c.own.connection, storage.Options{Transport: c.own.transport, TryTimeout: -1})
	if err != nil {
		c.fail(err)
		return
	}
	for task.Sleep(c.over, c.options.Decide) {
		for _, g := range c.groups {
			for range g.more(g.waiting(a)) {
				c.work.Go(func() { g.add() })
			}
		}
	}
}

// more returns how many instances the scale controller adds for a queue of this length.
func (g *group) more(length int) int {
	all := 0
	for _, other := range g.groups {
		all += other.size()
	}
	perInstance := hostQueues.BatchSize + hostQueues.NewBatchThreshold
	wanted := (length + perInstance - 1) / perInstance
	return max(0, min(wanted-g.size(), g.options.Step, mostInstances-all))
}

// waiting returns the length of the group's queue.
func (g *group) waiting(a *storage.Account) int {
	if g.queue == "" {
		return 0
	}
	q, err := a.Queue(g.queue)
	if err == nil {
		var n int
		if n, err = q.Length(g.over); err == nil {
			return n
		}
	}
	if g.over.Err() == nil && !storage.NotFound(err) {
		g.fail(fmt.Errorf("length of queue %s: %w", g.queue, err))
	}
	return 0
}

// sample notes every second how the run goes.
func (c *cloud) sample() {
	for c.note(); task.Sleep(c.over, time.Second); c.note() {
	}
}

func (c *cloud) note() {
	s := Sample{Seconds: time.Since(c.start).Seconds(), Instances: c.instances(), Rows: c.sink.written()}
	for i, a := range []*account{c.own, c.source, c.destination} {
		requests, refused, found := a.totals()
		s.Requests[i], s.Refused[i] = requests, refused
		if a == c.source && !c.options.copies() {
			s.Rows = found
		}
	}
	c.samples = append(c.samples, s)
	if c.options.Progress != nil && len(c.samples)%10 == 0 {
		c.options.Progress(s)
	}
}
