package step

import (
	"context"
	"errors"
	"time"

	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/task/memory"
)

// Memory. A step takes its part of the process's memory before it reads anything, and gives it back at its end. Nobody knows how large a
// page is before it is there: so the part is as large as earlier steps of the scan say, at most half of what steps have, and grows while nobody else waits. Where it
// may not grow, the step gives all back, waits for a larger part, and reads again. So no step waits for memory while it holds a part.
// Once it has read, it gives back what it needs no more.

// memoryTime is how long a step waits for its part. Its message is hidden meanwhile; enough of stepTime is left for the work.
const memoryTime = 5 * time.Minute

// What a step waits for in a status, and why.
const (
	forMemory   = "memory"
	memoryTaken = "other steps and calls have taken the instance's"
)

// errMemory puts a step off that found no memory. It is no failure of the step's.
var errMemory = errors.New("the process's memory was taken by other steps and calls")

// stepMemory is a step with its part of the memory.
type stepMemory struct {
	budget     *memory.Budget
	heartbeats *heartbeats
	step       ledger.StepID
	sizes      *scans.Sizes
	part       *memory.Part
	grown      bool // the step has begun anew
}

// takeMemory waits for memory for a step that is in hand.
func (s *Steps) takeMemory(ctx context.Context, step ledger.StepID, of *scans.Sizes) (*stepMemory, error) {
	h := &stepMemory{budget: s.scans.Options.Memory, heartbeats: s.heartbeats, step: step, sizes: of}
	return h, h.take(ctx, min(of.MemoryNeed(), h.budget.Half()))
}

func (h *stepMemory) take(ctx context.Context, bytes int64) (err error) {
	free := false
	if h.part, free = h.budget.TryTake(bytes); free {
		return nil
	}
	h.heartbeats.waitsSince(h.step, time.Now())
	defer h.heartbeats.waitsSince(h.step, time.Time{})
	waiting, cancel := context.WithTimeout(ctx, memoryTime)
	defer cancel()
	if h.part, err = h.budget.Take(waiting, bytes); err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return problem.Busyf("", "the step waits for memory").Because(errMemory)
}

// do does a step within its part, and begins anew with a larger one if that is too small.
func (h *stepMemory) do(ctx context.Context, does func(*memory.Part) error) error {
	for {
		err := does(h.part)
		wanted := h.part.Wanted()
		if !errors.Is(err, memory.ErrFull) {
			h.sizes.LearnMemory(wanted)
			return err
		}
		h.part.Release()
		if err := h.take(ctx, wanted*5/4); err != nil {
			return err
		}
		h.grown = true
	}
}

// wasRead gives back what the step has beside what it has read: writing that takes no more, but it may take long. A step that has begun
// anew keeps what it has: it needed that, perhaps for its writing.
func (h *stepMemory) wasRead() {
	if !h.grown {
		h.part.Keep(h.part.Used())
	}
}

// release gives the part back.
func (h *stepMemory) release() { h.part.Release() }
