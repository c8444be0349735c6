package host

import (
	"context"
	"time"

	"tablesweep/internal/host/app"
	"tablesweep/internal/host/envelope"
)

// lateness is how late a timer may fire before its function is told that it is
// past due. The real host tells it after a restart; here it happens when the machine
// has slept.
const lateness = time.Second

// keepTimer fires one function's timer until ctx ends. There is one for the whole
// host, whatever the number of instances, and it never runs twice at a time: so the
// real host's singleton lock has it.
func (h *Host) keepTimer(ctx context.Context, f app.Function) {
	t := f.Timer
	// Without Round, Go would count running time only, and the machine may sleep.
	now := time.Now().Round(0)
	status := envelope.Status{Next: t.Schedule.Next(now)}
	if t.RunOnStartup {
		h.fire(ctx, f, status, false)
		status = envelope.Status{Last: now, Next: t.Schedule.Next(now), Updated: now}
	}
	for {
		free := time.Now().Round(0) // of the run before
		for wait := time.Until(status.Next); wait > 0 && ctx.Err() == nil; wait = time.Until(status.Next) {
			sleep(ctx, min(wait, 10*time.Second))
		}
		if ctx.Err() != nil {
			return
		}
		now = time.Now().Round(0)
		due := status.Next
		if free.After(due) {
			due = free // times that fell into the run before come to one run now
		}
		h.fire(ctx, f, status, now.Sub(due) > lateness)
		status = envelope.Status{Last: now, Next: t.Schedule.Next(now), Updated: now}
	}
}

// fire runs a timer's function on one instance. Failures don't stop the schedule.
func (h *Host) fire(ctx context.Context, f app.Function, status envelope.Status, pastDue bool) {
	v := h.pick().newInvocation(f)
	known := &status
	if !f.Timer.UseMonitor {
		known = nil
	}
	_, _ = v.invoke(ctx, envelope.Timer(v.envelope(), f.Timer.Schedule.Interval(), known, pastDue)) // logs its failure
}
