package ledger

import (
	"context"
	"fmt"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// emptyTries bounds how often [Ledger.Finish] asks again when the service
// answers with an empty page and a token.
const emptyTries = 5

// Finish ends the scan if it is running and no step is pending. It reports
// whether this call ended it. A scan with failed rows ends as failed.
func (l *Ledger) Finish(ctx context.Context, id string, now time.Time) (bool, error) {
	empty, err := l.nothingPending(ctx, id)
	if err != nil || !empty {
		return false, err
	}
	s, err := l.cameTo(ctx, id)
	if err != nil || s.State != Running {
		return false, err
	}
	state, reason := Succeeded, ""
	if s.Totals.Failed > 0 {
		state = Failed
		reason = fmt.Sprintf("%d rows could not be written; the first: %s", s.Totals.Failed, s.Totals.FirstFailed)
	}
	return l.end(ctx, s.Scan, state, now, reason)
}

// nothingPending reads one pending step. Only an answer of a
// single page counts: between two pages, a step behind the first page may commit a child
// ahead of it, and both pages would be empty.
func (l *Ledger) nothingPending(ctx context.Context, id string) (bool, error) {
	for range emptyTries {
		p, err := l.table.Query(ctx, storage.Query{Range: key.WithPrefix(id, pendingPrefix), Select: []string{}, Top: 1})
		if err != nil {
			return false, fmt.Errorf("look for pending steps of scan %s: %w", id, err)
		}
		if len(p.Entities) > 0 {
			return false, nil
		}
		if p.Next == nil {
			return true, nil
		}
	}
	return false, nil
}

// End ends a running scan as failed, with the reason, or as canceled. Its pending steps stay, for a later
// retry. It reports whether this call ended it. It returns [ErrNotFound] if there is no such scan.
func (l *Ledger) End(ctx context.Context, id string, state State, now time.Time, reason string) (bool, error) {
	s, err := l.Scan(ctx, id)
	if err != nil || s.State != Running {
		return false, err
	}
	return l.end(ctx, s, state, now, reason)
}

// end writes the scan's end once: only over the row as it was read. It has ended then, even if its attempt
// can't be closed: Maintain does that.
func (l *Ledger) end(ctx context.Context, s Scan, state State, now time.Time, reason string) (bool, error) {
	properties := []storage.Property{
		storage.StringProperty("State", string(state)),
		storage.TimeProperty("FinishedAt", now),
		storage.StringProperty("Error", reason),
	}
	err := l.table.Write(ctx, storage.Op{Kind: storage.Merge, IfMatch: s.etag, Entity: storage.Entity{
		Key: key.Key{Partition: s.ID, Row: scanRow}, Properties: properties,
	}})
	if storage.HasCode(err, "UpdateConditionNotSatisfied") {
		return false, nil // another process or our own first try has ended it
	}
	if err != nil {
		return false, fmt.Errorf("end scan %s: %w", s.ID, err)
	}
	_ = l.Close(ctx, OpenScan{ID: s.ID, Attempt: s.Attempt})
	return true, nil
}

// Restart begins the next attempt of a scan that was canceled or has failed, unless
// another process has begun it since s was read. Done steps stay done and pending
// ones pending. The caller sends their messages. After an error the attempt
// may have begun, except after [ErrNotFound]: then the scan was removed meanwhile.
func (l *Ledger) Restart(ctx context.Context, s Scan, now time.Time) error {
	next := Scan{ID: s.ID, Attempt: s.Attempt + 1, Request: s.Request, Started: s.Started, Resumed: now, ran: s.Ran(now)}
	if err := l.table.Write(ctx, listed(s.ID, next.Attempt), list(openRow(s.ID, next.Attempt))); err != nil {
		return fmt.Errorf("list scan %s: %w", s.ID, err)
	}
	err := l.table.Write(ctx, storage.Op{Kind: storage.Replace, IfMatch: s.etag, Entity: runningScan(next)})
	if storage.HasCode(err, "UpdateConditionNotSatisfied") {
		return nil // another process or our own first try has begun it
	}
	if storage.NotFound(err) { // removed meanwhile
		return fmt.Errorf("scan %s: %w", s.ID, ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("restart scan %s: %w", s.ID, err)
	}
	return nil
}
