package life

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/task"
)

const (
	// heartbeatKept is the age at which a heartbeat is removed. If a heartbeat is this old, its process is dead or holds no
	// step.
	heartbeatKept = 10 * time.Minute
	// resends is the maximum number of concurrent resends.
	resends = 32
)

// Upkeep completes work that crashes interrupted, and removes rows whose retention is over.
type Upkeep struct {
	scans  *scans.Scans
	life   *Life
	ledger *ledger.Ledger
	poison []*storage.Queue              // the host moves messages there after their last delivery
	keys   claim.Tidying                 // tidies claims of requests that start scans
	tidied atomic.Pointer[ledger.ScanID] // the ended scan that was tidied up last; if nil, the newest ended scan is tidied up next
}

// NewUpkeep returns an Upkeep for the given scans.
func NewUpkeep(of *scans.Scans, life *Life) (*Upkeep, error) {
	u := &Upkeep{scans: of, life: life, ledger: of.Ledger}
	for _, function := range scans.Functions {
		q, err := u.scans.Options.Own.Queue(scans.Queues[function] + scans.PoisonSuffix)
		if err != nil {
			return nil, err
		}
		u.poison = append(u.poison, q)
	}
	return u, nil
}

// Maintain completes work that crashes interrupted, and carries out start requests. For every open scan, it resends the
// messages of lost steps, ends the scan if no step is pending, and fails the scan if a step cannot be done. It may run
// at any time, and in several processes concurrently. After an error of one scan, it continues with the others.
func (u *Upkeep) Maintain(ctx context.Context) error {
	// A poison queue that does not answer must not use up Maintain's time.
	draining, cancel := context.WithTimeout(ctx, drainTime)
	errs := u.drainPoison(draining)
	cancel()
	open, err := u.ledger.Open(ctx)
	if err != nil {
		return errors.Join(errs, err)
	}
	var running []ledger.ScanID
	for _, s := range open {
		runs, err := u.tidy(ctx, s)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("maintain scan %s: %w", s.ID, err))
		}
		if runs {
			running = append(running, s.ID)
		}
	}
	return errors.Join(errs, u.startRequested(ctx), u.sendLost(ctx, running), u.tidyEnded(ctx), u.removeOld(ctx))
}

// sendLost resends the messages of lost steps of running scans. Two observations show whether a step is lost. If the
// previous run of Maintain died after its first observation, sendLost continues from that observation.
func (u *Upkeep) sendLost(ctx context.Context, running []ledger.ScanID) error {
	suspects, before, errs := u.observe(ctx, running, nil)
	suspects, err := u.continueFromLast(ctx, suspects, before)
	errs = errors.Join(errs, err)
	for range maxObservations - 1 {
		if len(suspects) == 0 || ctx.Err() != nil {
			break
		}
		if !task.Sleep(ctx, ObservationPause) {
			return errors.Join(errs, ctx.Err())
		}
		missing, after, err := u.observe(ctx, nil, suspects)
		errs = errors.Join(errs, err, u.resendLost(ctx, missing, before, after))
		// The next observation is for the steps that were too young at the first observation.
		suspects, before = slices.DeleteFunc(missing, func(s suspect) bool {
			return before.steps[s.seen.ID].Age >= ObservationPause
		}), after
	}
	return errs
}

// continueFromLast compares the stored observation with the latest one. If both observations show that a suspect step is
// lost, continueFromLast resends the step's message. It returns the suspects that are not lost. If the stored observation
// is at least ObservationPause old, continueFromLast replaces it by the latest observation. If every suspect is younger
// than ObservationPause, continueFromLast only returns the suspects.
func (u *Upkeep) continueFromLast(ctx context.Context, suspects []suspect, latest observation) ([]suspect, error) {
	keep := latest.toStore(suspects)
	if len(keep.Steps) == 0 {
		return suspects, nil
	}
	last, err := u.ledger.LastObservation(ctx)
	if err != nil {
		return suspects, err
	}
	before := observationOf(last, suspects)
	// A stored observation that is younger than ObservationPause stays. If every run of Maintain replaced it and then died
	// within seconds, no stored observation would become old enough.
	if at := suspects[0].seen; at.At.Add(at.Age).Sub(last.At) >= ObservationPause {
		err = u.ledger.WriteObservation(ctx, keep)
	}
	err = errors.Join(err, u.resendLost(ctx, suspects, before, latest))
	return slices.DeleteFunc(suspects, func(s suspect) bool { return lost(before, latest, s.seen.ID, s.Function()) }), err
}

// suspect is a pending step that may be lost.
type suspect struct {
	scans.Message
	seen ledger.Pending
}

// observe returns those pending steps of the given scans that may be lost. If the caller passes suspects of an earlier
// observation, observe checks only these suspects. A healthy scan commits young steps soon. So if all steps of a
// function are younger than ObservationPause, observe does not peek into the function's queue.
func (u *Upkeep) observe(ctx context.Context, scans []ledger.ScanID, again []suspect) ([]suspect, observation, error) {
	all, errs := u.pendingSteps(ctx, scans, again)
	steps, waits := map[ledger.StepID]ledger.Pending{}, map[string]front{}
	for _, s := range all {
		steps[s.seen.ID] = s.seen
		function := s.Function()
		if _, peeked := waits[function]; peeked || s.seen.Age < ObservationPause {
			continue
		}
		messages, err := u.scans.Queues[function].Peek(ctx)
		if err != nil {
			return nil, observation{}, errors.Join(errs, err)
		}
		waits[function] = newFront(messages)
	}
	peeked := func(s suspect) bool { _, ok := waits[s.Function()]; return ok }
	seen := newObservation(steps, nil, waits)
	all = slices.DeleteFunc(all, func(s suspect) bool { return peeked(s) && !seen.missing(s.seen.ID, s.Function()) })
	if !slices.ContainsFunc(all, peeked) {
		return all, seen, errs
	}
	heartbeats, err := u.ledger.Heartbeats(ctx)
	if err != nil {
		return nil, observation{}, errors.Join(errs, err)
	}
	for _, b := range heartbeats {
		if b.Age > heartbeatKept {
			errs = errors.Join(errs, u.ledger.ForgetHeartbeat(ctx, b))
		}
	}
	return all, newObservation(steps, heartbeats, waits), errs
}

// pendingSteps reads the pending steps of scans, and ends scans that have none. The argument `again` lists the suspects of
// an earlier observation. If `again` is not empty, pendingSteps returns only the steps of these suspects, and does not end
// scans. If a scan cannot be read, pendingSteps skips the scan, and returns the error.
func (u *Upkeep) pendingSteps(ctx context.Context, ids []ledger.ScanID, again []suspect) (steps []suspect, errs error) {
	known := map[ledger.StepID]bool{}
	for _, s := range again {
		known[s.seen.ID] = true
		if !slices.Contains(ids, s.Scan) {
			ids = append(ids, s.Scan)
		}
	}
	for _, id := range ids {
		pending, err := u.ledger.FirstPending(ctx, id)
		if err == nil && len(pending) == 0 && len(again) == 0 {
			_, err = u.life.Finish(ctx, id)
		}
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("maintain scan %s: %w", id, err))
			continue
		}
		for _, p := range pending {
			m, err := scans.ParseMessage(p.Message)
			if err != nil || len(again) > 0 && !known[p.ID] || p.Age < 0 {
				continue // the message has a newer version, the step is not in `again`, or the step waits for its time slot
			}
			steps = append(steps, suspect{m, p})
		}
	}
	return steps, errs
}

func (u *Upkeep) resendLost(ctx context.Context, suspects []suspect, before, after observation) error {
	g, ctx := task.WithContext(ctx)
	g.SetLimit(resends)
	for _, s := range suspects {
		if lost(before, after, s.seen.ID, s.Function()) {
			g.Go(func() error { return u.resend(ctx, s) })
		}
	}
	return g.Wait()
}

// resend resends a lost step's message, unless another process has done so or the scan has ended. If the step cannot be
// done, resend fails the scan.
func (u *Upkeep) resend(ctx context.Context, s suspect) error {
	if err := u.scans.MayProceed(ctx, s.Scan); err != nil {
		if problem.FateOf(err) == problem.Done {
			return nil
		}
		return err
	}
	if reason := hopeless(s.seen); reason != nil {
		return u.life.FailIfPending(ctx, s.Scan, s.seen.ID, ledger.Ending{State: ledger.Failed, Error: reason.Error()})
	}
	ours, err := u.ledger.Resending(ctx, s.Scan, s.seen)
	if err != nil || !ours {
		return err
	}
	if err := u.scans.Send(ctx, s.Message); err != nil {
		return err
	}
	zerolog.Ctx(ctx).Warn().Str("scan", string(s.Scan)).Str("step", string(s.seen.ID)).Dur("age", s.seen.Age).Int("sends", s.seen.Sends+1).Msg("a step's message was lost, and has been sent again")
	return nil
}

// startRequested carries out start requests, and removes old refusals. After an error of one request, it continues with the
// others.
func (u *Upkeep) startRequested(ctx context.Context) error {
	all, err := u.ledger.StartRequests(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startsTime)
	defer cancel()
	errs := make([]error, len(all))
	var g task.Group
	g.SetLimit(concurrentStarts)
	for i, a := range all {
		g.Go(func() error {
			errs[i] = u.life.tryStart(ctx, a)
			return nil
		})
	}
	_ = g.Wait() // errors are in errs
	return errors.Join(errs...)
}
