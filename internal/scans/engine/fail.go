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

// maxReason bounds the reason that is kept with a step or a row, in bytes.
const maxReason = 2000

// fatalError is an error that no repetition mends. It fails the scan.
type fatalError struct{ error }

func (f *fatalError) Unwrap() error { return f.error }

func fatalIfPermanent(what string, err error) error {
	if !errors.As(err, new(*fatalError)) && storage.Permanent(err) {
		return &fatalError{fmt.Errorf("%s: %w", what, err)}
	}
	return err
}

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

// diedOver is why a scan fails whose step has ended MaxDeliveries processes. The first
// delivery isn't recorded. It counts unless it is known to have ended.
func diedOver(step string) error {
	return fmt.Errorf("step %s was begun %d times and never finished: the handler died or ran out of time each time", step, MaxDeliveries)
}

// hopeless returns why a lost step cannot be done, or nil if its message is worth sending again.
func hopeless(p ledger.Pending) error {
	switch {
	case p.Deaths() >= MaxDeliveries:
		return diedOver(p.ID)
	case p.Lost <= maxLost:
		return nil
	}
	sent := fmt.Sprintf("step %s was sent %d times in %v and never finished", p.ID, p.Sends+1, p.Lost.Round(time.Minute))
	if p.Reason != "" {
		sent += "; it failed at last with: " + p.Reason
	}
	return errors.New(sent)
}

// giveUp records that a delivery ended with an error, and the process lives on. With the last delivery of a message
// it also records why. It does nothing without an error, nor for an error that ends the step for good.
func (e *Engine) giveUp(ctx context.Context, scan string, p ledger.Pending, delivery int, err error) {
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
	if err := e.ledger.GiveUp(ctx, scan, p, reason); err != nil {
		zerolog.Ctx(ctx).Debug().Err(err).Msg("could not record that the step was given up")
	}
}

func shortened(reason string) string { return reason[:min(len(reason), maxReason)] }

// failScan ends the scan of a step that cannot be done. It has time of its own: the step's may be up.
func (e *Engine) failScan(ctx context.Context, m message, fatal *fatalError) (report string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwork)
	defer cancel()
	as := ledger.Ending{State: ledger.Failed, Error: fatal.Error()}
	if errors.As(fatal, new(*goneError)) {
		s, err := e.load(ctx, m.Scan)
		if err != nil {
			return "", errors.Join(fatal.error, err)
		}
		as.LeftOut = leavesOut(m.Scan, s.request, fatal)
	}
	if err := e.failIfPending(ctx, m.Scan, m.id, as); err != nil {
		return "", errors.Join(fatal.error, err)
	}
	zerolog.Ctx(ctx).Error().Err(fatal.error).Msg("scan failed; the step is kept")
	return "scan failed: " + fatal.Error(), nil
}

// failIfPending fails the scan unless the step was committed after all. The step keeps the reason, for the ranges.
func (e *Engine) failIfPending(ctx context.Context, scan, step string, as ledger.Ending) error {
	p, pending, err := e.ledger.Pending(ctx, scan, step)
	if err != nil || !pending {
		return err
	}
	ended, err := e.end(ctx, scan, as)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err != nil || !ended {
		return err
	}
	if err := e.ledger.GiveUp(ctx, scan, p, shortened(as.Error)); err != nil {
		zerolog.Ctx(ctx).Debug().Err(err).Msg("could not mark the step that failed")
	}
	return nil
}
