package engine

import (
	"context"
	"sync"

	"github.com/rs/zerolog"
)

// lookForEnd ends the scan if no step is pending.
func (e *Engine) lookForEnd(ctx context.Context, scan string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	ended, err := e.finish(ctx, scan)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("could not look for the scan's end; Maintain will")
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

// presence counts the steps of each scan that the process has in hand. A scan may end with
// any step that has no children, but not while another step is pending. So only
// the last step in hand looks for the end.
type presence struct {
	mu    sync.Mutex           // guards scans
	scans map[string]*attended // by id
}

type attended struct {
	steps int
	look  bool // a step has ended without children
}

func (p *presence) enter(scan string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.scans[scan] == nil {
		p.scans[scan] = &attended{}
	}
	p.scans[scan].steps++
}

// ended notes that a step has ended without children.
func (p *presence) ended(scan string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scans[scan].look = true
}

// leave reports whether to look for the scan's end.
func (p *presence) leave(scan string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.scans[scan]
	if a.steps--; a.steps > 0 {
		return false
	}
	delete(p.scans, scan)
	return a.look
}
