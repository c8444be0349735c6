package step

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/life"
	"tablesweep/internal/storage"
)

// TestHeartbeats: a process names the steps that it holds within half of ObservationPause, even if writes fail. It
// names a failed step for some time longer. If it holds no step, it writes nothing.
func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards written and fail
		var written [][]string
		fail := 0
		h := newHeartbeats(func(*ledger.Heartbeat) {}, func(_ context.Context, b ledger.Heartbeat) error {
			mu.Lock()
			defer mu.Unlock()
			if fail > 0 {
				if fail--; fail == 1 {
					panic("lost") // the panic must not end the process
				}
				return errors.New("busy")
			}
			var names []string
			for _, s := range b.Steps {
				names = append(names, string(s.Step))
			}
			written = append(written, names)
			return nil
		})
		log := zerolog.Nop()
		expect := func(what string, after time.Duration, want ...[]string) {
			t.Helper()
			time.Sleep(after)
			mu.Lock()
			defer mu.Unlock()
			if !slices.EqualFunc(written, want, slices.Equal[[]string]) {
				t.Errorf("%s: the heartbeats name %v, want %v", what, written, want)
			}
			written = nil
		}
		h.begin(&log, "scan", "a", new(storage.Counter))
		h.release("a", false)
		expect("a short step", time.Minute)
		for range 20 { // steps that overlap, so that one is always held
			h.begin(&log, "scan", "a", new(storage.Counter))
			time.Sleep(ledger.HeartbeatTime / 2)
			h.begin(&log, "scan", "b", new(storage.Counter))
			h.release("a", false)
			time.Sleep(ledger.HeartbeatTime / 2)
			h.release("b", false)
		}
		expect("many short steps", 0)
		time.Sleep(time.Minute)
		h.begin(&log, "scan", "a", new(storage.Counter))
		time.Sleep(ledger.HeartbeatTime - time.Millisecond)
		h.begin(&log, "scan", "b", new(storage.Counter))
		h.release("a", false)
		expect("a step begun before the first step's heartbeat was due", ledger.HeartbeatTime+time.Millisecond, []string{"b"})
		h.release("b", false)
		time.Sleep(time.Minute)
		h.begin(&log, "scan", "a", new(storage.Counter))
		h.begin(&log, "scan", "b", new(storage.Counter))
		h.begin(&log, "scan", "b", new(storage.Counter)) // a second delivery of the same step
		h.release("b", false)
		expect("two steps", ledger.HeartbeatTime+time.Second, []string{"a", "b"})
		mu.Lock()
		fail = 3
		mu.Unlock()
		expect("failures", life.ObservationPause-time.Second, []string{"a", "b"})
		h.release("b", false)
		h.release("a", true)
		expect("a failed step", 12*time.Second, []string{"a"}, []string{"a"})
		time.Sleep(time.Minute)
		mu.Lock()
		written = nil
		mu.Unlock()
		expect("nothing", time.Hour)
	})
}

// TestLastStepEndsTheScan: when a process releases the last running step of a scan, release reports that the scan may
// have ended, if one of the scan's steps had no children. A step that waits for its next delivery does not count as
// running.
func TestLastStepEndsTheScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := zerolog.Nop()
		h := newHeartbeats(nil, func(context.Context, ledger.Heartbeat) error { return nil })
		release := func(step ledger.StepID, again, want bool) {
			t.Helper()
			if got := h.release(step, again); got != want {
				t.Errorf("release of %s: the scan may have ended: %v, want %v", step, got, want)
			}
		}
		for _, step := range []ledger.StepID{"a", "b", "b", "c", "d"} { // b is delivered twice
			h.begin(&log, "scan", step, new(storage.Counter))
		}
		h.begin(&log, "other", "x", new(storage.Counter))
		release("d", true, false)
		h.childless("a")
		release("a", false, false)
		release("b", false, false)
		release("c", false, false)
		release("b", false, true)
		release("x", false, false)
		h.begin(&log, "scan", "d", new(storage.Counter))
		release("d", false, false) // d had children
		h.begin(&log, "scan", "e", new(storage.Counter))
		h.childless("e")
		release("e", false, true)
		time.Sleep(time.Minute)
		if len(h.steps) > 0 {
			t.Errorf("steps are still held: %v", h.steps)
		}
	})
}
