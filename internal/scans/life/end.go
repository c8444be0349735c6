package life

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// endTime is the time limit for recording a scan's end and its hints.
const endTime = time.Minute

// end ends a running scan, and reports whether this call ended it.
func (l *Life) end(ctx context.Context, scan ledger.ScanID, as ledger.Ending) (bool, error) {
	now, err := l.scans.Now(ctx)
	if err != nil {
		return false, err
	}
	ended, err := l.ledger.End(ctx, scan, now, as)
	if ended && as.LeftOut {
		if err := l.exports.tidyExport(ctx, scan); err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Str("scan", string(scan)).Msg("the unfinished export of a left-out table was not deleted; the function Maintain will delete the export")
		}
	}
	if ended {
		l.afterEnd(ctx, scan)
	}
	return ended, err
}

// afterEnd starts scans that may have waited for the end of this scan. If this scan is a member, afterEnd starts the
// group's next member. For any other scan, afterEnd sends a message for each start request that was not refused, except
// the start requests of members.
func (l *Life) afterEnd(ctx context.Context, scan ledger.ScanID) {
	group, number, member := scan.InGroup()
	if !member {
		l.sendStarts(ctx)
		return
	}
	if err := l.advanceGroup(ctx, group, number); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Str("scan", string(group)).Msg("the group's next scan is not started; the function Maintain will start it")
	}
}

// EndIfDone ends the scan if no step is pending.
func (l *Life) EndIfDone(ctx context.Context, scan ledger.ScanID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	ended, err := l.Finish(ctx, scan)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("could not check whether the scan has ended; the function Maintain will check this")
	}
	if ended {
		zerolog.Ctx(ctx).Info().Msg("scan ended")
	}
}

// Finish ends the scan if no step is pending, and reports whether this call ended it. If it has ended the scan, it also
// saves hints for the next scan of the same rows. An export that cannot be completed fails.
func (l *Life) Finish(ctx context.Context, scan ledger.ScanID) (bool, error) {
	var unsealed error
	now, err := l.scans.Now(ctx)
	if err != nil {
		return false, err
	}
	ended, err := l.ledger.Finish(ctx, scan, now, func(s ledger.Listed) (as ledger.Ending, err error) {
		if unsealed = l.exports.seal(ctx, s); unsealed == nil {
			as, unsealed = l.endingOf(ctx, s)
		}
		if unsealed == nil {
			return as, l.requestVerification(ctx, s.Scan)
		}
		return as, unsealed
	})
	if unsealed != nil && !storage.Passing(unsealed) && problem.FateOf(unsealed) == problem.Retry {
		return l.end(ctx, scan, ledger.Ending{State: ledger.Failed, Error: incomplete(unsealed)})
	}
	if err != nil || !ended {
		return ended, err
	}
	if err := l.saveHints(ctx, scan); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("the hints for the next scan were not saved")
	}
	l.afterEnd(ctx, scan)
	return true, nil
}

func (l *Life) saveHints(ctx context.Context, id ledger.ScanID) error {
	o, err := l.scans.Load(ctx, id)
	if err != nil || o.HintsName() == "" {
		return err
	}
	var ends []scan.PageEnd
	err = l.ledger.Notes(ctx, id, func(note []byte) { ends = append(ends, scans.ParseNote(note)...) })
	if err != nil {
		return err
	}
	if b := scans.HintsOf(o.Request, ends); b != nil {
		return l.ledger.SaveHints(ctx, o.HintsName(), b)
	}
	return nil
}

// Cancel ends a running scan. Pending steps are kept, and their messages are dropped. After [scans.ScanTime], no step
// begins, and a running step sends only its commit. If the action is enqueue, a running step sends the remaining
// messages of its page before its commit. Requests that were already sent may complete. Cancel also withdraws a
// requested start or retry that has not begun.
func (l *Life) Cancel(ctx context.Context, id ledger.ScanID) error {
	as := ledger.Ending{State: ledger.Canceled}
	ended, err := l.end(ctx, id, as)
	absent, withdrawn := errors.Is(err, ledger.ErrNotFound), false
	switch {
	case absent:
		withdrawn, err = l.ledger.WithdrawStart(ctx, id)
	case err == nil && !ended:
		withdrawn, err = l.ledger.WithdrawRetry(ctx, id)
	}
	if err == nil && (absent || withdrawn) { // an instance may have begun the scan before the withdrawal
		ended, err = l.end(ctx, id, as)
	}
	if withdrawn && errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	l.scans.Loaded.Outdate(id, func(*scans.Loaded) bool { return true })
	if ended {
		l.cancelMembers(ctx, id)
	}
	if err != nil || ended {
		return l.status.ExplainAbsent(ctx, id, err)
	}
	s, err := l.ledger.Scan(ctx, id)
	switch {
	case err != nil || s.State == ledger.Canceled || withdrawn && s.State == ledger.Failed:
		return err // if the scan is already canceled, an earlier try of this request may have canceled it, because a host may repeat a request
	case s.State == ledger.Running: // another process has retried the scan
		return l.Cancel(ctx, id)
	}
	return problem.Conflictf("id", "the scan has already ended")
}
