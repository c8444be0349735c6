package split

import (
	"fmt"
	"math"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/keysets"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// recorded is a step of a recorded scan.
type recorded struct {
	children []*recorded
	// next is the child with which the published scan's invocation continues along its level.
	next  *recorded
	rows  int
	ahead scan.Outlook // the work that the scan expected of the step
}

// record scans the whole table and returns its first step and the ends of
// its pages. A strategy's decisions do not depend on when its steps run,
// so one record serves for any number of workers.
func record(t keysets.Table, s scan.Strategy) (*recorded, []scan.PageEnd, error) {
	type job struct {
		step     scan.Step
		recorded *recorded
	}
	root := &recorded{}
	var ends []scan.PageEnd
	yielded := 0
	for jobs := []job{{s.Start(key.Bounds{}), root}}; len(jobs) > 0; {
		j := jobs[len(jobs)-1]
		jobs = jobs[:len(jobs)-1]
		p := t.Query(j.step)
		o, err := s.Advance(j.step, p)
		if err != nil {
			return nil, nil, err
		}
		if o.Yield > 0 {
			ends = append(ends, scan.PageEnd{Last: p.Keys[o.Yield-1], Rows: o.Yield})
		}
		yielded += o.Yield
		j.recorded.rows = o.Yield
		j.recorded.ahead = adaptive.Ahead(j.step)
		for _, step := range o.Children {
			child := &recorded{}
			j.recorded.children = append(j.recorded.children, child)
			jobs = append(jobs, job{step, child})
		}
		j.recorded.next = successor(s, j.step, j.recorded.children)
	}
	if yielded != len(t.Keys) && !stepsOver(s) {
		return nil, nil, fmt.Errorf("%T yields %d of %d rows", s, yielded, len(t.Keys))
	}
	return root, ends, nil
}

// stepsOver reports whether the strategy only has to find partitions, and so may skip rows.
func stepsOver(s scan.Strategy) bool {
	prefix, _ := s.(scan.Prefix)
	split, _ := s.(adaptive.Strategy)
	return prefix.KeepPartitions || split.Partitions
}

// successor returns the child with which the published scan's invocation continues. It returns nil for other strategies.
func successor(s scan.Strategy, step scan.Step, children []*recorded) *recorded {
	_, prefix := s.(scan.Prefix)
	if !prefix || len(children) == 0 || len(children) > 1 && step.Range.Partition != nil {
		return nil
	}
	// The last child of a prefix step is the rest of its level, except at the
	// level's end. That exception only favours the published scan.
	return children[len(children)-1]
}

// count returns the number of queries, and the number of those that returned no rows.
func (n *recorded) count() (queries, empty int) {
	queries = 1
	if n.rows == 0 {
		empty = 1
	}
	for _, c := range n.children {
		q, e := c.count()
		queries, empty = queries+q, empty+e
	}
	return queries, empty
}

// moment is the expected and the true state of a scan at one time.
type moment struct {
	read  float64 // in full pages
	ahead scan.Outlook
	done  float64 // the share of the rows
}

// moments replays the scan with 64 workers, hop 3 and one query an invocation. It returns the moment at the end of each unit of time except the last.
func moments(root *recorded, t keysets.Table) []moment {
	var moments []moment
	now, done := moment{ahead: root.ahead}, 0
	x := schedule{workers: 64, segments: 1, hop: 3}
	x.each = func(begun []*recorded) {
		for _, q := range begun {
			done += q.rows
			now.ahead = now.ahead.Minus(q.ahead)
			for _, c := range q.children {
				now.ahead = now.ahead.Plus(c.ahead)
			}
		}
		now.read, now.done = float64(done)/float64(t.Page), float64(done)/float64(len(t.Keys))
		moments = append(moments, now)
	}
	x.play(root)
	return moments[:len(moments)-1]
}

// progressOf returns the accuracy of the progress in the second half of a scan's moments.
func progressOf(all []moment) *Progress {
	half, count := all[len(all)/2:], 0
	var p Progress
	for _, m := range half {
		if shown, ok := m.ahead.Progress(m.read); ok {
			count++
			off := math.Abs(shown - m.done)
			p.Mean += off
			p.Worst = max(p.Worst, off)
		}
	}
	p.Shown = float64(count) / float64(max(1, len(half)))
	p.Mean /= float64(max(1, count))
	return &p
}

// clairvoyant returns the first step of a scan that knows in advance where all rows are. Each of its queries reads a full page and has the given number of
// children.
func clairvoyant(queries, children int) *recorded {
	steps := make([]recorded, max(1, queries))
	for i := range steps {
		steps[i].rows = 1 // no query is empty
		for c := children*i + 1; c <= children*(i+1) && c < len(steps); c++ {
			steps[i].children = append(steps[i].children, &steps[c])
		}
	}
	return &steps[0]
}

// schedule determines how a recorded scan is carried out.
type schedule struct {
	workers  int
	segments int // the greatest number of queries of one invocation
	hop      int // the time between sending and receiving a message; a query takes 1
	// If wide is true, an invocation makes all queries that it finds concurrently, up to its limit. Otherwise it makes one query after the other along a
	// level.
	wide bool
	// If each is not nil, it is called once a unit of time, with the steps of the invocations that begin then.
	each func(begun []*recorded)
}

// unlimited is a number of workers or segments that no scan needs.
const unlimited = 1 << 40

// play returns the time from the start of the first query to the end of the last one, and the number of invocations. Messages are received in the order of
// their arrival.
func (x schedule) play(root *recorded) (time, invocations int) {
	arriving := map[int][]*recorded{0: {root}}
	freed := map[int]int{}
	var queue []*recorded
	free := x.workers
	for now := 0; len(arriving) > 0 || len(queue) > 0; now++ {
		free += freed[now]
		delete(freed, now)
		queue = append(queue, arriving[now]...)
		delete(arriving, now)
		begun := queue[:min(free, len(queue))]
		queue = queue[len(begun):]
		for _, n := range begun {
			end := x.invoke(n, now, arriving)
			freed[end]++
			time = max(time, end)
		}
		free -= len(begun)
		invocations += len(begun)
		if x.each != nil {
			x.each(begun)
		}
	}
	return time, invocations
}

// invoke runs an invocation that begins at the time now with the step's query and continues along the level. It adds the invocation's messages to arriving,
// and returns the time at which the invocation ends.
func (x schedule) invoke(n *recorded, now int, arriving map[int][]*recorded) int {
	if x.wide {
		return x.invokeWide(n, now, arriving)
	}
	for used := 1; ; used++ {
		now++
		next := n.next
		if used >= x.segments {
			next = nil
		}
		for _, c := range n.children {
			if c != next {
				arriving[now+x.hop] = append(arriving[now+x.hop], c)
			}
		}
		if next == nil {
			return now
		}
		n = next
	}
}

// invokeWide is like invoke, for an invocation that makes several queries concurrently. The messages are sent at the invocation's end, like those of a step
// that commits its work.
func (x schedule) invokeWide(n *recorded, now int, arriving map[int][]*recorded) int {
	pending := []*recorded{n}
	for used := 0; used < x.segments && len(pending) > 0; now++ {
		round := min(len(pending), x.segments-used)
		used += round
		var next []*recorded
		for _, p := range pending[:round] {
			next = append(next, p.children...)
		}
		pending = append(next, pending[round:]...)
	}
	arriving[now+x.hop] = append(arriving[now+x.hop], pending...)
	return now
}
