package engine

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/ledger"
	"tablesweep/internal/storage"
)

const (
	// lostIfIdle is the age from which on a pending step's message counts as
	// lost if its queue is empty.
	lostIfIdle = time.Minute
	// lostIfBusy is the age from which on it counts as lost whatever the queue
	// holds: the host hides a message for 10 minutes when it delivers it, and
	// that long if the instance dies. It doubles with each time the message is sent again, so
	// that a long queue isn't filled with copies.
	lostIfBusy = 12 * time.Minute
	// unfinishedStart is the age from which on a listed scan without a record is
	// taken for one whose start failed. Starts give up long before, see startTime.
	unfinishedStart = 10 * time.Minute
	// drainTime is the time that poison queues are given.
	drainTime = time.Minute
	// poisonHidden is how long a poison message that is not ours stays hidden.
	poisonHidden = 10 * time.Minute
)

// Maintain completes what crashes have left, for every open scan: it sends the
// messages of pending steps again that were lost, ends scans whose end nobody
// noticed, and fails those whose message the host gave up. It may run at any time,
// several times at once; an error of one scan doesn't keep it from the others.
func (e *Engine) Maintain(ctx context.Context) error {
	// A poison queue that does not answer must not take all the time.
	draining, cancel := context.WithTimeout(ctx, drainTime)
	errs := e.drainPoison(draining)
	cancel()
	open, err := e.ledger.Open(ctx)
	if err != nil {
		return errors.Join(errs, err)
	}
	idle := map[string]bool{} // by function; asked once
	for _, s := range open {
		if err := e.maintainScan(ctx, s, idle); err != nil {
			errs = errors.Join(errs, fmt.Errorf("maintain scan %s: %w", s.ID, err))
		}
	}
	return errs
}

func (e *Engine) maintainScan(ctx context.Context, open ledger.OpenScan, idle map[string]bool) error {
	s, err := e.ledger.Scan(ctx, open.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		if open.Age > unfinishedStart {
			return e.ledger.Forget(ctx, open.ID)
		}
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case open.Attempt > s.Attempt: // about to be restarted
		if open.Age > unfinishedStart {
			return e.ledger.Close(ctx, open)
		}
		return nil
	case open.Attempt < s.Attempt || s.State != ledger.Running:
		return e.ledger.Close(ctx, open)
	}
	pending, err := e.ledger.Pending(ctx, s.ID)
	if err != nil {
		return err
	}
	if len(pending) == 0 {
		_, err := e.finish(ctx, s.ID)
		return err
	}
	for _, p := range pending {
		if _, err := parseMessage(p.Message); err != nil { // another version's
			_, err = e.ledger.Fail(ctx, s.ID, e.options.Now(), fmt.Sprintf("step %s can't be gone on with: %v", p.ID, err))
			return err
		}
		lost, err := e.lost(ctx, p, idle)
		if err != nil {
			return err
		}
		if !lost {
			continue
		}
		sent, err := e.resend(ctx, s.ID, p, p.Sends+1)
		if err != nil {
			return err
		}
		if sent {
			zerolog.Ctx(ctx).Warn().Str("scan", s.ID).Str("step", p.ID).Dur("age", p.Age).Msg("message lost; sent again")
		}
	}
	return nil
}

// resend sends a pending step's message again, unless another has done so or the
// step was committed.
func (e *Engine) resend(ctx context.Context, id string, p ledger.Pending, sends int) (bool, error) {
	ours, err := e.ledger.Resending(ctx, id, p, sends)
	if err != nil || !ours {
		return false, err
	}
	return true, e.send(ctx, p.Step)
}

// lost reports whether a pending step's message must be taken for lost.
func (e *Engine) lost(ctx context.Context, p ledger.Pending, idle map[string]bool) (bool, error) {
	if p.Age > lostIfBusy<<min(p.Sends, 6) {
		return true, nil
	}
	if p.Age < lostIfIdle {
		return false, nil
	}
	m, err := parseMessage(p.Message)
	if err != nil {
		return false, err
	}
	empty, asked := idle[m.function()]
	if !asked {
		n, err := e.queues[m.function()].Length(ctx)
		if err != nil {
			return false, err
		}
		empty = n == 0
		idle[m.function()] = empty
	}
	return empty, nil
}

// drainPoison fails the scans whose messages the host gave up without our having
// recorded why: the process died each time. Messages that are none of ours stay.
func (e *Engine) drainPoison(ctx context.Context) error {
	var errs error
	for _, name := range slices.Sorted(maps.Values(Queues)) {
		q, err := e.options.Own.Queue(name + "-poison")
		if err != nil {
			return err
		}
		if err := e.drain(ctx, q); err != nil && !storage.NotFound(err) {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

func (e *Engine) drain(ctx context.Context, q *storage.Queue) error {
	for {
		messages, err := q.Get(ctx, storage.MaxGetMessages, poisonHidden)
		if err != nil || len(messages) == 0 {
			return err
		}
		for _, got := range messages {
			var m message
			body, err := base64.StdEncoding.DecodeString(got.Text)
			if err == nil {
				m, err = parseMessage(body)
			}
			if err != nil {
				zerolog.Ctx(ctx).Error().Str("queue", q.Name()).Str("message", got.ID).Err(err).Msg("poison message kept")
				continue
			}
			reason := fmt.Sprintf("step %s was delivered %d times and never finished: the handler died or ran out of time each time", stepID(body), MaxDeliveries)
			if err := e.failIfPending(ctx, m.Scan, stepID(body), reason); err != nil {
				return err
			}
			if err := q.Delete(ctx, got); err != nil && !storage.NotFound(err) {
				return err
			}
		}
	}
}

// failIfPending fails the scan unless the step was committed after all.
func (e *Engine) failIfPending(ctx context.Context, id, stepID, reason string) error {
	pending, err := e.ledger.IsPending(ctx, id, stepID)
	if err != nil || !pending {
		return err
	}
	_, err = e.ledger.Fail(ctx, id, e.options.Now(), reason)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	return err
}
