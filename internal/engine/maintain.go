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

	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

const (
	// unfinishedStart is the age from which on a listed scan without a record is
	// taken for one whose start failed. Starts give up long before, see startTime.
	unfinishedStart = 10 * time.Minute
	// drainTime is the time that poison queues are given.
	drainTime = time.Minute
	// poisonHidden is how long a poison message that is not ours stays hidden.
	poisonHidden = 10 * time.Minute
	// beatKept is the age from which on a beat is removed: its process has nothing in hand,
	// or is dead.
	beatKept = 10 * time.Minute
	// resends is the number of messages that are sent again at once.
	resends = 32
)

// Maintain completes what crashes have left, for every open scan: it sends the
// messages of pending steps again that were lost, ends scans whose end nobody
// noticed, and fails those with a step that can't be done. It may run at any time,
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
	var running []string
	for _, s := range open {
		runs, err := e.tidy(ctx, s)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("maintain scan %s: %w", s.ID, err))
		}
		if runs {
			running = append(running, s.ID)
		}
	}
	return errors.Join(errs, e.sendLost(ctx, running), e.tidyEnded(ctx), e.removeOld(ctx))
}

// tidy closes and forgets what has ended or never began, and reports whether the scan
// runs.
func (e *Engine) tidy(ctx context.Context, open ledger.OpenScan) (runs bool, err error) {
	s, err := e.ledger.Scan(ctx, open.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		if open.Age > unfinishedStart {
			return false, e.ledger.Forget(ctx, open)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch {
	case open.Attempt > s.Attempt: // about to be restarted
		if open.Age > unfinishedStart {
			return false, e.ledger.Close(ctx, open)
		}
		return false, nil
	case open.Attempt < s.Attempt || s.State != ledger.Running:
		return false, e.ledger.Close(ctx, open)
	}
	return true, nil
}

// sendLost looks for lost steps of the running scans, and sends them again.
func (e *Engine) sendLost(ctx context.Context, running []string) error {
	suspects, before, errs := e.look(ctx, running, nil)
	for range looks - 1 {
		if len(suspects) == 0 || ctx.Err() != nil {
			break
		}
		if !task.Sleep(ctx, lookTime) {
			return errors.Join(errs, ctx.Err())
		}
		missing, after, err := e.look(ctx, nil, suspects)
		errs = errors.Join(errs, err, e.resendLost(ctx, missing, before, after))
		// Who was too young to be told lost is looked at once more.
		suspects, before = slices.DeleteFunc(missing, func(s suspect) bool {
			return before.steps[s.step.ID].Age >= lookTime
		}), after
	}
	return errs
}

// suspect is a pending step that may be lost.
type suspect struct {
	scan, function string
	step           ledger.Pending // as it was seen last
}

// look looks at the pending steps of scans, or at suspects once more. It returns those that
// may be lost, and ends scans that have no pending step. What can't be read is left for
// the next time. Steps that are too young to be told lost are looked at no closer: in a
// scan that goes on, they will be committed soon.
func (e *Engine) look(ctx context.Context, scans []string, again []suspect) ([]suspect, look, error) {
	known := map[string]bool{}
	for _, s := range again {
		known[s.step.ID] = true
		if !slices.Contains(scans, s.scan) {
			scans = append(scans, s.scan)
		}
	}
	var errs error
	var all []suspect
	steps := map[string]ledger.Pending{}
	asked := map[string]bool{} // functions whose queue must be seen
	for _, id := range scans {
		pending, err := e.ledger.Pending(ctx, id)
		if err == nil && len(pending) == 0 && len(again) == 0 {
			_, err = e.finish(ctx, id)
		}
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("maintain scan %s: %w", id, err))
			continue
		}
		for _, p := range pending {
			m, err := parseMessage(p.Message)
			if err != nil || len(again) > 0 && !known[p.ID] {
				continue // a newer version's, which sends it by itself; or not asked for
			}
			steps[p.ID] = p
			all = append(all, suspect{id, m.function(), p})
			if p.Age >= lookTime {
				asked[m.function()] = true
			}
		}
	}
	waits := map[string]front{}
	for _, function := range slices.Sorted(maps.Keys(asked)) {
		messages, err := e.queues[function].Peek(ctx)
		if err != nil {
			return nil, look{}, errors.Join(errs, err)
		}
		waits[function] = newFront(messages)
	}
	seen := newLook(steps, nil, waits)
	all = slices.DeleteFunc(all, func(s suspect) bool {
		return asked[s.function] && !seen.missing(s.step.ID, s.function)
	})
	if !slices.ContainsFunc(all, func(s suspect) bool { return asked[s.function] }) {
		return all, seen, errs
	}
	beats, err := e.ledger.Beats(ctx)
	if err != nil {
		return nil, look{}, errors.Join(errs, err)
	}
	for _, b := range beats {
		if b.Age > beatKept {
			errs = errors.Join(errs, e.ledger.ForgetBeat(ctx, b))
		}
	}
	return all, newLook(steps, beats, waits), errs
}

// resendLost sends the steps again that two looks have shown to be lost.
func (e *Engine) resendLost(ctx context.Context, suspects []suspect, before, after look) error {
	g, ctx := task.WithContext(ctx)
	g.SetLimit(resends)
	for _, s := range suspects {
		if lost(before, after, s.step.ID, s.function) {
			g.Go(func() error { return e.resend(ctx, s) })
		}
	}
	return g.Wait()
}

// resend sends a lost step's message again, unless another has done so or the step was
// committed. A step that can't be done fails its scan instead.
func (e *Engine) resend(ctx context.Context, s suspect) error {
	reason := ""
	switch {
	case s.step.Begun >= MaxDeliveries-1:
		reason = diedOver(s.step.ID)
	case s.step.Lost > patience:
		reason = fmt.Sprintf("step %s was sent %d times in %v and never finished", s.step.ID, s.step.Sends+1, s.step.Lost.Round(time.Minute))
		if s.step.Reason != "" {
			reason += "; it failed at last with: " + s.step.Reason
		}
	}
	if reason != "" {
		return e.failIfPending(ctx, s.scan, s.step.ID, reason)
	}
	ours, err := e.ledger.Resending(ctx, s.scan, s.step)
	if err != nil || !ours {
		return err
	}
	if err := e.send(ctx, s.step.Step); err != nil {
		return err
	}
	zerolog.Ctx(ctx).Warn().Str("scan", s.scan).Str("step", s.step.ID).Dur("age", s.step.Age).Int("sends", s.step.Sends+1).Msg("message lost; sent again")
	return nil
}

// drainPoison takes messages out of the poison queues that the host gave up. Their steps
// are still pending, if they weren't done after all, and are sent again as lost ones are.
// Messages that are none of ours stay.
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
	var errs error
	for errs == nil {
		messages, err := q.Get(ctx, storage.MaxGetMessages, poisonHidden)
		if err != nil || len(messages) == 0 {
			return err
		}
		for _, got := range messages {
			body, err := base64.StdEncoding.DecodeString(got.Text)
			if err == nil {
				_, err = parseMessage(body)
			}
			if problem.FateOf(err) != problem.Done { // a newer version's goes as ours do
				zerolog.Ctx(ctx).Error().Str("queue", q.Name()).Str("message", got.ID).Err(err).Msg("poison message kept")
				continue
			}
			// One that can't be removed must not hide the others.
			if err := q.Delete(ctx, got); err != nil && !storage.NotFound(err) {
				errs = errors.Join(errs, err)
			}
		}
	}
	return errs
}

// failIfPending fails the scan unless the step was committed after all. The step is marked with the
// reason, so that it can be told which part of the table that is.
func (e *Engine) failIfPending(ctx context.Context, id, stepID, reason string) error {
	p, pending, err := e.ledger.Step(ctx, id, stepID)
	if err != nil || !pending {
		return err
	}
	ended, err := e.ledger.Fail(ctx, id, e.options.Now(), reason)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err != nil || !ended {
		return err
	}
	if err := e.ledger.GiveUp(ctx, id, p, reason[:min(len(reason), maxReason)]); err != nil {
		zerolog.Ctx(ctx).Debug().Err(err).Msg("could not mark the step that failed")
	}
	return nil
}
