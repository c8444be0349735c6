package sweep

import (
	"time"

	"tablesweep/internal/pace"
)

// throttle is an answer that asks for less load.
type throttle struct {
	unit      bool // it answered a unit, on the partition
	partition string
	confined  bool // it answered a query of one partition
}

// side is one end of the sweep: where rows come from, or where the action leads.
type side struct {
	pace      *pace.Pace
	done      int           // requests that ended since the last tick
	saturated bool          // as many as allowed were under way since then
	throttled bool          // since then
	took      time.Duration // by a request, on average over the last ones
}

// ended counts a request.
func (s *side) ended(took time.Duration) {
	s.done++
	if s.took == 0 {
		s.took = took
	}
	s.took += (took - s.took) / 8
}

// free reports whether one more request may be started.
func (s *side) free(underway int) bool {
	if underway < s.pace.Limit() {
		return true
	}
	s.saturated = true
	return false
}

// tick adjusts the pace to what happened since the last tick.
func (s *side) tick(elapsed time.Duration) {
	s.pace.Observe(elapsed, s.done, s.saturated, s.throttled)
	s.done, s.saturated, s.throttled = 0, false, false
}

// throttled handles a throttled request. One of a unit tells that the partition is busy; if
// several partitions are, the account is.
func (r *run) throttled(t throttle) {
	r.count(Totals{Throttles: 1})
	if !t.unit {
		r.source.throttled = r.source.throttled || !t.confined
		return
	}
	r.hot[t.partition] = true
	r.target.throttled = len(r.hot) > 1
}

// adjust sets the pace of both sides.
func (r *run) adjust(elapsed time.Duration) {
	r.source.tick(elapsed)
	r.target.tick(elapsed)
	clear(r.hot)
}

func (r *run) progress() Progress {
	p := Progress{
		Totals: r.totals, Run: r.ours, Elapsed: time.Since(r.began), Ranges: r.frontier.steps.Len(),
		Buffered: r.frontier.buffered, Reading: r.frontier.reads, Working: r.frontier.works,
		Limit: r.source.pace.Limit(), Bytes: r.bytes, Stopping: r.interrupted,
	}
	if r.target.took > 0 {
		p.Limit += r.target.pace.Limit()
	}
	return p
}
