package scans

import (
	"context"
	"math/rand" // not math/rand/v2, whose global source the simulation could not seed
	"time"

	"tablesweep/internal/problem"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// In a scan with limits, each step gets a time slot, and does not begin before that time. When a step commits, it takes
// slots for its children. A child's message is hidden until the child's slot, so a waiting step occupies no invocation.

// Limits are the maximum numbers of rows and requests per second, for all steps of a scan or group in all instances
// together. 0 means no limit.
type Limits struct {
	RowsPerSecond     int `json:"rowsPerSecond,omitempty"`     // rows read
	RequestsPerSecond int `json:"requestsPerSecond,omitempty"` // storage requests
}

const (
	slotBehind   = 3 * time.Second // the unused part of a limit expires after this time
	SlotEarly    = 2 * time.Second // a message may arrive this long before its time slot, because messages have times in whole seconds
	SlotRequests = 3               // requests that a step makes for its own slot and for the slots of its children
	slotTries    = 100             // number of tries to take slots; a try fails if another step takes slots at the same time
	slotPause    = 20 * time.Millisecond
	stepShare    = 4 // a page has as many rows as the limit allows in 1/stepShare seconds
	leastRows    = 10
)

// rows returns the number of rows on a page, or 0 without a limit. Small pages keep the rate steady.
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

// Takes returns the shortest time in which the limits allow the given numbers of rows and requests.
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

// slots takes n slots. The argument `now` is the service's time. A done step counts with its true cost. A waiting step
// counts with only 90 % of the mean cost, because with 100 %, part of the limits would stay unused. If the waiting steps
// turn out to cost more, the scan exceeds its limits. In that case, [step.Steps] delays each step whose message arrives,
// by giving the step another, later slot.
func (l Limits) slots(u *ledger.Used, now time.Time, n int) []time.Time {
	mean := l.Takes(u.Rows, u.Requests) * 9 / 10 / time.Duration(max(1, u.Steps))
	// A repeated step takes slots for its children a second time, so u.Waiting may be too high. To correct this,
	// each call lowers u.Waiting by 1 while the limits are not used up.
	if least := now.Add(-slotBehind); u.Next.Before(least) {
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

// TakeSlots counts the rows and requests of ended steps, and takes a time slot for each message.
func (ss *Scans) TakeSlots(ctx context.Context, limits *Limits, id ledger.ScanID, ended int64, done ledger.Totals, messages []Message) error {
	if limits == nil {
		return nil
	}
	id = id.GroupOrSelf() // a group's members share its limits
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
	return problem.Busyf("", "too many steps of the scan end at the same time; try again")
}
