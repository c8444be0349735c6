package scalebench

import (
	"fmt"
	"time"

	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// scale is the scale controller: again and again it looks how long each group's queues are,
// and starts instances.
func (w *world) scale() {
	a, err := storage.Open(w.own.connection, storage.Options{Transport: w.own.transport, TryTimeout: -1})
	if err != nil {
		w.fail(err)
		return
	}
	for task.Sleep(w.running, w.options.Decide) {
		for _, g := range w.groups {
			for range g.more(g.longest(a)) {
				w.work.Go(func() { g.add() })
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
	return max(0, min(wanted-g.size(), g.options.Step, g.options.Instances-all))
}

// longest returns the length of the group's longest queue.
func (g *group) longest(a *storage.Account) int {
	longest := 0
	for _, name := range g.queues {
		q, err := a.Queue(name)
		if err == nil {
			var n int
			n, err = q.Length(g.running)
			longest = max(longest, n)
		}
		if err != nil && g.running.Err() == nil && !storage.NotFound(err) {
			g.fail(fmt.Errorf("length of queue %s: %w", name, err))
		}
	}
	return longest
}

// sample notes how the run goes, at least so often. When there are many notes, every second
// is dropped, and the next come half as often.
func (w *world) sample() {
	every := time.Second
	for w.note(); task.Sleep(w.running, every); w.note() {
		if len(w.samples) == maxSamples {
			for i := range maxSamples / 2 {
				w.samples[i] = w.samples[2*i]
			}
			w.samples = w.samples[:maxSamples/2]
			every *= 2
		}
	}
}

const maxSamples = 1000

func (w *world) note() {
	s := Sample{Seconds: time.Since(w.start).Seconds(), Instances: w.instances(), Rows: w.sink.written()}
	for i, a := range []*account{w.own, w.source, w.destination} {
		requests, refused, found := a.totals()
		s.Requests[i], s.Refused[i] = requests, refused
		if a == w.source && !w.options.copies() {
			s.Rows = found
		}
	}
	w.samples = append(w.samples, s)
	if w.options.Progress != nil && len(w.samples)%10 == 0 {
		w.options.Progress(s)
	}
}
