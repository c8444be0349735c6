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

// Before a step reads anything, it takes a part of the process's memory. The part is as large as earlier steps of the
// scan needed, but at most half of the memory for steps. A page may need more, but its size is unknown before it
// arrives. If the page needs more, the part grows, unless another step or call waits for memory. If the part cannot
// grow, the step releases it, waits for a larger part, and reads again. So no step waits for memory while it holds a
// part. After reading, the step releases the memory that it no longer needs.

// memoryTime is how long a step waits for its part of the memory. The rest of stepTime is enough for the work.
const memoryTime = 5 * time.Minute

// If a [ledger.Wait] is for memory, its Connection is forMemory, and its Cause is memoryTaken.
const (
	forMemory   = "memory"
	memoryTaken = "other steps and calls are using all of it"
)

// errMemory postpones a step that has received no memory. It does not count as a failure.
var errMemory = errors.New("other steps and calls are using the process's memory")

type stepMemory struct {
	budget     *memory.Budget
	heartbeats *heartbeats
	step       ledger.StepID
	sizes      *scans.Sizes
	part       *memory.Part
	grown      bool // the step began again with a larger part
}

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

// If the step's part is too small, do runs the step again with a larger one.
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

// releaseUnused releases the memory that the rows do not use. The writes may take long, and usually need no more
// memory. A step that began again with more memory keeps all of it, because the writes may need it.
func (h *stepMemory) releaseUnused() {
	if !h.grown {
		h.part.Keep(h.part.Used())
	}
}

func (h *stepMemory) release() { h.part.Release() }
