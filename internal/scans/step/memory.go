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

// Memory. A step takes a part of the process's memory before it reads anything, and releases this part at the step's end. The size of a page is
// unknown before the page arrives. So the part has the size that earlier steps of the scan needed, but at most half of the memory for steps.
// The part grows while no other step or call waits. If the part cannot grow, the step releases all of it, waits for a larger part, and reads
// again. So no step waits for memory while it holds a part. After reading, the step releases the memory that it no longer needs.

// memoryTime is how long a step waits for its part. The step's message stays hidden during this wait. The rest of stepTime is enough for
// the work.
const memoryTime = 5 * time.Minute

// The connection and cause of a [ledger.Wait] for memory.
const (
	forMemory   = "memory"
	memoryTaken = "other steps and calls are using all of it"
)

// errMemory postpones a step that has received no memory. This error does not count as a failure of the step.
var errMemory = errors.New("other steps and calls are using the process's memory")

// stepMemory is a step's part of the memory.
type stepMemory struct {
	budget     *memory.Budget
	heartbeats *heartbeats
	step       ledger.StepID
	sizes      *scans.Sizes
	part       *memory.Part
	grown      bool // the step was begun again with a larger part
}

// takeMemory waits for memory for a held step.
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

// do runs a step with its part of the memory. If the part is too small, the step runs again with a larger part.
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

// releaseUnused releases the memory that the read rows do not use. Writing these rows needs no more memory, but may take a long time. A step that was begun
// again keeps all its memory, because writing may need this memory.
func (h *stepMemory) releaseUnused() {
	if !h.grown {
		h.part.Keep(h.part.Used())
	}
}

func (h *stepMemory) release() { h.part.Release() }
