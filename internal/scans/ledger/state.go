package ledger

import (
	"context"
	"fmt"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// emptyTries is the maximum number of queries for pending steps in [Ledger.Finish]. After an empty page with a token,
// the query is made again.
const emptyTries = 5

// Finish ends the scan if it is running and no step is pending, and reports whether this call ended it. A scan with
// failed rows, or with missing rows in the ledger, ends as failed. For any other scan, the function `seal` decides how
// the scan ends. Several processes may call Finish. After an error, the scan is still running.
func (l *Ledger) Finish(ctx context.Context, id ScanID, now time.Time, seal func(Listed) (Ending, error)) (bool, error) {
	idle, err := l.nothingPending(ctx, id)
	if err != nil || idle.State != Running || idle.Members > 0 { // a group has no steps
		return false, err
	}
	found, err := l.Snapshot(ctx, id)
	if err != nil {
		return false, err
	}
	s := found.asListed()
	as := Ending{State: Failed}
	if as.Error = found.describeMissing(nil); as.Error == "" && s.Totals.Failed > 0 {
		first, err := l.firstFailed(ctx, id)
		if err != nil {
			return false, err
		}
		as.Error = fmt.Sprintf("%s could not be written; the first: %s", problem.Plural(s.Totals.Failed, "row"), first)
	}
	if as.Error == "" {
		if as, err = seal(s); err != nil {
			return false, err
		}
	}
	return l.end(ctx, idle, now, as)
}

// describeMissing compares the scan's sums with its pending steps, and describes the missing rows, or returns "" if
// none are missing.
func (s Snapshot) describeMissing(pending map[StepID]bool) string {
	const otherwise = "; somebody has deleted rows of this scan. Start a new scan"
	left, _ := s.Sums.Pending()
	balance := s.Scan.first + s.Sums.balance
	for step := range pending {
		balance -= hashOf(step)
	}
	switch missing := left - int64(len(pending)); {
	case missing > 0:
		return fmt.Sprintf("%s%d pending steps that are not done%s", RowsLost, missing, otherwise)
	case missing < 0:
		return fmt.Sprintf("%srows of done steps: %d more steps are done than were begun%s", RowsLost, -missing, otherwise)
	case balance != 0:
		return RowsLost + "rows of steps: some steps are neither pending nor done" + otherwise
	}
	return ""
}

// nothingPending returns the scan's row if no step is pending, and otherwise the zero Scan. It reads the first row of
// a range that contains the rows of pending steps, followed by the scan's own row. The answer must be a single page:
// between the requests for two pages, a step could commit a child whose row sorts before the first page's end, so that
// neither page would contain the child.
func (l *Ledger) nothingPending(ctx context.Context, id ScanID) (Scan, error) {
	r := key.Range{Partition: id.partition(), Low: &key.Bound{Key: pendingPrefix}, High: &key.Bound{Key: scanRow}}
	for range emptyTries {
		p, err := l.query(ctx, "read pending steps of scan "+string(id), storage.Query{Range: r, Select: scanColumns, Top: 1})
		if err != nil {
			return Scan{}, err
		}
		if len(p.Rows) > 0 && p.Rows[0].Key.Row == scanRow {
			return scanOf(id, p.Rows[0].Entity())
		}
		if len(p.Rows) > 0 || p.Next == nil {
			break
		}
	}
	return Scan{}, nil
}

// Ending describes how a scan ends.
type Ending struct {
	State   State
	Error   string // why the scan failed
	Note    string // shown with the scan's status
	LeftOut bool   // the scan is a failed member, and its group is complete without it
	NoTable int64  // in a verification, tables that are no longer in the source
}

func (e Ending) properties() (more []storage.Property) {
	if e.Note != "" {
		more = append(more, storage.StringProperty("Note", e.Note))
	}
	if e.LeftOut {
		more = append(more, storage.Int64Property("LeftOut", 1))
	}
	if e.NoTable > 0 {
		more = append(more, storage.Int64Property("NoTable", e.NoTable))
	}
	return more
}

// End ends a running scan as failed or canceled, or a group as succeeded, and reports whether this call ended it.
// Pending steps stay, so that the scan can be retried. If there is no such scan, the error is [ErrNotFound].
func (l *Ledger) End(ctx context.Context, id ScanID, now time.Time, as Ending) (bool, error) {
	s, err := l.Scan(ctx, id)
	if err != nil || s.State != Running {
		return false, err
	}
	return l.end(ctx, s, now, as)
}

// end records the scan's end, unless its row has changed since s was read. If the attempt cannot be removed from the
// list of open scans, Maintain removes it later.
func (l *Ledger) end(ctx context.Context, s Scan, now time.Time, as Ending) (bool, error) {
	for _, began := range []time.Time{s.Started, s.began()} { // the argument `now` may lie before these times, because a process knows the service's time only to the second
		if now.Before(began) {
			now = began
		}
	}
	row := append([]storage.Property{
		storage.StringProperty("State", string(as.State)), storage.TimeProperty("FinishedAt", now), storage.StringProperty("Error", as.Error),
	}, as.properties()...)
	end := op(storage.Merge, s.ID, scanRow, row...)
	end.IfMatch = s.etag
	err := l.write(ctx, "end scan "+string(s.ID), end)
	if storage.HasCode(err, "UpdateConditionNotSatisfied") {
		return false, nil // another process, or this call's first try, has ended the scan
	}
	if err != nil {
		return false, err
	}
	_ = l.MoveToEnded(ctx, OpenScan{ID: s.ID, Attempt: s.Attempt})
	return true, nil
}

// Restart begins the next attempt of a canceled or failed scan, unless another process has begun it since s was read.
// The caller sends the messages of pending steps. [ErrNotFound] means that the scan was removed since s was read. After
// any other error, the attempt may have begun. If `root` is not nil, it is the first step of the attempt, and `ahead` is
// the estimated work of this step.
func (l *Ledger) Restart(ctx context.Context, s Scan, now time.Time, root *Pending, ahead scan.Outlook) error {
	var ops []storage.Op
	if root != nil {
		s.first += hashOf(root.ID)
		first := addPending(s.ID, *root)
		first.Kind = storage.Insert
		ops = append(ops, beginAttempt(s.ID, now, ahead), first)
	}
	return l.restart(ctx, s, now, ops...)
}

func (l *Ledger) restart(ctx context.Context, s Scan, now time.Time, more ...storage.Op) error {
	next := Scan{ID: s.ID, Attempt: s.Attempt + 1, Request: s.Request, Started: s.Started, Resumed: now, ran: s.Ran(now), Members: s.Members, first: s.first}
	if err := l.write(ctx, "list scan "+string(s.ID), runningRow(s.ID, next.Attempt), list(openRow(s.ID, next.Attempt))); err != nil {
		return err
	}
	running := runningScan(storage.Replace, next)
	running.IfMatch = s.etag
	err := l.write(ctx, "restart scan "+string(s.ID), append([]storage.Op{running}, more...)...)
	if storage.HasCode(err, "UpdateConditionNotSatisfied") {
		return nil // another process, or this call's first try, has begun the attempt
	}
	if storage.NotFound(err) { // the scan was removed since s was read
		return fmt.Errorf("scan %s: %w", s.ID, ErrNotFound)
	}
	return err
}
