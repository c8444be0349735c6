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
	// Redelivery is the time in which the host delivers a failed message again:
	// host.json's visibilityTimeout plus its longest pause between two polls.
	Redelivery = 30 * time.Second
	// LookTime is how far apart two looks are: each living process can write a heartbeat between them.
	// One look is not enough, since a process may have begun a step after its last heartbeat.
	LookTime = 2 * ledger.HeartbeatTime
	// looks is the most looks of one Maintain. The first may be too early for a step whose message is about to be sent.
	looks = 3
	// lookKept is how long a look counts from which another Maintain may go on: the timer runs each minute.
	lookKept = 2 * time.Minute
	// lostIfBusy is the age at which a step that nobody has in hand is lost, although its message may still wait.
	lostIfBusy = 12 * time.Minute
	// firstPause is the shortest pause between sending a message again and once more. It doubles up to maxPause.
	firstPause = 30 * time.Second
	maxPause   = 16 * time.Minute
	// maxLost is how long a step may be lost again and again before it fails its scan.
	maxLost = 4 * time.Hour
)

// look is what was seen at one moment.
type look struct {
	steps map[ledger.StepID]ledger.Pending // pending steps by id
	said  map[string]time.Time             // the time of each process's last heartbeat
	held  map[ledger.StepID][]string       // the processes whose heartbeats name a step, by step
	waits map[string]front                 // the messages that wait, by function
}

func newLook(steps map[ledger.StepID]ledger.Pending, beats []ledger.Heartbeat, waits map[string]front) look {
	l := look{steps: steps, said: map[string]time.Time{}, held: map[ledger.StepID][]string{}, waits: waits}
	for _, b := range beats {
		l.said[b.Process] = b.At
		for _, step := range b.Steps {
			l.held[step.Step] = append(l.held[step.Step], b.Process)
		}
	}
	return l
}

// kept returns what another Maintain needs of a look: the steps that may be lost. Some are too young for that.
func (l look) kept(suspects []suspect) ledger.Look {
	k := ledger.Look{Steps: map[ledger.StepID]time.Time{}, Beats: l.said}
	for _, s := range suspects {
		if s.seen.Age >= LookTime {
			k.Steps[s.seen.ID] = s.seen.At
		}
	}
	return k
}

// lookOf returns the look that another Maintain has kept, of those steps that were seen again long enough after it, and soon enough.
func lookOf(k ledger.Look, again []suspect) look {
	l := look{steps: map[ledger.StepID]ledger.Pending{}, said: k.Beats, waits: map[string]front{}}
	for _, s := range again {
		at, was := k.Steps[s.seen.ID]
		if later := s.seen.At.Add(s.seen.Age).Sub(k.At); was && LookTime <= later && later <= lookKept {
			l.steps[s.seen.ID] = ledger.Pending{ID: s.seen.ID, At: at, Age: k.At.Sub(at)}
			l.waits[s.Function()] = front{all: true} // and the step's message was not among them
		}
	}
	return l
}

// missing reports whether the step may be lost, as far as one look shows. function has the queue of its message.
func (l look) missing(step ledger.StepID, function string) bool {
	p, pending := l.steps[step]
	return pending && (!l.waits[function].mayHave(p) || p.Age > lostIfBusy<<min(p.Sends, 6))
}

// front is the result of a peek into a queue: the messages that have been visible for longest.
type front struct {
	steps  map[ledger.StepID]bool // their steps
	all    bool                   // no other messages were visible
	newest time.Time              // when the youngest of them was put into the queue
}

func newFront(messages []storage.Message) front {
	f := front{steps: map[ledger.StepID]bool{}, all: len(messages) < storage.MaxGetMessages}
	for _, m := range messages {
		if body, err := base64.StdEncoding.DecodeString(m.Text); err == nil {
			m, _ := scans.ParseMessage(body) // whatever else is wrong with it
			f.steps[m.ID] = true
		}
		if m.Inserted.After(f.newest) {
			f.newest = m.Inserted
		}
	}
	return f
}

// mayHave reports whether the step's message may be visible, in the front or behind it. A queue has its messages nearly
// in the order in which they became visible: a message is not behind one that was put there well after it. The message
// of a step that failed becomes visible some time after the failure was recorded.
func (f front) mayHave(p ledger.Pending) bool {
	margin := LookTime
	if p.Begun > 0 || p.FirstEnded {
		margin = Redelivery
	}
	return f.steps[p.ID] || !f.all && !f.newest.After(p.At.Add(margin))
}

// lost reports whether the step was lost when it was looked at twice, lookTime apart.
func lost(before, after look, step ledger.StepID, function string) bool {
	was, is := before.steps[step], after.steps[step]
	switch {
	case !before.missing(step, function) || !after.missing(step, function):
		return false
	case was.Age < LookTime: // at the first look its message was perhaps not sent yet
		return false
	case !is.At.Equal(was.At): // begun or sent again in between
		return false
	case is.Sends > 0 && is.Age < min(firstPause<<(min(is.Sends, 10)-1), maxPause):
		return false
	}
	return !slices.ContainsFunc(after.held[step], func(process string) bool {
		return !after.said[process].Equal(before.said[process])
	})
}
