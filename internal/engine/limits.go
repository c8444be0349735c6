package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// A scan with limits gives each step a time before which it does not begin: a slot. The step that leaves others takes
// their slots when it commits, and their messages are hidden until then. So waiting costs no invocation, and any number
// of instances keeps to the limits.

// Limits are the most that the steps of a scan use a second, all instances together; 0 means no limit.
type Limits struct {
	RowsPerSecond     int `json:"rowsPerSecond,omitempty"`     // rows that are read
	RequestsPerSecond int `json:"requestsPerSecond,omitempty"` // storage requests
}

const (
	slotBehind   = 2 * time.Second // so much of a limit that nobody used may be made up for
	slotEarly    = 2 * time.Second // so much before its slot a message may come: times of messages are whole seconds
	meanSteps    = 64              // of so many steps, and half as many before them, the mean is taken
	slotRequests = 2               // that a step makes to take slots
	slotTries    = 100             // with others who take slots at the same time
	slotPause    = 20 * time.Millisecond
	stepShare    = 4 // a page has the rows of a limit's second, divided by this
	leastRows    = 10
)

// rows returns how many rows a page has, that the rate is even.
func (l *Limits) rows() int {
	if l == nil {
		return 0
	}
	rows := storage.PageRows
	for _, perSecond := range []int{l.RowsPerSecond, l.RequestsPerSecond} {
		if perSecond > 0 {
			rows = min(rows, max(leastRows, perSecond/stepShare))
		}
	}
	return rows
}

// each is the time that one step takes up on the mean, when so much was used.
func (l Limits) each(u ledger.Used) time.Duration {
	seconds := 0.
	if l.RowsPerSecond > 0 {
		seconds = float64(u.Rows) / float64(l.RowsPerSecond)
	}
	if l.RequestsPerSecond > 0 {
		seconds = max(seconds, float64(u.Requests)/float64(l.RequestsPerSecond))
	}
	return time.Duration(seconds / float64(max(1, u.Steps)) * float64(time.Second))
}

// slots takes n slots at a time of the service's clock.
func (l Limits) slots(u *ledger.Used, now time.Time, n int) []time.Time {
	u.Next = later(u.Next, now.Add(-slotBehind)) // also if none is taken: a table of one page has no other step
	slots := make([]time.Time, n)
	for i := range slots {
		slots[i] = later(u.Next, now.Add(-slotBehind))
		u.Next = slots[i].Add(l.each(*u))
	}
	return slots
}

// takeSlots adds to what a scan's steps have used, and takes a slot for each of the messages.
func (e *Engine) takeSlots(ctx context.Context, limits *Limits, id string, steps int64, done ledger.Totals, messages []message) error {
	if limits == nil {
		return nil
	}
	for range slotTries {
		u, err := e.ledger.Used(ctx, id)
		if err != nil {
			return err
		}
		now, err := e.Now(ctx)
		if err != nil {
			return err
		}
		if u.Steps >= meanSteps {
			u.Steps, u.Rows, u.Requests = u.Steps/2, u.Rows/2, u.Requests/2
		}
		u.Steps, u.Rows, u.Requests = u.Steps+steps, u.Rows+done.Rows, u.Requests+done.Transactions
		slots := limits.slots(&u, now, len(messages))
		taken, err := e.ledger.Use(ctx, id, u)
		if err != nil {
			return err
		}
		if taken {
			for i := range messages {
				messages[i].after = slots[i]
			}
			return nil
		}
		if !task.Sleep(ctx, rand.N(slotPause)) {
			return ctx.Err()
		}
	}
	return problem.Busyf("", "too many steps of the scan end at once; try again")
}

// waitsForSlot returns an error that drops a message of long before its step's slot: it is left from before a retry, and
// another one comes at the slot.
func (e *Engine) waitsForSlot(ctx context.Context, p ledger.Pending) error {
	now, err := e.Now(ctx)
	if err == nil && p.After.Sub(now) > slotEarly {
		return problem.Stalef("", "the scan's limits do not allow for the step yet; another message comes when they do")
	}
	return err
}
