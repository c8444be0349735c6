package life

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/task"
)

// retrySends is the maximum number of messages that [Life.Retry] sends concurrently.
const retrySends = 32

// Retry restarts the pending steps of a canceled or failed scan. Done steps still count, and are never repeated. So
// failed rows stay failed, and a scan with failed rows ends as failed again. Retry refuses a scan that failed only
// because of failed rows.
//
// The retry of a group retries all members that have not succeeded, including their failed rows. If the scan is running,
// or has succeeded after a retry, Retry changes nothing and returns nil, because a Functions host may repeat a request. A
// message that was sent before the retry may already have been delivered several times. In that case, the message's step
// fails the scan after fewer failures than usual.
func (l *Life) Retry(ctx context.Context, id ledger.ScanID) error { return l.retry(ctx, id, false, 0) }

// RetryFailed is like [Life.Retry], and also retries failed rows. It refuses a scan without failed rows.
func (l *Life) RetryFailed(ctx context.Context, id ledger.ScanID) error {
	return l.retry(ctx, id, true, 0)
}

// retry begins the next attempt of a scan. The argument `attempt` is the attempt in the start request, or 0 if there is
// no start request. If the scan has a newer attempt, or the start request is gone, retry does nothing.
func (l *Life) retry(ctx context.Context, id ledger.ScanID, rows bool, attempt int64) error {
	s, retryable, err := l.mayRetry(ctx, id, rows, attempt)
	if err != nil || !retryable {
		return err
	}
	if attempt != 0 { // finds out whether a cancellation has withdrawn the request; if a cancellation follows this check, the write to the scan's row fails
		if a, found, err := l.ledger.StartRequest(ctx, id); err != nil || !found || a.Attempt != attempt {
			return err
		}
	}
	if s.Members > 0 {
		return l.retryGroup(ctx, s)
	}
	r, err := scans.ParseStored(s.Request)
	if err == nil { // otherwise, a newer version wrote the request, and the steps wait for an instance of that version
		if _, err := l.scans.Open(r); err != nil {
			return err
		}
	}
	var root *ledger.Pending
	var ahead scan.Outlook
	if rows {
		m := scans.Message{Scan: id, RowRetry: &scans.RowRetry{Attempt: s.Attempt + 1}}
		if err := m.Prepare(); err != nil {
			return err
		}
		p := m.Pending()
		root, ahead = &p, m.Ahead()
	}
	starting, cancel := context.WithTimeout(ctx, scans.StartTime)
	defer cancel()
	now, err := l.scans.Now(starting)
	if err != nil {
		return err
	}
	if err := l.ledger.Restart(starting, s, now, root, ahead); err != nil {
		return status.NotFound(id, err)
	}
	if err := l.sendPending(ctx, id, s); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Str("scan", string(id)).Msg("some messages were not sent; the function Maintain will send them")
	}
	return nil
}

// mayRetry reads a scan, and checks whether it can be retried. It reads only the ledger. If there is nothing to retry,
// `retryable` is false.
func (l *Life) mayRetry(ctx context.Context, id ledger.ScanID, rows bool, attempt int64) (s ledger.Scan, retryable bool, err error) {
	s, err = l.ledger.Scan(ctx, id)
	switch {
	case err != nil:
		return s, false, l.status.ExplainAbsent(ctx, id, err)
	case attempt != 0 && s.Attempt != attempt, s.State == ledger.Running, s.State == ledger.Succeeded && s.Attempt > 1:
		return s, false, nil
	case s.Members > 0 && s.State != ledger.Succeeded:
		if _, err = l.ledger.Group(ctx, id); errors.Is(err, ledger.ErrNotFound) {
			err = problem.Conflictf("id", "%s", groupLost)
		}
	default:
		err = l.retriable(ctx, s, rows)
	}
	return s, err == nil, err
}

func (l *Life) retriable(ctx context.Context, s ledger.Scan, rows bool) error {
	if s.LeftOut {
		return problem.Conflictf("id", "%s", status.WithoutTable)
	}
	if s.State == ledger.Succeeded {
		return problem.Conflictf("id", "the scan's state is %s; only a canceled or failed scan can be retried", s.State)
	}
	if group, _, member := s.ID.InGroup(); member {
		of, err := l.ledger.Scan(ctx, group)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
		if of.State != ledger.Running {
			return problem.Conflictf("id", "is a member of the group %s, and this group is not running; retry the group", group)
		}
	}
	found, err := l.ledger.Snapshot(ctx, s.ID)
	if err != nil {
		return err
	}
	if found.MissingRows != "" {
		return problem.Conflictf("id", "%s", found.MissingRows)
	}
	if rows {
		if found.Sums.Failed == 0 {
			return problem.Conflictf("rows", "the scan has no failed rows")
		}
		return nil
	}
	r, _ := scans.ParseStored(s.Request) // ignores the error for a request of a newer version, because an instance of that version checks the request
	pending, _ := found.Sums.Pending()
	switch {
	case s.State == ledger.Canceled || pending > 0:
	case found.Sums.Differences() > 0:
		return problem.Conflictf("id", "every step is done, and the comparison found %s; start a new scan to compare again", problem.Plural(found.Sums.Differences(), "difference"))
	case found.Sums.Failed > 0:
		return problem.Conflictf("id", "every step is done, but the scan has %s; remove the cause that the scan's error names, and retry these rows with the body {\"rows\":\"failed\"}", problem.Plural(found.Sums.Failed, "failed row"))
	case r.Exports():
		if _, err := l.exports.exportedFiles(ctx, s.ID, found.Sums.Written); errors.Is(err, errFilesLost) {
			return problem.Conflictf("id", "%v; start a new scan with another prefix", err)
		}
	}
	return nil
}

// sendPending sends the messages of all pending steps. If no step is pending, it ends the scan.
func (l *Life) sendPending(ctx context.Context, id ledger.ScanID, s ledger.Scan) error {
	r, err := scans.RequestOf(s)
	if err != nil {
		return err
	}
	g, sending := task.WithContext(ctx)
	g.SetLimit(retrySends)
	found := false
	send := func(steps []ledger.Pending) error {
		found = found || len(steps) > 0
		slots := make([]scans.Message, len(steps)) // if the scan has limits, the steps get new time slots, because their earlier time slots may have passed
		if err := l.scans.TakeSlots(ctx, r.Limits, id, int64(len(steps)), ledger.Totals{}, slots); err != nil {
			return err
		}
		for i, p := range steps {
			g.Go(func() error { return l.scans.SendAt(sending, id, p, slots[i].After) })
		}
		return sending.Err()
	}
	var limited []ledger.Pending // these steps take their slots in one call, so that the slots are consecutive
	err = l.ledger.EachPending(ctx, id, func(steps []ledger.Pending) error {
		if r.Limits == nil {
			return send(steps)
		}
		limited = append(limited, steps...)
		return nil
	})
	if err == nil && r.Limits != nil {
		err = send(limited)
	}
	if err := errors.Join(err, g.Wait()); err != nil || found {
		return err
	}
	_, err = l.Finish(ctx, id)
	return err
}
