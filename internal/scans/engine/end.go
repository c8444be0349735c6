package engine

import (
	"context"
	"hash/fnv"

	"github.com/rs/zerolog"

	"tablesweep/internal/problem"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// end ends a running scan. It reports whether this call ended it.
func (e *Engine) end(ctx context.Context, scan string, as ledger.Ending) (bool, error) {
	now, err := e.Now(ctx)
	if err != nil {
		return false, err
	}
	ended, err := e.ledger.End(ctx, scan, now, as)
	if ended && as.LeftOut {
		if err := e.tidyExport(ctx, scan); err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Str("scan", scan).Msg("the export of a table that is left out is not deleted; Maintain will")
		}
	}
	if ended {
		e.afterEnd(ctx, scan)
	}
	return ended, err
}

// afterEnd begins what has waited for a scan's end: the next member of its group, or a scan that was asked for.
func (e *Engine) afterEnd(ctx context.Context, scan string) {
	group, number, member := ledger.MemberOf(scan)
	if !member {
		e.remindOfAsked(ctx)
		return
	}
	if err := e.tend(ctx, group, number); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Str("scan", group).Msg("the group does not go on; Maintain will see to it")
	}
}

// endIfDone ends the scan if no step is pending.
func (e *Engine) endIfDone(ctx context.Context, scan string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	ended, err := e.finish(ctx, scan)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("could not check whether the scan has ended; Maintain will")
	}
	if ended {
		zerolog.Ctx(ctx).Info().Msg("scan ended")
	}
}

// finish ends the scan if no step is pending, and saves hints for the next scan of the table.
// An export that can't be sealed fails. It reports whether this call ended the scan.
func (e *Engine) finish(ctx context.Context, scan string) (bool, error) {
	var unsealed error
	now, err := e.Now(ctx)
	if err != nil {
		return false, err
	}
	ended, err := e.ledger.Finish(ctx, scan, now, func(s ledger.Listed) (as ledger.Ending, err error) {
		if unsealed = e.seal(ctx, s); unsealed == nil {
			as, unsealed = e.judge(ctx, s)
		}
		if unsealed == nil {
			return as, e.askForVerification(ctx, s.Scan)
		}
		return as, unsealed
	})
	if unsealed != nil && !storage.Passing(unsealed) && problem.FateOf(unsealed) == problem.Retry {
		return e.end(ctx, scan, ledger.Ending{State: ledger.Failed, Error: incomplete(unsealed)})
	}
	if err != nil || !ended {
		return ended, err
	}
	if err := e.saveHints(ctx, scan); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("hints for the next scan not saved")
	}
	e.afterEnd(ctx, scan)
	return true, nil
}

// foldEvery is how many steps, on average, are folded at once. Folding costs two requests.
const foldEvery = 48

// foldAfter folds done steps now and then: a step's id decides, since processes share no count. A fold of a level above
// the first takes as many rows, and is as much rarer. If a fold fails, the next one takes its rows.
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
