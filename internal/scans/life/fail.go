package life

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
)

// DiedOver returns the error of a scan that fails because a step has killed MaxDeliveries processes.
func DiedOver(step ledger.StepID) error {
	return fmt.Errorf("step %s was begun %d times and never finished: each time, the handler died or ran out of time", step, scans.MaxDeliveries)
}

// hopeless returns why a lost step cannot be done, or nil if it should be resent.
func hopeless(p ledger.Pending) error {
	switch {
	case p.Deaths() >= scans.MaxDeliveries:
		return DiedOver(p.ID)
	case p.Lost <= maxLost:
		return nil
	}
	sent := fmt.Sprintf("step %s was sent %d times in %v and never finished", p.ID, p.Sends+1, p.Lost.Round(time.Minute))
	if p.Reason != "" {
		sent += "; the last failure: " + p.Reason
	}
	return errors.New(sent)
}

// FailIfPending fails the scan if the step is still pending, and records the reason in the step's row, so that the
// step's range is shown as failed.
func (l *Life) FailIfPending(ctx context.Context, scan ledger.ScanID, step ledger.StepID, as ledger.Ending) error {
	p, pending, err := l.ledger.Pending(ctx, scan, step)
	if err != nil || !pending {
		return err
	}
	ended, err := l.end(ctx, scan, as)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err != nil || !ended {
		return err
	}
	if err := l.ledger.GiveUp(ctx, scan, p, scans.Shortened(as.Error)); err != nil {
		zerolog.Ctx(ctx).Debug().Err(err).Msg("could not record the failure in the step's row")
	}
	return nil
}
