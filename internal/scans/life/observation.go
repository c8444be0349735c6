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
	// Redelivery is the time within which the host delivers a failed message again: host.json's visibilityTimeout plus the host's longest
	// pause between two polls.
	Redelivery = 30 * time.Second
	// ObservationPause is the time between two observations. It is long enough for each living process to write a heartbeat.
	// One observation is not enough, because a process may have begun a step after its last heartbeat.
	ObservationPause = 2 * ledger.HeartbeatTime
	// maxObservations is the maximum number of observations in one run of Maintain. The first observation may be too early for a step whose
	// message is about to be sent.
	maxObservations = 3
	// observationKept is the age up to which a later run of Maintain uses a stored observation. Maintain runs every minute.
	observationKept = 2 * time.Minute
	// lostIfBusy is the age at which a step that no process holds counts as lost, even if its message may still be in the queue.
	lostIfBusy = 12 * time.Minute
	// firstPause is the pause after a message is sent again for the first time. The pause doubles up to maxPause.
	firstPause = 30 * time.Second
	maxPause   = 16 * time.Minute
	// maxLost is how long a step may be lost again and again before the scan fails.
	maxLost = 4 * time.Hour
)

// observation contains the pending steps, heartbeats and messages that Maintain saw at one moment.
type observation struct {
	steps      map[ledger.StepID]ledger.Pending // pending steps by id
	heartbeats map[string]time.Time             // the time of each process's last heartbeat
	holders    map[ledger.StepID][]string       // for each step, the processes whose heartbeats name it
	fronts     map[string]front                 // for each function, the oldest visible messages of its queue
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

// toStore returns the part of an observation that a later run of Maintain needs: the suspects that are old enough to be lost, and the heartbeats.
func (l observation) toStore(suspects []suspect) ledger.Observation {
	k := ledger.Observation{Steps: map[ledger.StepID]time.Time{}, Heartbeats: l.heartbeats}
	for _, s := range suspects {
		if s.seen.Age >= ObservationPause {
			k.Steps[s.seen.ID] = s.seen.At
		}
	}
	return k
}

// observationOf converts the observation k, which an earlier run of Maintain stored. The result contains only steps seen again after at least
// ObservationPause and at most observationKept.
func observationOf(k ledger.Observation, again []suspect) observation {
	l := observation{steps: map[ledger.StepID]ledger.Pending{}, heartbeats: k.Heartbeats, fronts: map[string]front{}}
	for _, s := range again {
		at, was := k.Steps[s.seen.ID]
		if later := s.seen.At.Add(s.seen.Age).Sub(k.At); was && ObservationPause <= later && later <= observationKept {
			l.steps[s.seen.ID] = ledger.Pending{ID: s.seen.ID, At: at, Age: k.At.Sub(at)}
			l.fronts[s.Function()] = front{all: true} // the step's message was not visible
		}
	}
	return l
}

// missing reports whether the step may be lost according to this observation. The argument function is the name of the function whose queue
// holds the step's message.
func (l observation) missing(step ledger.StepID, function string) bool {
	p, pending := l.steps[step]
	return pending && (!l.fronts[function].mayHave(p) || p.Age > lostIfBusy<<min(p.Sends, 6))
}

// front is the result of a peek into a queue: the messages that have been visible for longest.
type front struct {
	steps  map[ledger.StepID]bool // the messages' steps
	all    bool                   // the queue has no other visible messages
	newest time.Time              // when the newest of the messages was put into the queue
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

// mayHave reports whether the step's message may be visible in the queue, among the peeked messages or after them. The messages of a queue are
// nearly in the order in which they became visible. So no message comes after one that was put into the queue much later. The message of a failed
// step becomes visible some time after the failure was recorded.
func (f front) mayHave(p ledger.Pending) bool {
	margin := ObservationPause
	if p.Begun > 0 || p.FirstEnded {
		margin = Redelivery
	}
	return f.steps[p.ID] || !f.all && !f.newest.After(p.At.Add(margin))
}

// lost reports whether the step is lost according to two observations. The observations are at least ObservationPause apart.
func lost(before, after observation, step ledger.StepID, function string) bool {
	was, is := before.steps[step], after.steps[step]
	switch {
	case !before.missing(step, function) || !after.missing(step, function):
		return false
	case was.Age < ObservationPause: // at the first observation, the step's message may not have been sent yet
		return false
	case !is.At.Equal(was.At): // between the observations, the step was begun, or its message was sent again
		return false
	case is.Sends > 0 && is.Age < min(firstPause<<(min(is.Sends, 10)-1), maxPause):
		return false
	}
	return !slices.ContainsFunc(after.holders[step], func(process string) bool {
		return !after.heartbeats[process].Equal(before.heartbeats[process])
	})
}
