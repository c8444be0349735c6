package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/app/envelope"
	"tablesweep/internal/task"
)

// pick returns one of the running machines, or nil.
func (w *world) pick(what ...string) *machine {
	var standing []*machine
	for _, p := range w.slots {
		if m := p.machine.Load(); m != nil {
			standing = append(standing, m)
		}
	}
	if len(standing) == 0 {
		return nil
	}
	return standing[draw(w.plan.Seed, append(what, time.Since(w.start).String())...)%uint64(len(standing))]
}

// timerLease is how long a timer's lease remains after its host is lost. Until the lease ends, the timer does not fire. (azure-webjobs-sdk, SingletonManager)
const timerLease = time.Minute

// keepTime fires the timer of Maintain every minute, on the machine that holds the timer's
// lease. As in the host, the next run waits for the end of the last one unless its
// machine is lost. If the plan lets runs overlap, it does not wait.
func (w *world) keepTime() {
	var last <-chan error
	holder := w.first()
	var lapse time.Time // the end of the lease of a holder that was lost
	for minute := 1; task.Sleep(w.over, time.Until(w.start.Add(time.Duration(minute)*time.Minute))); minute++ {
		if holder != nil && holder.gone.Err() != nil {
			if at := holder.lost.Load(); at != nil {
				lapse = at.Add(timerLease)
			}
			holder, last = nil, nil
		}
		if holder == nil && time.Now().After(lapse) {
			holder = w.pick("timer")
		}
		if last != nil && !w.plan.Overlap {
			select {
			case <-last:
			default:
				continue
			}
		}
		if holder != nil {
			w.holder.Store(holder)
			last = holder.invoke("Maintain", envelope.Timer("Maintain", envelope.Status{}, false), "timer "+strconv.Itoa(minute))
		}
	}
}

// first returns the machine that is the first to hold the timer's lease, as soon as it runs.
func (w *world) first() *machine {
	for task.Sleep(w.over, time.Millisecond) {
		if m := w.slots[w.plan.Holder].machine.Load(); m != nil {
			w.holder.Store(m)
			return m
		}
	}
	return nil
}

// blackout loses all machines at the same time. Later, a single machine starts.
func (w *world) blackout() {
	if w.plan.Blackout == 0 || !task.Sleep(w.over, w.plan.Blackout) {
		return
	}
	w.dark.Store(true)
	w.log.Info().Msg("blackout")
	for _, p := range w.slots {
		if m := p.machine.Load(); m != nil {
			m.end()
		}
	}
	task.Sleep(w.over, w.plan.Darkness)
	if w.plan.Cleared {
		w.clearQueues()
	}
	close(w.lights)
}

// wait waits for the end of the blackout, and reports whether the slot gets a machine again. Only the first slot gets one.
func (p *slot) wait() bool {
	if p.number > 0 {
		return false
	}
	select {
	case <-p.lights:
		return true
	case <-p.over.Done():
		return false
	}
}

// outages adds each outage's rules to the faults during the outage.
func (w *world) outages() {
	for i, o := range w.plan.Outages {
		w.group.Go(func() {
			<-w.started // outages begin after the starts, because a start reads the source
			if !task.Sleep(w.over, o.From) {
				return
			}
			w.outage(i, true)
			end := time.Now().Add(o.For)
			for w.over.Err() == nil && (time.Now().Before(end) || o.UntilFailed && !w.failed.Load()) {
				task.Sleep(w.over, 10*time.Second)
			}
			w.outage(i, false)
		})
	}
}

// outage enables or disables an outage's rules. They are placed before the plan's own rules.
func (w *world) outage(i int, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.raging = slices.DeleteFunc(w.raging, func(j int) bool { return j == i }); on {
		w.raging = append(w.raging, i)
	}
	var rules []string
	for _, j := range w.raging {
		rules = append(rules, w.plan.Outages[j].Rules)
	}
	w.log.Info().Strs("outages", rules).Msg("faults")
	if err := w.setFaults(strings.Join(append(rules, w.plan.Faults), ";")); err != nil {
		w.violations = append(w.violations, "outage "+strconv.Itoa(i)+": "+err.Error())
	}
}
