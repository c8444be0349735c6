package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tablesweep/internal/storage"
)

// Pending is a step that has not been committed. A new step needs only an ID and a Message. Deliveries and failures
// are recorded only after a problem, so a step without problems costs no additional request.
type Pending struct {
	ID      StepID
	Message []byte        // opaque; at most 48 KiB
	Sends   int           // how often its message was resent
	Reason  string        // why the last delivery of the step's message failed; "" if it has not failed
	After   time.Time     // the earliest time to begin the step, by the service's clock; zero means immediately
	At      time.Time     // the later of two times: After, and the service's time when the row was last written
	Age     time.Duration // time since At, by the service's clock; negative before At
	Lost    time.Duration // time since its message was first resent; 0 if never

	// Begun is the number of repeated deliveries that have begun the step but have not ended. Begun does not include the
	// first delivery. If the first delivery has ended with an error, FirstEnded is true.
	Begun      int
	FirstEnded bool

	etag string
	date time.Time // when the row was read, by the service's clock
}

// Deaths returns how many processes the step may have killed: the number of deliveries that are not known to have ended.
func (p Pending) Deaths() int {
	if p.FirstEnded {
		return p.Begun
	}
	return p.Begun + 1
}

// Steps reads and changes pending steps.
type Steps struct{ rows }

// FirstPending reads up to one page of a scan's pending steps.
func (l Steps) FirstPending(ctx context.Context, id ScanID) ([]Pending, error) {
	p, err := l.query(ctx, readPending+string(id), storage.Query{Range: id.rows(pendingPrefix)})
	return pendingOf(p), err
}

// EachPending calls fn with every page of a scan's pending steps.
func (l Steps) EachPending(ctx context.Context, id ScanID, fn func([]Pending) error) error {
	for p, err := range l.pages(ctx, readPending+string(id), storage.Query{Range: id.rows(pendingPrefix)}) {
		if err == nil {
			err = fn(pendingOf(p))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const readPending = "read pending steps of scan "

// Pending reads a pending step. It reports false if the step has been committed.
func (l Steps) Pending(ctx context.Context, id ScanID, stepID StepID) (Pending, bool, error) {
	e, found, err := l.get(ctx, fmt.Sprintf("read step %s of scan %s", stepID, id), string(id), pendingPrefix+string(stepID))
	if err != nil || !found {
		return Pending{}, false, err
	}
	return pendingStep(e, time.Time{}), true, nil
}

func pendingOf(p storage.Page) []Pending {
	var steps []Pending
	for _, e := range p.Entities() {
		steps = append(steps, pendingStep(e, p.Date))
	}
	return steps
}

// pendingStep returns the pending step in a row. The row was read at the time `readAt`, by the service's clock. If
// `readAt` is zero, Age and Lost have no meaning.
func pendingStep(e storage.Entity, readAt time.Time) Pending {
	p := Pending{
		ID: StepID(strings.TrimPrefix(e.Key.Row, pendingPrefix)), Message: e.Bytes("Message"),
		Sends: int(e.Int("Sends")), Begun: int(e.Int("Begun")), FirstEnded: e.Int("FirstEnded") > 0, Reason: e.Get("Reason"),
		After: e.Time("After"), At: e.Timestamp, etag: e.ETag, date: readAt,
	}
	if p.After.After(p.At) {
		p.At = p.After
	}
	p.Age = readAt.Sub(p.At)
	if lost := e.Time("Lost"); !lost.IsZero() {
		p.Lost = readAt.Sub(lost)
	}
	return p
}

// Resending notes in the step's pending row that the step's lost message is about to be sent again. It reports false if
// another process has committed, begun or resent the step since p was read.
func (l Steps) Resending(ctx context.Context, id ScanID, p Pending) (bool, error) {
	properties := []storage.Property{storage.Int64Property("Sends", int64(p.Sends+1))}
	if p.Lost == 0 {
		properties = append(properties, storage.TimeProperty("Lost", p.date))
	}
	return l.change(ctx, id, p, storage.Merge, properties...)
}

// Renew records that a new message for the step is about to be sent, and removes the records of earlier messages. It
// reports false in the same cases as [Steps.Resending].
func (l Steps) Renew(ctx context.Context, id ScanID, p Pending) (bool, error) {
	return l.change(ctx, id, p, storage.Replace, pendingProperties(p)...)
}

// Begin records that a repeated delivery is about to begin the step. It reports false in the same cases as
// [Steps.Resending].
func (l Steps) Begin(ctx context.Context, id ScanID, p Pending) (bool, error) {
	return l.change(ctx, id, p, storage.Merge, storage.Int64Property("Begun", int64(p.Begun+1)))
}

// GiveUp records that a delivery of the step has failed. The argument `reason` describes the failure, or is "" if the
// message will be delivered again. The argument p describes the step before the failed delivery. But if this delivery was
// the step's first, the caller sets p.FirstEnded. If the scan has failed, p may also be the step after the failed delivery,
// because a retry of the scan removes these records.
func (l Steps) GiveUp(ctx context.Context, id ScanID, p Pending, reason string) error {
	properties := []storage.Property{storage.Int64Property("Begun", int64(p.Begun))}
	if p.FirstEnded {
		properties = append(properties, storage.Int64Property("FirstEnded", 1))
	}
	if reason != "" {
		properties = append(properties, storage.StringProperty("Reason", reason))
	}
	p.etag = "*"
	_, err := l.change(ctx, id, p, storage.Merge, properties...)
	return err
}

func (l Steps) change(ctx context.Context, id ScanID, p Pending, kind storage.OpKind, properties ...storage.Property) (bool, error) {
	row := op(kind, id, pendingPrefix+string(p.ID), properties...)
	row.IfMatch = p.etag
	err := l.write(ctx, fmt.Sprintf("change step %s of scan %s", p.ID, id), row)
	return err == nil, unlessOvertaken(err)
}
