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
	// heartbeatPause is the pause after a failed heartbeat. heartbeatTry is the time limit of one try. Several tries
	// fit into [life.ObservationPause].
	heartbeatPause = time.Second
	heartbeatTry   = 3 * time.Second
)

// heartbeats records the steps that a process holds, and writes the process's heartbeats. Once a step has run for
// ledger.HeartbeatTime, a heartbeat names the step. Steps that end earlier cause no heartbeats. The type is safe for
// concurrent use.
//
// A step without children may be the last step of its scan. So after a step without children, the process checks
// whether the scan has ended. If the process still runs other steps of the scan, it checks only when these steps have
// ended.
type heartbeats struct {
	process string                  // random
	waits   func(*ledger.Heartbeat) // adds to a heartbeat what the process waits for
	write   func(context.Context, ledger.Heartbeat) error

	mu      sync.Mutex // guards the fields below
	steps   map[ledger.StepID]*heldStep
	sending bool
}

type heldStep struct {
	scan       ledger.ScanID
	since      time.Time          // when the step began
	deliveries int                // the running ones
	until      time.Time          // by this time, the host has delivered the failed step again
	waits      time.Time          // when a wait for memory began; zero without a wait
	mayEnd     bool               // a step was committed without children, so the scan may have ended; this is not checked yet
	counters   []*storage.Counter // of the running deliveries
}

// newHeartbeats returns heartbeats that are written by the function `write`. This function must make only one try.
// After an outage, growing pauses between tries would delay the heartbeat, so other processes could count this
// process as dead.
func newHeartbeats(waits func(*ledger.Heartbeat), write func(context.Context, ledger.Heartbeat) error) *heartbeats {
	return &heartbeats{process: strings.ToLower(rand.Text()), waits: waits, write: write, steps: map[ledger.StepID]*heldStep{}}
}

// begin records that a delivery of a step has begun. The argument `counter` counts the step's requests.
func (h *heartbeats) begin(log *zerolog.Logger, scan ledger.ScanID, step ledger.StepID, counter *storage.Counter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.steps[step] == nil {
		h.steps[step] = &heldStep{scan: scan, since: time.Now()}
	}
	h.steps[step].deliveries++
	h.steps[step].counters = append(h.steps[step].counters, counter)
	if !h.sending {
		h.sending = true
		h.sendAfter(log, ledger.HeartbeatTime)
	}
}

// waitsSince records the time at which a held step began to wait for memory. The zero time means that the step does not
// wait.
func (h *heartbeats) waitsSince(step ledger.StepID, start time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps[step].waits = start
}

// withoutMemory returns the scans that wait for memory. A scan waits if all its running steps in this process wait.
func (h *heartbeats) withoutMemory() (waits []ledger.Wait) {
	h.mu.Lock()
	defer h.mu.Unlock()
	since := map[ledger.ScanID]time.Time{} // when each scan began to wait; the zero time if at least one of its steps does not wait
	for _, held := range h.steps {
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

// childless stores the fact that a held step was committed without children.
func (h *heartbeats) childless(step ledger.StepID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps[step].mayEnd = true
}

// release records that a delivery of a step has ended, and reports whether the scan may have ended. If the argument
// `again` is true, the host will deliver the step again. Until the next delivery, the process holds the step, because the
// step's message is hidden but not lost.
func (h *heartbeats) release(step ledger.StepID, again bool) (mayHaveEnded bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.steps[step]
	held.deliveries--
	held.until = time.Time{}
	if again {
		held.until = time.Now().Add(life.Redelivery)
	}
	if held.ended() {
		delete(h.steps, step)
	}
	if !held.mayEnd {
		return false
	}
	held.mayEnd = false
	for _, other := range h.steps {
		if other.scan == held.scan && other.deliveries > 0 {
			other.mayEnd = true // the scan is checked when that step is released
			return false
		}
	}
	return true
}

func (h *heldStep) ended() bool { return h.deliveries == 0 && !time.Now().Before(h.until) }

// heldSteps returns the held steps and the age of the oldest one. If no step is held, it also sets
// h.sending to false, so that begin starts the heartbeats again for the next step.
func (h *heartbeats) heldSteps() (steps []ledger.Held, longest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.steps, func(_ ledger.StepID, held *heldStep) bool { return held.ended() })
	for _, held := range h.steps {
		longest = max(longest, time.Since(held.since))
	}
	h.sending = len(h.steps) > 0
	for _, step := range slices.Sorted(maps.Keys(h.steps)) {
		s := ledger.Held{Scan: h.steps[step].scan, Step: step}
		for _, c := range h.steps[step].counters {
			s.Requests, s.Throttled = s.Requests+c.Requests(), s.Throttled+c.Throttled()
		}
		steps = append(steps, s)
	}
	return steps, longest
}

// sendAfter sends a heartbeat after d, and then more until no step is held.
func (h *heartbeats) sendAfter(log *zerolog.Logger, d time.Duration) {
	time.AfterFunc(d, func() {
		var next time.Duration
		err := task.Do(func() (err error) { next, err = h.send(); return err })
		if err != nil {
			next = heartbeatPause
			log.Debug().Err(err).Msg("the heartbeat was not written")
		}
		if next > 0 {
			h.sendAfter(log, next)
		}
	})
}

// send writes a heartbeat if the oldest held step is old enough. It returns the time until the next heartbeat, or 0 if
// no step is held.
func (h *heartbeats) send() (next time.Duration, err error) {
	steps, longest := h.heldSteps()
	switch {
	case len(steps) == 0:
		return 0, nil
	case longest < ledger.HeartbeatTime:
		return ledger.HeartbeatTime - longest, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), heartbeatTry)
	defer cancel()
	b := ledger.Heartbeat{Process: h.process, Steps: steps, Waiting: h.withoutMemory()}
	h.waits(&b)
	return ledger.HeartbeatTime, h.write(ctx, b)
}
