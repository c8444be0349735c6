package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"tablesweep/internal/app/envelope"
	"tablesweep/internal/task"
)

// lateness is the delay above which a timer counts as past due.
const lateness = time.Second

// The time between two renewals of a lease, and the shorter time after a failure.
const (
	renewal   = timerLease / 4
	soonAgain = renewal / 3
)

// timer runs one function's schedule for all instances of the host. Of all hosts on a storage account, only one runs the timer. The function's runs never
// overlap.
type timer struct {
	host     *Host
	function hosted
	lease    *lease

	// state contains the schedule's state. While a goroutine writes the state to the lease, the channel is empty, so
	// that other goroutines wait. Two concurrent writes would look like the writes of two hosts.
	state chan envelope.Status
}

// keepTimer fires one function's timer until ctx ends. The function's runs end when the context work ends.
func (h *Host) keepTimer(ctx, work context.Context, f hosted) {
	t := &timer{
		host: h, function: f, state: make(chan envelope.Status, 1),
		lease: &lease{table: h.own.Table(timerTable), name: f.Name, holder: h.id},
	}
	log := h.options.Log.With().Str("function", f.Name).Logger()
	t.state <- envelope.Status{}
	for ctx.Err() == nil {
		status, err := t.lease.take(ctx, nil)
		switch {
		case errors.Is(err, errHeld):
			log.Debug().Msg("another host runs the timer")
			task.Sleep(ctx, timerLease)
			continue
		case err != nil && ctx.Err() == nil:
			log.Warn().Err(err).Msg("cannot get the timer's lease")
			task.Sleep(ctx, h.options.Times.Pause)
			continue
		}
		log.Debug().Msg("this host runs the timer")
		holding, lost := context.WithCancel(ctx)
		var renewing sync.WaitGroup
		renewing.Go(func() {
			defer lost()
			t.renew(holding)
		})
		t.fireAll(holding, work, status)
		renewing.Wait()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(work), settling)
	defer cancel()
	if err := t.lease.release(last, <-t.state); err != nil && !errors.Is(err, errHeld) {
		log.Debug().Err(err).Msg("the timer's lease was not released; it will expire")
	}
}

// renew renews the lease until ctx ends or another host has the lease. It keeps trying while storage is unavailable.
func (t *timer) renew(ctx context.Context) {
	for pause := renewal; task.Sleep(ctx, pause); {
		err := t.record(ctx, nil)
		if errors.Is(err, errHeld) {
			return
		}
		pause = renewal
		if err != nil {
			pause = soonAgain
		}
	}
}

// keep stores the schedule's state for the next holder of the lease. Like the real host, the timer stores the state at
// the start and after each run, and waits until the state is stored. (TimerListener and StorageScheduleMonitor of the
// WebJobs SDK)
func (t *timer) keep(ctx context.Context, status envelope.Status) {
	for t.record(ctx, &status) != nil && task.Sleep(ctx, t.host.options.Times.Pause) {
	}
}

// record renews the lease and stores the schedule's state in it: *changed, or the current state if `changed` is nil.
func (t *timer) record(ctx context.Context, changed *envelope.Status) error {
	status := <-t.state
	defer func() { t.state <- status }()
	if changed != nil {
		status = *changed
	}
	ctx, cancel := context.WithTimeout(ctx, soonAgain)
	defer cancel()
	_, err := t.lease.take(ctx, &status)
	return err
}

// fireAll fires the timer until ctx ends. If a scheduled time passed while no host ran the timer, the timer fires
// immediately.
func (t *timer) fireAll(ctx, work context.Context, status envelope.Status) {
	schedule := t.function.schedule
	// Round removes the reading of the monotonic clock, which stops while the machine sleeps.
	now := time.Now().Round(0)
	if status.Next.IsZero() {
		status.Next = schedule.Next(now)
	}
	for free := (time.Time{}); ; { // the end of the last run
		t.keep(ctx, status)
		for wait := time.Until(status.Next); wait > 0 && ctx.Err() == nil; wait = time.Until(status.Next) {
			task.Sleep(ctx, min(wait, 10*time.Second))
		}
		if ctx.Err() != nil {
			return
		}
		now = time.Now().Round(0)
		due := status.Next
		if free.After(due) {
			due = free // the times that passed during the last run cause only one run
		}
		t.fire(work, status, now.Sub(due) > lateness)
		status = envelope.Status{Last: now, Next: schedule.Next(now), Updated: now}
		free = time.Now().Round(0)
	}
}

// fire runs a timer's function on one instance. Failures do not stop the schedule.
func (t *timer) fire(ctx context.Context, status envelope.Status, pastDue bool) {
	v := t.host.pick().newInvocation(t.function)
	_, _ = v.invoke(ctx, envelope.Timer(t.function.Name, status, pastDue)) // it logs failures
}
