package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
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
	s, err := l.Scan(ctx, id)
	if err != nil {
		return false, err
	}
	if s.State != Running {
		return false, nil
	}
	if s.Totals, err = l.Totals(ctx, id); err != nil {
		return false, err
	}
	state, reason := Succeeded, ""
	if s.Totals.Failed > 0 {
		state = Failed
		reason = fmt.Sprintf("%d rows could not be written; the first: %s", s.Totals.Failed, s.Totals.FirstFailed)
	}
	return l.end(ctx, s, state, now, reason)
}

// nothingPending asks for one pending step. The answer counts only if it is a
// single page: between two pages, a step behind the first may commit a child
// ahead of it, and both pages be empty.
func (l *Ledger) nothingPending(ctx context.Context, id string) (bool, error) {
	for range emptyTries {
		p, err := l.table.Query(ctx, storage.Query{Range: scan.WithPrefix(id, pendingPrefix), Select: []string{}, Top: 1})
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

// Fail ends a running scan with the reason. Its pending steps stay, for a later
// retry. It reports whether this call ended it.
func (l *Ledger) Fail(ctx context.Context, id string, now time.Time, reason string) (bool, error) {
	return l.endRunning(ctx, id, Failed, now, reason)
}

// Cancel ends a running scan. Its pending steps stay. It returns [ErrNotFound] or
// [ErrNotRunning] if there is no such scan or it has ended.
func (l *Ledger) Cancel(ctx context.Context, id string, now time.Time) error {
	ended, err := l.endRunning(ctx, id, Canceled, now, "")
	if err == nil && !ended {
		return fmt.Errorf("scan %s: %w", id, ErrNotRunning)
	}
	return err
}

func (l *Ledger) endRunning(ctx context.Context, id string, state State, now time.Time, reason string) (bool, error) {
	s, err := l.Scan(ctx, id)
	if err != nil || s.State != Running {
		return false, err
	}
	return l.end(ctx, s, state, now, reason)
}

// end writes the scan's end once: only over the row as it was read.
func (l *Ledger) end(ctx context.Context, s Scan, state State, now time.Time, reason string) (bool, error) {
	properties := append([]storage.Property{
		storage.StringProperty("State", string(state)),
		storage.TimeProperty("FinishedAt", now),
		storage.StringProperty("Error", reason),
	}, s.Totals.properties()...)
	err := l.table.Write(ctx, storage.Op{Kind: storage.Merge, IfMatch: s.etag, Entity: storage.Entity{
		Key: key.Key{Partition: s.ID, Row: scanRow}, Properties: properties,
	}})
	if storage.HasCode(err, "UpdateConditionNotSatisfied") {
		return false, nil // ended by another, or by our own first try
	}
	if err != nil {
		return false, fmt.Errorf("end scan %s: %w", s.ID, err)
	}
	return true, l.Close(ctx, OpenScan{ID: s.ID, Attempt: s.Attempt})
}

// Restart begins the next attempt of a scan that was canceled or has failed, unless
// another has begun it since s was read. Its done steps stay done and its pending
// ones pending; their messages are the caller's affair. After an error the attempt
// may have begun.
func (l *Ledger) Restart(ctx context.Context, s Scan) error {
	next := s.Attempt + 1
	if err := l.table.Write(ctx, list(openRow(s.ID, next))); err != nil {
		return fmt.Errorf("list scan %s: %w", s.ID, err)
	}
	err := l.table.Write(ctx, storage.Op{Kind: storage.Replace, IfMatch: s.etag, Entity: runningScan(s.ID, next, s.Started, s.Request)})
	if storage.HasCode(err, "UpdateConditionNotSatisfied") {
		return nil // begun by another, or by our own first try
	}
	if err != nil {
		return fmt.Errorf("restart scan %s: %w", s.ID, err)
	}
	return nil
}

// Close takes an attempt that has ended, or never began, off the list of open
// scans. If o is from [Ledger.Open], one that was listed anew since then stays: it
// may be about to begin.
func (l *Ledger) Close(ctx context.Context, o OpenScan) error {
	op := unlist(openRow(o.ID, o.Attempt))
	op.IfMatch = o.etag
	err := l.table.Write(ctx, op)
	if storage.NotFound(err) || storage.HasCode(err, "UpdateConditionNotSatisfied") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("close scan %s: %w", o.ID, err)
	}
	return nil
}

// Forget takes a scan whose record was never completed off both lists.
func (l *Ledger) Forget(ctx context.Context, id string) error {
	if err := l.table.Write(ctx, unlist(allPrefix+id), unlist(openRow(id, 1))); err != nil {
		return fmt.Errorf("forget scan %s: %w", id, err)
	}
	return nil
}

func unlist(row string) storage.Op {
	return storage.Op{Kind: storage.Delete, Entity: storage.Entity{Key: key.Key{Partition: scansPartition, Row: row}}}
}

// OpenScan is an attempt of a scan that has not been closed.
type OpenScan struct {
	ID      string
	Attempt int64
	Age     time.Duration // since it was listed, by the service's clock

	etag string
}

// Open lists the scans that have not been closed, the newest first.
func (l *Ledger) Open(ctx context.Context) ([]OpenScan, error) {
	var open []OpenScan
	err := l.table.All(ctx, storage.Query{Range: scan.WithPrefix(scansPartition, openPrefix)}, func(p storage.Page) error {
		for _, e := range p.Entities {
			id, attempt, _ := strings.Cut(strings.TrimPrefix(e.Key.Row, openPrefix), "|")
			n, err := strconv.ParseInt(attempt, 10, 64)
			if err != nil {
				continue // not ours; it must not keep us from our own
			}
			open = append(open, OpenScan{ID: id, Attempt: n, Age: p.Date.Sub(e.Timestamp), etag: e.ETag})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list open scans: %w", err)
	}
	return open, nil
}

// errEnough ends a listing that has what it wants.
var errEnough = errors.New("enough")

// Recent returns the newest scans' ids, n at most.
func (l *Ledger) Recent(ctx context.Context, n int) ([]string, error) {
	var ids []string
	q := storage.Query{Range: scan.WithPrefix(scansPartition, allPrefix), Select: []string{}, Top: min(n, storage.PageRows)}
	err := l.table.All(ctx, q, func(p storage.Page) error {
		for _, e := range p.Entities {
			if len(ids) < n {
				ids = append(ids, strings.TrimPrefix(e.Key.Row, allPrefix))
			}
		}
		if len(ids) == n {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("list scans: %w", err)
	}
	return ids, nil
}

// Totals sums up the scan's done steps, one query a thousand.
func (l *Ledger) Totals(ctx context.Context, id string) (Totals, error) {
	var t Totals
	sums := []string{"Steps", "Rows", "Written", "Failed", "Queries", "Transactions", "FirstFailed"}
	err := l.table.All(ctx, storage.Query{Range: scan.WithPrefix(id, donePrefix), Select: sums}, func(p storage.Page) error {
		for _, e := range p.Entities {
			t.add(totalsOf(e))
		}
		return nil
	})
	if err != nil {
		return Totals{}, fmt.Errorf("sum up scan %s: %w", id, err)
	}
	return t, nil
}

// CountPending counts the scan's pending steps, one query a thousand.
func (l *Ledger) CountPending(ctx context.Context, id string) (int64, error) {
	var n int64
	err := l.table.All(ctx, storage.Query{Range: scan.WithPrefix(id, pendingPrefix), Select: []string{}}, func(p storage.Page) error {
		n += int64(len(p.Entities))
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("count pending steps of scan %s: %w", id, err)
	}
	return n, nil
}
