package engine

import (
	"context"
	"hash/fnv"

	"github.com/rs/zerolog"

	"tablesweep/internal/engine/ledger"
)

// foldEvery is how many steps, on average, are folded at once. Folding costs two requests.
const foldEvery = 48

// foldAfter folds done steps now and then. A step's id decides whether a fold follows it: processes
// share no count. A fold of a level above the first takes as many rows, and is as much
// rarer. If a fold fails, the next one takes its rows.
func (e *Engine) foldAfter(ctx context.Context, id, step string) {
	h := fnv.New64a()
	h.Write([]byte(step))
	every := uint64(e.options.FoldEvery)
	for n, level := h.Sum64(), 0; n%every == 0 && level < ledger.MaxLevel; n, level = n/every, level+1 {
		if _, err := e.ledger.Fold(ctx, id, level, max(2, int(every)/4), joinNotes); err != nil {
			zerolog.Ctx(ctx).Debug().Err(err).Msg("done steps not folded")
			return
		}
	}
}
