package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/proof"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

func TestLost(t *testing.T) {
	const step, process = "s", "p"
	early, late := time.Unix(100, 0), time.Unix(105, 0)
	written := time.Unix(50, 0)
	at := func(age time.Duration, sends int, waits bool, beats ...ledger.Beat) look {
		p := ledger.Pending{ID: step, At: written, Age: age, Sends: sends}
		return newLook(map[string]ledger.Pending{step: p}, beats, map[string]front{ScanPrefix: {all: !waits}})
	}
	rewritten := func(l look) look {
		p := l.steps[step]
		p.At = p.At.Add(time.Second)
		l.steps[step] = p
		return l
	}
	holds := func(when time.Time) ledger.Beat {
		return ledger.Beat{Process: process, Steps: []ledger.Held{{Step: step}}, At: when}
	}
	idle := func(when time.Time) ledger.Beat { return ledger.Beat{Process: process, At: when} }
	const old = 10 * time.Minute
	for _, tt := range []struct {
		name          string
		before, after look
		want          bool
	}{
		{"no message and nobody has it", at(old, 0, false), at(old+lookTime, 0, false), true},
		{"a message waits, at first", at(old, 0, true), at(old+lookTime, 0, false), false},
		{"a message waits, at last", at(old, 0, false), at(old+lookTime, 0, true), false},
		{"messages wait for long", at(13*time.Minute, 0, true), at(13*time.Minute+lookTime, 0, true), true},
		{"messages wait for long, and someone has it", at(13*time.Minute, 0, true, holds(early)), at(13*time.Minute+lookTime, 0, true, holds(late)), false},
		{"messages wait for long after a second message", at(13*time.Minute, 1, true), at(13*time.Minute+lookTime, 1, true), false},
		{"a living process has it", at(old, 0, false, holds(early)), at(old+lookTime, 0, false, holds(late)), false},
		{"begun since the first look", at(old, 0, false, idle(early)), at(old+lookTime, 0, false, holds(late)), false},
		{"a new process has it", at(old, 0, false), at(old+lookTime, 0, false, holds(late)), false},
		{"the process that had it is dead", at(old, 0, false, holds(early)), at(old+lookTime, 0, false, holds(early)), true},
		{"the process that had it lives on without it", at(old, 0, false, holds(early)), at(old+lookTime, 0, false, idle(late)), true},
		{"its message is being sent", at(time.Second, 0, false), at(time.Second+lookTime, 0, false), false},
		{"sent again or begun in between", at(old, 0, false), rewritten(at(time.Second, 1, false)), false},
		{"begun in between, long ago", at(old, 0, false), rewritten(at(old, 0, false)), false},
		{"just sent again", at(15*time.Second, 1, false), at(25*time.Second, 1, false), false},
		{"sent again half a minute ago", at(25*time.Second, 1, false), at(35*time.Second, 1, false), true},
		{"sent again for the third time", at(time.Minute, 3, false), at(time.Minute+lookTime, 3, false), false},
		{"sent again many times", at(15*time.Minute, 40, false), at(16*time.Minute, 40, false), true},
		{"committed in between", at(old, 0, false), newLook(nil, nil, nil), false},
	} {
		if got := lost(tt.before, tt.after, step, ScanPrefix); got != tt.want {
			t.Errorf("%s: lost is %v", tt.name, got)
		}
		if !tt.before.missing(step, ScanPrefix) {
			continue
		}
		again := suspect{seen: tt.after.steps[step]} // the first look is another Maintain's
		k := tt.before.kept([]suspect{{seen: tt.before.steps[step]}})
		for gap, counts := range map[time.Duration]bool{lookTime - 1: false, lookTime: true, lookKept: again.seen.Age >= old, lookKept + 1: false} {
			k.At = again.seen.At.Add(again.seen.Age - gap)
			if got := lost(lookOf(k, []suspect{again}), tt.after, step, ScanPrefix); got != (tt.want && counts) {
				t.Errorf("%s, and the first look was kept for %v: lost is %v", tt.name, gap, got)
			}
		}
	}
}

// TestFront: whether a step's message may be among those that wait in its queue.
func TestFront(t *testing.T) {
	now := time.Unix(100_000, 0)
	ours := message{Version: messageVersion, Scan: "ours"}
	proof.Must(t, ours.seal())
	// others returns messages put into the queue after ours, one a second, the last one so late.
	others := func(n int, last time.Duration) []storage.Message {
		var messages []storage.Message
		for i := range n {
			body := fmt.Appendf(nil, "other %d", i)
			messages = append(messages, storage.Message{Text: encode(body), Inserted: now.Add(last - time.Duration(n-1-i)*time.Second)})
		}
		return messages
	}
	withOurs := func(messages []storage.Message) []storage.Message {
		messages[len(messages)/2].Text = encode(ours.body)
		return messages
	}
	const full = storage.MaxGetMessages
	for _, tt := range []struct {
		name     string
		messages []storage.Message
		failed   bool
		want     bool
	}{
		{"an empty queue", nil, false, false},
		{"a few others", others(full-1, 0), false, false},
		{"a few, and ours among them", withOurs(others(full-1, 0)), false, true},
		{"many, older ones first", others(full, 0), false, true},
		{"many, about as old as ours", others(full, lookTime), false, true},
		{"many, some of them younger", others(full, lookTime+time.Second), false, false},
		{"many younger, ours among them", withOurs(others(full, time.Hour)), false, true},
		{"it failed, and waits to be delivered again", others(full, redelivery), true, true},
		{"it failed, and younger ones than the next delivery wait", others(full, redelivery+time.Second), true, false},
		{"messages that nobody can read", []storage.Message{{Text: "?", Inserted: now}}, false, false},
	} {
		if got := newFront(tt.messages).mayHave(ledger.Pending{ID: ours.id, At: now, FirstEnded: tt.failed}); got != tt.want {
			t.Errorf("%s: it may have it: %v", tt.name, got)
		}
	}
}

// TestHeart: a process names its steps in hand within half of lookTime, in spite of
// failed writes. It names a failed step a while longer. With nothing in hand it writes nothing.
func TestHeart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards said and fail
		var said [][]string
		fail := 0
		h := newHeart(func(*ledger.Beat) {}, func(_ context.Context, b ledger.Beat) error {
			mu.Lock()
			defer mu.Unlock()
			if fail > 0 {
				if fail--; fail == 1 {
					panic("lost") // no end of the process
				}
				return errors.New("busy")
			}
			var names []string
			for _, s := range b.Steps {
				names = append(names, s.Step)
			}
			said = append(said, names)
			return nil
		})
		log := zerolog.Nop()
		expect := func(what string, after time.Duration, want ...[]string) {
			t.Helper()
			time.Sleep(after)
			mu.Lock()
			defer mu.Unlock()
			if !slices.EqualFunc(said, want, slices.Equal[[]string]) {
				t.Errorf("%s: it said %v, want %v", what, said, want)
			}
			said = nil
		}
		h.take(&log, "scan", "a", new(storage.Counter))
		h.release("a", false)
		expect("a short step", time.Minute)
		for range 20 { // steps that overlap, so that there is always one in hand
			h.take(&log, "scan", "a", new(storage.Counter))
			time.Sleep(ledger.BeatTime / 2)
			h.take(&log, "scan", "b", new(storage.Counter))
			h.release("a", false)
			time.Sleep(ledger.BeatTime / 2)
			h.release("b", false)
		}
		expect("short steps all the time", 0)
		time.Sleep(time.Minute)
		h.take(&log, "scan", "a", new(storage.Counter))
		time.Sleep(ledger.BeatTime - time.Millisecond)
		h.take(&log, "scan", "b", new(storage.Counter))
		h.release("a", false)
		expect("a step taken before the first one's beat was due", ledger.BeatTime+time.Millisecond, []string{"b"})
		h.release("b", false)
		time.Sleep(time.Minute)
		h.take(&log, "scan", "a", new(storage.Counter))
		h.take(&log, "scan", "b", new(storage.Counter))
		h.take(&log, "scan", "b", new(storage.Counter)) // twice, by two deliveries
		h.release("b", false)
		expect("two steps", ledger.BeatTime+time.Second, []string{"a", "b"})
		mu.Lock()
		fail = 3
		mu.Unlock()
		expect("failures", lookTime-time.Second, []string{"a", "b"})
		h.release("b", false)
		h.release("a", true)
		expect("a failed step", 12*time.Second, []string{"a"}, []string{"a"})
		time.Sleep(time.Minute)
		mu.Lock()
		said = nil
		mu.Unlock()
		expect("nothing", time.Hour)
	})
}

// TestLastStepEndsTheScan: when the last step of a scan is released that a process is working on, it says that
// the scan may have ended, if one of them had no children. A step that waits to be delivered again does not count.
func TestLastStepEndsTheScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := zerolog.Nop()
		h := newHeart(nil, func(context.Context, ledger.Beat) error { return nil })
		release := func(step string, again, want bool) {
			t.Helper()
			if got := h.release(step, again); got != want {
				t.Errorf("release of %s: the scan may have ended: %v, want %v", step, got, want)
			}
		}
		for _, step := range []string{"a", "b", "b", "c", "d"} { // b is delivered twice
			h.take(&log, "scan", step, new(storage.Counter))
		}
		h.take(&log, "other", "x", new(storage.Counter))
		release("d", true, false)
		h.childless("a")
		release("a", false, false)
		release("b", false, false)
		release("c", false, false)
		release("b", false, true)
		release("x", false, false)
		h.take(&log, "scan", "d", new(storage.Counter))
		release("d", false, false) // d had children
		h.take(&log, "scan", "e", new(storage.Counter))
		h.childless("e")
		release("e", false, true)
		time.Sleep(time.Minute)
		if len(h.hands) > 0 {
			t.Errorf("in hand are %v", h.hands)
		}
	})
}
