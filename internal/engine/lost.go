package engine

import (
	"encoding/base64"
	"slices"
	"time"

	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/storage"
)

// A pending step is in one of four places: its message waits in the queue; a living process
// has it in hand; its message was never sent; or the process that had it is dead, and the
// host's lease hides its message for ten minutes more. In the last two it is lost, and is
// sent again. Nobody can tell by one look, as a process may have begun the step after it
// said what it has in hand. So there are two looks, far enough apart for each living process
// to have said so between them. That needs no clock, and holds after an outage, too.
const (
	lookTime = 2 * beatTime
	// looks is how many there are at most: the first may be too early for a step whose
	// message is about to be sent.
	looks = 3
	// lostIfBusy is the age from which on a step that nobody has in hand is lost although
	// its message may be among those that wait in its queue.
	lostIfBusy = 12 * time.Minute
	// firstPause is the least time until a message is sent again a second time; it doubles
	// from then on, up to maxPause.
	firstPause = 30 * time.Second
	maxPause   = 16 * time.Minute
	// patience is how long a step may be lost again and again until it fails its scan.
	patience = 4 * time.Hour
)

// look is what was seen at one moment.
type look struct {
	steps map[string]ledger.Pending // by id
	said  map[string]time.Time      // when each process last said what it has in hand
	held  map[string][]string       // what that was: the processes by step
	waits map[string]front          // the messages that wait, by function
}

func newLook(steps map[string]ledger.Pending, beats []ledger.Beat, waits map[string]front) look {
	l := look{steps: steps, said: map[string]time.Time{}, held: map[string][]string{}, waits: waits}
	for _, b := range beats {
		l.said[b.Process] = b.At
		for _, step := range b.Steps {
			l.held[step] = append(l.held[step], b.Process)
		}
	}
	return l
}

// missing reports whether the step may be lost, as far as one look tells. function is the
// one whose queue its message is for.
func (l look) missing(step, function string) bool {
	p, pending := l.steps[step]
	return pending && (!l.waits[function].mayHave(p) || p.Age > lostIfBusy<<min(p.Sends, 6))
}

// front is what a peek into a queue has shown: the messages that have been visible for longest.
type front struct {
	steps  map[string]bool // theirs
	all    bool            // no others were visible
	newest time.Time       // when the youngest of them was put into the queue
}

func newFront(messages []storage.Message) front {
	f := front{steps: map[string]bool{}, all: len(messages) < storage.MaxGetMessages}
	for _, m := range messages {
		if body, err := base64.StdEncoding.DecodeString(m.Text); err == nil {
			f.steps[stepID(body)] = true
		}
		if m.Inserted.After(f.newest) {
			f.newest = m.Inserted
		}
	}
	return f
}

// mayHave reports whether the step's message may be visible, behind the front if not in it.
// A queue has its messages in the order in which they became visible, or nearly so: the
// message is not behind one that was put there well after it. One of a step that failed
// became visible a while after that was recorded.
func (f front) mayHave(p ledger.Pending) bool {
	margin := lookTime
	if p.Begun != 0 {
		margin = redelivery
	}
	return f.steps[p.ID] || !f.all && !f.newest.After(p.At.Add(margin))
}

// lost reports whether the step was lost when it was looked at twice, lookTime apart.
func lost(before, after look, step, function string) bool {
	was, is := before.steps[step], after.steps[step]
	switch {
	case !before.missing(step, function) || !after.missing(step, function):
		return false
	case was.Age < lookTime: // its message may not have been sent at the first look
		return false
	case is.Age < was.Age: // begun or sent again in between
		return false
	case is.Sends > 0 && is.Age < min(firstPause<<(min(is.Sends, 10)-1), maxPause):
		return false
	}
	return !slices.ContainsFunc(after.held[step], func(process string) bool {
		return !after.said[process].Equal(before.said[process])
	})
}
