package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/life"
	"tablesweep/internal/storage"
)

// failureTime is the time limit for recording a failure. It does not depend on the step's own time limit, which may
// have passed.
const failureTime = 30 * time.Second

// fatalOf returns the error that fails the scan, or nil if another delivery may succeed. If this is the message's last
// delivery, its error fails the scan, unless the storage was unavailable or the process had no memory left.
func fatalOf(err error, delivery int) *scans.FatalError {
	var fatal *scans.FatalError
	switch {
	case errors.As(err, &fatal):
		return fatal
	case problem.FateOf(err) != problem.Retry || delivery < scans.MaxDeliveries || storage.Passing(err) || errors.Is(err, errMemory):
		return nil
	}
	return scans.Fatal(fmt.Errorf("a step failed %d times; the last failure: %w", delivery, err))
}

// giveUp records that a delivery ended with an error that permits a retry. After the message's last delivery,
// giveUp also records the error. If the error does not permit a retry, giveUp does nothing.
func (s *Steps) giveUp(ctx context.Context, scan ledger.ScanID, p ledger.Pending, delivery int, err error) {
	var fatal *scans.FatalError
	if problem.FateOf(err) != problem.Retry || errors.As(err, &fatal) {
		return
	}
	reason := ""
	if delivery >= scans.MaxDeliveries {
		reason = scans.Shortened(err.Error())
	}
	if unrecorded(p, delivery) {
		p.FirstEnded = true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failureTime)
	defer cancel()
	if err := s.ledger.GiveUp(ctx, scan, p, reason); err != nil {
		zerolog.Ctx(ctx).Debug().Err(err).Msg("could not record the failed delivery of the step")
	}
}

func (s *Steps) failScan(ctx context.Context, m scans.Message, fatal *scans.FatalError) (report string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failureTime)
	defer cancel()
	as := ledger.Ending{State: ledger.Failed, Error: fatal.Error()}
	if errors.As(fatal, new(*life.GoneError)) {
		of, err := s.scans.Load(ctx, m.Scan)
		if err != nil {
			return "", errors.Join(fatal.Unwrap(), err)
		}
		as.LeftOut = life.LeavesOut(m.Scan, of.Request, fatal)
	}
	if err := s.life.FailIfPending(ctx, m.Scan, m.ID, as); err != nil {
		return "", errors.Join(fatal.Unwrap(), err)
	}
	zerolog.Ctx(ctx).Error().Err(fatal.Unwrap()).Msg("the scan failed; a retry of the scan repeats this step")
	return "scan failed: " + fatal.Error(), nil
}
