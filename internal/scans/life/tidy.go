package life

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/stream/claim"
)

const (
	// unfinishedStart is the age at which a listed scan without a record counts as a failed start. Starts end within
	// [scans.StartTime].
	unfinishedStart = 10 * time.Minute
	// wholeTime is the time from a scan's end until its done steps are folded into one row.
	wholeTime = 24 * time.Hour
	// These constants limit the work of one run of Maintain. removeReads is greater than removeScans, because running scans
	// and scans of another version are read, but not removed.
	tidyScans    = 10
	removeReads  = 100
	removeScans  = 10
	removeWrites = 50
)

// tidy reports whether a scan is running. If the scan has ended or never began, tidy removes it from the list of open
// scans.
func (u *Upkeep) tidy(ctx context.Context, open ledger.OpenScan) (runs bool, err error) {
	s, err := u.ledger.Scan(ctx, open.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		if open.Age > unfinishedStart {
			return false, u.ledger.Forget(ctx, open)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch {
	case open.Attempt > s.Attempt: // about to be restarted
		if open.Age > unfinishedStart {
			return false, u.ledger.MoveToEnded(ctx, open)
		}
		return false, nil
	case open.Attempt < s.Attempt || s.State != ledger.Running:
		return false, u.ledger.MoveToEnded(ctx, open)
	case s.Members > 0:
		return false, u.life.advanceGroup(ctx, s.ID, 0)
	}
	if s.ID.IsMember() {
		switch of, err := u.scans.Load(ctx, s.ID); {
		case errors.Is(err, ledger.ErrNotFound):
			_, err = u.life.end(ctx, s.ID, ledger.Ending{State: ledger.Failed, Error: ledger.RowsLost + "the row of the scan's group; somebody has deleted the row. Start a new scan"})
			return false, err
		case err == nil && of.State != ledger.Running: // the group was canceled, or a late process began this scan after the group's end
			as := ledger.Ending{State: ledger.Canceled}
			if of.State == ledger.Succeeded {
				as = ledger.Ending{State: ledger.Failed, Error: "the scan's group has ended without this scan", LeftOut: true}
			}
			_, err = u.life.end(ctx, s.ID, as)
			return false, err
		}
	}
	return true, nil
}

// tidyEnded handles the next page of the list of ended scans. It adds the final figures of canceled and failed scans to
// the list of all scans. If a scan's row in the list of ended scans was last written at least wholeTime ago, tidyEnded
// also folds the rows of the scan's done steps into one row.
func (u *Upkeep) tidyEnded(ctx context.Context) error {
	behind := ledger.ScanID("")
	if last := u.tidied.Load(); last != nil {
		behind = *last
	}
	ended, more, err := u.ledger.Ended(ctx, behind)
	if err != nil {
		return err
	}
	switch {
	case !more:
		u.tidied.Store(nil)
	case len(ended) > 0: // a page may be empty even if more pages follow
		u.tidied.Store(&ended[len(ended)-1].ID)
	}
	var errs error
	done := 0
	for _, s := range ended {
		var err error
		switch {
		case done == tidyScans:
			return errs
		case s.Age >= ledger.SettleTime && !s.Settled:
			err = u.ledger.Settle(ctx, s)
		case s.Age >= wholeTime:
			var whole bool
			if err = u.life.exports.tidyExport(ctx, s.ID); err != nil {
				break
			}
			if whole, err = u.ledger.FoldAll(ctx, s.ID, scans.JoinNotes); err == nil && whole {
				err = u.ledger.DropEnded(ctx, s)
			}
		default:
			continue
		}
		done++
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("tidy up scan %s: %w", s.ID, err))
		}
	}
	return errs
}

// removeOld removes some of the scans whose retention is over. Later runs of Maintain remove the others.
func (u *Upkeep) removeOld(ctx context.Context) error {
	age := u.scans.Options.Retention
	now, err := u.scans.Now(ctx)
	if err != nil {
		return err
	}
	old, err := u.ledger.Outdated(ctx, now, age, removeReads)
	if err != nil {
		return err
	}
	var errs error
	writes, removed := 0, 0
	for _, id := range old {
		if writes >= removeWrites || removed == removeScans {
			break
		}
		made, err := u.ledger.Remove(ctx, id, now, age, removeWrites-writes)
		writes += made
		if made > 0 {
			removed++
		}
		errs = errors.Join(errs, err)
	}
	return errors.Join(errs, u.keys.Due(now, func() error { return u.forgetKeys(ctx, now) }))
}

// claims returns the claims of requests that start scans. A claim's field Answer contains the scan's id.
func (l *Life) claims() claim.Claims {
	return claim.Claims{Table: l.scans.Options.Own.Table(l.scans.Options.StateTable), Partition: ledger.ListsPartition}
}

// forgetKeys removes the claims of scans that were removed or never began.
func (u *Upkeep) forgetKeys(ctx context.Context, now time.Time) error {
	claims := u.life.claims()
	return claims.Outdated(ctx, now, u.scans.Options.Retention, func(old claim.Claim) error {
		if _, err := u.ledger.Scan(ctx, ledger.ScanID(old.Answer)); !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
		return claims.Release(ctx, old)
	})
}
