package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/problem"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// fatalOf returns the error that fails the scan, or nil if another delivery may succeed. The last
// delivery's error fails it, except when the storage was away, or memory was short.
func fatalOf(err error, delivery int) *fatalError {
	var fatal *fatalError
	switch {
	case errors.As(err, &fatal):
		return fatal
	case problem.FateOf(err) != problem.Retry || delivery < MaxDeliveries || storage.Passing(err) || errors.Is(err, errMemory):
		return nil
	}
	return &fatalError{fmt.Errorf("a step failed %d times, at last with: %w", delivery, err)}
}

// giveUp records that a delivery ended with an error, and the process lives on. With the last delivery of a message
// it also records why. It does nothing without an error, nor for an error that ends the step for good.
func (s *Steps) giveUp(ctx context.Context, scan string, p ledger.Pending, delivery int, err error) {
	var fatal *fatalError
	if problem.FateOf(err) != problem.Retry || errors.As(err, &fatal) {
		return
	}
	reason := ""
	if delivery >= MaxDeliveries {
		reason = shortened(err.Error())
	}
	if unrecorded(p, delivery) {
		p.FirstEnded = true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwork)
	defer cancel()
	if err := s.ledger.GiveUp(ctx, scan, p, reason); err != nil {
		zerolog.Ctx(ctx).Debug().Err(err).Msg("could not record that the step was given up")
	}
}

// failScan ends the scan of a step that cannot be done. It has time of its own: the step's may be up.
func (s *Steps) failScan(ctx context.Context, m message, fatal *fatalError) (report string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwork)
	defer cancel()
	as := ledger.Ending{State: ledger.Failed, Error: fatal.Error()}
	if errors.As(fatal, new(*goneError)) {
		of, err := s.scans.load(ctx, m.Scan)
		if err != nil {
			return "", errors.Join(fatal.Unwrap(), err)
		}
		as.LeftOut = leavesOut(m.Scan, of.request, fatal)
	}
	if err := s.life.failIfPending(ctx, m.Scan, m.id, as); err != nil {
		return "", errors.Join(fatal.Unwrap(), err)
	}
	zerolog.Ctx(ctx).Error().Err(fatal.Unwrap()).Msg("scan failed; the step is kept")
	return "scan failed: " + fatal.Error(), nil
}

const afterwork = 30 * time.Second // to record a failure when a step's time is up
