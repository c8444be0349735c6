package scans

import (
	"context"
	"math/rand" // the simulation seeds it
	"time"

	"tablesweep/internal/problem"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// A scan with limits gives each step a time before which it does not begin: a slot. The step that leaves others takes
// their slots when it commits, and their messages are hidden until then. So waiting costs no invocation, and any number
// of instances keeps to the limits. The scans of a group share its limits.

// Limits are the most that the steps of a scan use a second, all instances together; 0 means no limit.
type Limits struct {
	RowsPerSecond     int `json:"rowsPerSecond,omitempty"`     // rows that are read
	RequestsPerSecond int `json:"requestsPerSecond,omitempty"` // storage requests
}

const (
	slotBehind   = 3 * time.Second // so much of a limit that nobody used may be made up for
	SlotEarly    = 2 * time.Second // so much before its slot a message may come: times of messages are whole seconds
	SlotRequests = 3               // that a step makes for its slot and those that it takes
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

// Takes is the time in which so much may be used.
func (l Limits) Takes(rows, requests int64) time.Duration {
	seconds := 0.
	if l.RowsPerSecond > 0 {
		seconds = float64(rows) / float64(l.RowsPerSecond)
	}
	if l.RequestsPerSecond > 0 {
		seconds = max(seconds, float64(requests)/float64(l.RequestsPerSecond))
	}
	return time.Duration(seconds * float64(time.Second))
}

// slots takes n slots at a time of the service's clock: what is done has its true cost, and each step that waits most of the mean one.
// More would leave some of the limit unused; what that is too little, [Steps.waitsForSlot] finds.
func (l Limits) slots(u *ledger.Used, now time.Time, n int) []time.Time {
	mean := l.Takes(u.Rows, u.Requests) * 9 / 10 / time.Duration(max(1, u.Steps))
	if least := now.Add(-slotBehind); u.Next.Before(least) { // more could run: perhaps fewer wait, since a step that was done twice left its children twice
		u.Next, u.Waiting = least, max(0, u.Waiting-1)
	}
	waiting := time.Duration(u.Waiting) * mean
	slots := make([]time.Time, n)
	for i := range slots {
		slots[i] = u.Next.Add(waiting + time.Duration(i)*mean)
	}
	u.Waiting += int64(n)
	return slots
}

// TakeSlots adds what ended steps of a scan have used, and takes a slot for each of the messages.
func (ss *Scans) TakeSlots(ctx context.Context, limits *Limits, id ledger.ScanID, ended int64, done ledger.Totals, messages []Message) error {
	if limits == nil {
		return nil
	}
	id = id.GroupOrSelf() // all scans of a group share its limits
	for range slotTries {
		u, err := ss.Ledger.Used(ctx, id)
		if err != nil {
			return err
		}
		now, err := ss.Now(ctx)
		if err != nil {
			return err
		}
		if done != (ledger.Totals{}) {
			u.Steps, u.Rows, u.Requests = u.Steps+ended, u.Rows+done.Rows, u.Requests+done.Transactions
		}
		u.Waiting = max(0, u.Waiting-ended)
		u.Next = u.Next.Add(limits.Takes(done.Rows, done.Transactions))
		slots := limits.slots(&u, now, len(messages))
		taken, err := ss.Ledger.Use(ctx, id, u)
		if err != nil {
			return err
		}
		if taken {
			for i := range messages {
				messages[i].After = slots[i]
			}
			return nil
		}
		if !task.Sleep(ctx, time.Duration(rand.Int63n(int64(slotPause)))) {
			return ctx.Err()
		}
	}
	return problem.Busyf("", "too many steps of the scan end at once; try again")
}
