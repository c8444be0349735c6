package step

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/life"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

const (
	// beatPause is the pause after a failed heartbeat, beatTry the time for one try. Several fit into lookTime.
	beatPause = time.Second
	beatTry   = 3 * time.Second
)

// heartbeats knows which steps a process has in hand, and publishes them. A heartbeat names each step within ledger.HeartbeatTime of its
// beginning, unless it has ended by then: short steps cost nothing. It is safe for concurrent use.
//
// A scan may end with any step that has no children, but not while another step is pending. So only the last step that a
// process releases checks whether it has ended.
type heartbeats struct {
	process string                  // the process's name, random
	waits   func(*ledger.Heartbeat) // adds to a heartbeat what the process waits for
	write   func(context.Context, ledger.Heartbeat) error

	mu      sync.Mutex                  // guards the fields below
	hands   map[ledger.StepID]*heldStep // by step
	beating bool
}

// heldStep is a step in hand.
type heldStep struct {
	scan       ledger.ScanID
	since      time.Time          // its beginning
	deliveries int                // under way
	until      time.Time          // if it failed: the host delivers it again before this time
	waits      time.Time          // since when it waits for memory; zero if it does not
	mayEnd     bool               // this step, or one that was released before it, has ended without children
	counters   []*storage.Counter // of the deliveries
}

// newHeartbeats returns what sends its heartbeats by write, which must try once: the storage's growing
// pauses would delay the next heartbeat, and after an outage, others must hear of this process soon.
func newHeartbeats(waits func(*ledger.Heartbeat), write func(context.Context, ledger.Heartbeat) error) *heartbeats {
	return &heartbeats{process: strings.ToLower(rand.Text()), waits: waits, write: write, hands: map[ledger.StepID]*heldStep{}}
}

// take records that a delivery of a step has begun, whose requests the counter counts.
func (h *heartbeats) take(log *zerolog.Logger, scan ledger.ScanID, step ledger.StepID, counter *storage.Counter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hands[step] == nil {
		h.hands[step] = &heldStep{scan: scan, since: time.Now()}
	}
	h.hands[step].deliveries++
	h.hands[step].counters = append(h.hands[step].counters, counter)
	if !h.beating {
		h.beating = true
		h.sendAfter(log, ledger.HeartbeatTime)
	}
}

// waitsSince records that a step in hand has waited for memory since a time; the zero time, that it waits no more.
func (h *heartbeats) waitsSince(step ledger.StepID, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hands[step].waits = at
}

// withoutMemory returns the scans whose steps under way here all wait for memory.
func (h *heartbeats) withoutMemory() (waits []ledger.Wait) {
	h.mu.Lock()
	defer h.mu.Unlock()
	since := map[ledger.ScanID]time.Time{} // by scan; zero if a step of it does not wait
	for _, held := range h.hands {
		at, met := since[held.scan]
		switch {
		case held.deliveries == 0:
		case !met || held.waits.Before(at):
			since[held.scan] = held.waits
		}
	}
	for _, scan := range slices.Sorted(maps.Keys(since)) {
		if at := since[scan]; !at.IsZero() {
			waits = append(waits, ledger.Wait{Connection: forMemory, Scan: scan, Cause: memoryTaken, Since: at.UTC()})
		}
	}
	return waits
}

// childless records that a step in hand was committed without children.
func (h *heartbeats) childless(step ledger.StepID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hands[step].mayEnd = true
}

// release records that a delivery of a step has ended. If the host will deliver it again, the
// step stays in hand until then: its message is hidden, but not lost. release reports whether the
// scan may have ended: one of its steps had no children, and none is active here any more.
func (h *heartbeats) release(step ledger.StepID, again bool) (mayHaveEnded bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.hands[step]
	held.deliveries--
	held.until = time.Time{}
	if again {
		held.until = time.Now().Add(life.Redelivery)
	}
	if held.ended() {
		delete(h.hands, step)
	}
	if !held.mayEnd {
		return false
	}
	held.mayEnd = false
	for _, other := range h.hands {
		if other.scan == held.scan && other.deliveries > 0 {
			other.mayEnd = true // it is left to that step's release
			return false
		}
	}
	return true
}

func (h *heldStep) ended() bool { return h.deliveries == 0 && !time.Now().Before(h.until) }

// held returns the steps in hand, and the age of the oldest. If there are none, the heartbeats stop.
func (h *heartbeats) held() (steps []ledger.Held, longest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.hands, func(_ ledger.StepID, held *heldStep) bool { return held.ended() })
	for _, held := range h.hands {
		longest = max(longest, time.Since(held.since))
	}
	h.beating = len(h.hands) > 0
	for _, step := range slices.Sorted(maps.Keys(h.hands)) {
		s := ledger.Held{Scan: h.hands[step].scan, Step: step}
		for _, c := range h.hands[step].counters {
			s.Requests, s.Throttled = s.Requests+c.Requests(), s.Throttled+c.Throttled()
		}
		steps = append(steps, s)
	}
	return steps, longest
}

// sendAfter sends a heartbeat after the time d, and then on until nothing is in hand.
func (h *heartbeats) sendAfter(log *zerolog.Logger, d time.Duration) {
	time.AfterFunc(d, func() {
		var next time.Duration
		err := task.Do(func() (err error) { next, err = h.send(); return err })
		if err != nil {
			next = beatPause
			log.Debug().Err(err).Msg("beat not written")
		}
		if next > 0 {
			h.sendAfter(log, next)
		}
	})
}

// heartbeat writes a heartbeat if the oldest step in hand is old enough, and returns the time until the next; 0 ends them.
func (h *heartbeats) send() (next time.Duration, err error) {
	steps, longest := h.held()
	switch {
	case len(steps) == 0:
		return 0, nil
	case longest < ledger.HeartbeatTime:
		return ledger.HeartbeatTime - longest, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), beatTry)
	defer cancel()
	b := ledger.Heartbeat{Process: h.process, Steps: steps, Waiting: h.withoutMemory()}
	h.waits(&b)
	return ledger.HeartbeatTime, h.write(ctx, b)
}
