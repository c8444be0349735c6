package life

import (
	"fmt"
	"testing"
	"time"

	"tablesweep/internal/proof"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

func TestLostSteps(t *testing.T) {
	const step, process = "s", "p"
	early, late := time.Unix(100, 0), time.Unix(105, 0)
	written := time.Unix(50, 0)
	at := func(age time.Duration, sends int, waits bool, heartbeats ...ledger.Heartbeat) observation {
		p := ledger.Pending{ID: step, At: written, Age: age, Sends: sends}
		return newObservation(map[ledger.StepID]ledger.Pending{step: p}, heartbeats, map[string]front{scans.ScanPrefix: {all: !waits}})
	}
	rewritten := func(l observation) observation {
		p := l.steps[step]
		p.At = p.At.Add(time.Second)
		l.steps[step] = p
		return l
	}
	holds := func(when time.Time) ledger.Heartbeat {
		return ledger.Heartbeat{Process: process, Steps: []ledger.Held{{Step: step}}, At: when}
	}
	idle := func(when time.Time) ledger.Heartbeat { return ledger.Heartbeat{Process: process, At: when} }
	const old = 10 * time.Minute
	for _, tt := range []struct {
		name          string
		before, after observation
		want          bool
	}{
		{"no message, and no process holds the step", at(old, 0, false), at(old+ObservationPause, 0, false), true},
		{"a message waits at the first observation", at(old, 0, true), at(old+ObservationPause, 0, false), false},
		{"a message waits at the second observation", at(old, 0, false), at(old+ObservationPause, 0, true), false},
		{"messages wait for long", at(13*time.Minute, 0, true), at(13*time.Minute+ObservationPause, 0, true), true},
		{"messages wait for long, and a process holds the step", at(13*time.Minute, 0, true, holds(early)), at(13*time.Minute+ObservationPause, 0, true, holds(late)), false},
		{"messages wait for long after a second message", at(13*time.Minute, 1, true), at(13*time.Minute+ObservationPause, 1, true), false},
		{"a living process holds the step", at(old, 0, false, holds(early)), at(old+ObservationPause, 0, false, holds(late)), false},
		{"begun since the first observation", at(old, 0, false, idle(early)), at(old+ObservationPause, 0, false, holds(late)), false},
		{"a new process holds the step", at(old, 0, false), at(old+ObservationPause, 0, false, holds(late)), false},
		{"the process that held the step is dead", at(old, 0, false, holds(early)), at(old+ObservationPause, 0, false, holds(early)), true},
		{"the process that held the step lives without it", at(old, 0, false, holds(early)), at(old+ObservationPause, 0, false, idle(late)), true},
		{"the message is being sent", at(time.Second, 0, false), at(time.Second+ObservationPause, 0, false), false},
		{"sent again or begun in between", at(old, 0, false), rewritten(at(time.Second, 1, false)), false},
		{"begun in between, long ago", at(old, 0, false), rewritten(at(old, 0, false)), false},
		{"just sent again", at(15*time.Second, 1, false), at(25*time.Second, 1, false), false},
		{"sent again half a minute ago", at(25*time.Second, 1, false), at(35*time.Second, 1, false), true},
		{"sent again for the third time", at(time.Minute, 3, false), at(time.Minute+ObservationPause, 3, false), false},
		{"sent again many times", at(15*time.Minute, 40, false), at(16*time.Minute, 40, false), true},
		{"committed in between", at(old, 0, false), newObservation(nil, nil, nil), false},
	} {
		if got := lost(tt.before, tt.after, step, scans.ScanPrefix); got != tt.want {
			t.Errorf("%s: lost is %v, want %v", tt.name, got, tt.want)
		}
		if !tt.before.missing(step, scans.ScanPrefix) {
			continue
		}
		again := suspect{seen: tt.after.steps[step]} // the first observation is by another Maintain
		k := tt.before.toStore([]suspect{{seen: tt.before.steps[step]}})
		for gap, counts := range map[time.Duration]bool{ObservationPause - 1: false, ObservationPause: true, observationKept: again.seen.Age >= old, observationKept + 1: false} {
			k.At = again.seen.At.Add(again.seen.Age - gap)
			if got := lost(observationOf(k, []suspect{again}), tt.after, step, scans.ScanPrefix); got != (tt.want && counts) {
				t.Errorf("%s, with a first observation stored for %v: lost is %v", tt.name, gap, got)
			}
		}
	}
}

// TestFront checks whether a step's message may be among those in its queue.
func TestFront(t *testing.T) {
	now := time.Unix(100_000, 0)
	ours := scans.Message{Version: scans.MessageVersion, Scan: "ours"}
	proof.Must(t, ours.Prepare())
	// others returns n messages that were put into the queue after ours, one a second. The argument `last` is the time
	// of the last one after ours.
	others := func(n int, last time.Duration) []storage.Message {
		var messages []storage.Message
		for i := range n {
			body := fmt.Appendf(nil, "other %d", i)
			messages = append(messages, storage.Message{Text: scans.Encode(body), Inserted: now.Add(last - time.Duration(n-1-i)*time.Second)})
		}
		return messages
	}
	withOurs := func(messages []storage.Message) []storage.Message {
		messages[len(messages)/2].Text = scans.Encode(ours.Body)
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
		{"many, about as old as ours", others(full, ObservationPause), false, true},
		{"many, some of them younger", others(full, ObservationPause+time.Second), false, false},
		{"many younger, ours among them", withOurs(others(full, time.Hour)), false, true},
		{"failed, and its next delivery may wait", others(full, Redelivery), true, true},
		{"failed, and messages newer than its next delivery wait", others(full, Redelivery+time.Second), true, false},
		{"unreadable messages", []storage.Message{{Text: "?", Inserted: now}}, false, false},
	} {
		if got := newFront(tt.messages).mayHave(ledger.Pending{ID: ours.ID, At: now, FirstEnded: tt.failed}); got != tt.want {
			t.Errorf("%s: the queue may have the message: %v, want %v", tt.name, got, tt.want)
		}
	}
}
