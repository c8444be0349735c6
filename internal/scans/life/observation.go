package life

import (
	"encoding/base64"
	"slices"
	"time"

	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

const (
	// Redelivery is the longest time until the host delivers a failed message again: host.json's visibilityTimeout plus
	// the longest pause between two polls.
	Redelivery = 30 * time.Second
	// ObservationPause is the time between two observations. In this time, each living process writes a heartbeat. One
	// observation is not enough: if a process began a step after its last heartbeat, no heartbeat names the step yet.
	ObservationPause = 2 * ledger.HeartbeatTime
	// maxObservations is the maximum number of observations in a run of Maintain. Two observations show whether a step
	// is lost. But at the first observation, a new step's message may not have been sent yet. For such a step, Maintain
	// compares the second observation with the third.
	maxObservations = 3
	// observationKept is the maximum age at which the next run of Maintain uses a stored observation.
	observationKept = 2 * time.Minute
	// lostIfBusy is the age at which a step that no process holds counts as lost, even if its message may be in the
	// queue.
	lostIfBusy = 12 * time.Minute
	// firstPause is the pause after the first resend of a message. The pause doubles with each resend, up to maxPause.
	firstPause = 30 * time.Second
	maxPause   = 16 * time.Minute
	// If a step is still lost when maxLost has passed since the first resend of its message, the scan fails.
	maxLost = 4 * time.Hour
)

// observation contains the pending steps, heartbeats and messages that Maintain saw at one moment.
type observation struct {
	steps      map[ledger.StepID]ledger.Pending
	heartbeats map[string]time.Time       // the time of each process's last heartbeat
	holders    map[ledger.StepID][]string // the processes whose heartbeats name a step
	fronts     map[string]front           // by function
}

func newObservation(steps map[ledger.StepID]ledger.Pending, heartbeats []ledger.Heartbeat, waits map[string]front) observation {
	l := observation{steps: steps, heartbeats: map[string]time.Time{}, holders: map[ledger.StepID][]string{}, fronts: waits}
	for _, b := range heartbeats {
		l.heartbeats[b.Process] = b.At
		for _, step := range b.Steps {
			l.holders[step.Step] = append(l.holders[step.Step], b.Process)
		}
	}
	return l
}

// toStore returns what a later run of Maintain needs: the suspects that are old enough to be lost, and the heartbeats.
func (l observation) toStore(suspects []suspect) ledger.Observation {
	k := ledger.Observation{Steps: map[ledger.StepID]time.Time{}, Heartbeats: l.heartbeats}
	for _, s := range suspects {
		if s.seen.Age >= ObservationPause {
			k.Steps[s.seen.ID] = s.seen.At
		}
	}
	return k
}

// observationOf converts the observation k, which an earlier run of Maintain has stored. The argument `again` contains
// the suspects of the present run. The result contains a suspect only if k also contains the suspect, and if the two
// observations are at least ObservationPause and at most observationKept apart.
func observationOf(k ledger.Observation, again []suspect) observation {
	l := observation{steps: map[ledger.StepID]ledger.Pending{}, heartbeats: k.Heartbeats, fronts: map[string]front{}}
	for _, s := range again {
		at, was := k.Steps[s.seen.ID]
		if later := s.seen.At.Add(s.seen.Age).Sub(k.At); was && ObservationPause <= later && later <= observationKept {
			l.steps[s.seen.ID] = ledger.Pending{ID: s.seen.ID, At: at, Age: k.At.Sub(at)}
			l.fronts[s.Function()] = front{all: true} // k contains only steps that may be lost, so the queue counts as empty
		}
	}
	return l
}

// missing reports whether the step may be lost according to this observation. The argument `function` is the name of the
// function that runs the step.
func (l observation) missing(step ledger.StepID, function string) bool {
	p, pending := l.steps[step]
	return pending && (!l.fronts[function].mayHave(p) || p.Age > lostIfBusy<<min(p.Sends, 6))
}

// front describes the messages that a peek into a queue shows: those that have been visible for the longest time.
type front struct {
	steps  map[ledger.StepID]bool // the messages' steps
	all    bool                   // the peek has shown all visible messages
	newest time.Time              // when the newest peeked message was put into the queue
}

func newFront(messages []storage.Message) front {
	f := front{steps: map[ledger.StepID]bool{}, all: len(messages) < storage.MaxGetMessages}
	for _, m := range messages {
		if body, err := base64.StdEncoding.DecodeString(m.Text); err == nil {
			m, _ := scans.ParseMessage(body) // the id is set even if the message is invalid
			f.steps[m.ID] = true
		}
		if m.Inserted.After(f.newest) {
			f.newest = m.Inserted
		}
	}
	return f
}

// mayHave reports whether the step's message may be visible in the queue, among the peeked messages or behind them. A
// queue's messages are nearly in the order in which they became visible. So if the newest peeked message was put into
// the queue more than ObservationPause after the step's message, the step's message is not behind the peeked messages.
// After a failed delivery, mayHave uses Redelivery instead of ObservationPause, because the step's message may take
// that long to become visible again.
func (f front) mayHave(p ledger.Pending) bool {
	margin := ObservationPause
	if p.Begun > 0 || p.FirstEnded {
		margin = Redelivery
	}
	return f.steps[p.ID] || !f.all && !f.newest.After(p.At.Add(margin))
}

// lost compares two observations that are at least ObservationPause apart, and reports whether the step is lost.
func lost(before, after observation, step ledger.StepID, function string) bool {
	was, is := before.steps[step], after.steps[step]
	switch {
	case !before.missing(step, function) || !after.missing(step, function):
		return false
	case was.Age < ObservationPause: // its message may not have been sent yet
		return false
	case !is.At.Equal(was.At): // the step was begun or resent between the two observations
		return false
	case is.Sends > 0 && is.Age < min(firstPause<<(min(is.Sends, 10)-1), maxPause):
		return false
	}
	return !slices.ContainsFunc(after.holders[step], func(process string) bool {
		return !after.heartbeats[process].Equal(before.heartbeats[process])
	})
}
