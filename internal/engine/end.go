package engine

import (
	"context"

	"github.com/rs/zerolog"
)

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
// It reports whether this call ended it.
func (e *Engine) finish(ctx context.Context, scan string) (bool, error) {
	ended, err := e.ledger.Finish(ctx, scan, e.options.Now())
	if err != nil || !ended {
		return ended, err
	}
	if err := e.saveHints(ctx, scan); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("hints for the next scan not saved")
	}
	return true, nil
}
