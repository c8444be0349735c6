package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/scan/adaptive"
)

const (
	// foldEvery is how many steps, on the mean, are folded at once: with three levels of folded rows
	// a million steps leave some 200 rows, which are read by one query. Folding costs two requests.
	foldEvery = 48
	// settleTime is how long after a scan's end its last steps have ended: an invocation takes ten minutes.
	settleTime = 15 * time.Minute
	// wholeTime is how long after a scan's end its done steps are folded into one row.
	wholeTime = 24 * time.Hour
	// tidyScans, removeLooks, removeScans and removeWrites bound what one Maintain does. It looks at more
	// scans than it removes: those that still run, or are another version's, must not hide the others.
	tidyScans    = 10
	removeLooks  = 100
	removeScans  = 10
	removeWrites = 50
)

// foldAfter folds done steps now and then. Which step is followed by a fold is decided by
// its id, so that it needs no count that processes share. Levels above the first fold as
// many rows, as much more seldom. What goes wrong is left to the next fold.
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

// joinNotes makes one note of those of several steps.
func joinNotes(notes [][]byte) []byte {
	var ends []adaptive.PageEnd
	for _, note := range notes {
		ends = append(ends, parseNote(note)...)
	}
	if len(ends) == 0 {
		return nil
	}
	for most := maxEnds; ; most /= 2 {
		ends = adaptive.Thin(ends, most)
		text, err := json.Marshal(ends)
		if err != nil {
			panic("engine: internal error: " + err.Error())
		}
		if packed := pack(text); len(packed) <= maxNote {
			return packed
		}
	}
}

// maxEnds is how many ends of pages a folded row keeps.
const maxEnds = 512

// parseNote reads a note, of one step or of several; one that it can't read is empty.
func parseNote(note []byte) []adaptive.PageEnd {
	text := note
	if !bytes.HasPrefix(note, []byte("[")) {
		var err error
		if text, err = unpack(note); err != nil {
			return nil
		}
	}
	var ends []adaptive.PageEnd
	if json.Unmarshal(text, &ends) != nil {
		return nil
	}
	return ends
}

// tidyEnded does a minute's part of what ended scans need: those that were canceled or have
// failed are listed with what they came to, and what steps have left is folded.
func (e *Engine) tidyEnded(ctx context.Context) error {
	ended, more, err := e.ledger.Ended(ctx, time.Time{})
	if err != nil {
		return err
	}
	if more && ended[len(ended)-1].Age < wholeTime { // so many have ended since that it lists none to fold
		old, _, err := e.ledger.Ended(ctx, e.options.Now().Add(-wholeTime))
		if err != nil {
			return err
		}
		ended = append(ended, old...)
	}
	var errs error
	done := 0
	for _, s := range ended {
		var err error
		switch {
		case done == tidyScans:
			return errs
		case s.Age >= settleTime && !s.Settled:
			err = e.ledger.Settle(ctx, s)
		case s.Age >= wholeTime:
			var whole bool
			if whole, err = e.ledger.FoldAll(ctx, s.ID, joinNotes); err == nil && whole {
				err = e.ledger.Tidied(ctx, s)
			}
		default:
			continue
		}
		done++
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("tidy up scan %s: %w", s.ID, err))
		}
	}
	return errs
}

// removeOld does a minute's part of removing scans that ended longer ago than they are kept.
func (e *Engine) removeOld(ctx context.Context) error {
	now, age := e.options.Now(), e.options.Retention
	old, err := e.ledger.Outdated(ctx, now, age, removeLooks)
	if err != nil {
		return err
	}
	var errs error
	writes, removed := 0, 0
	for _, s := range old {
		if writes >= removeWrites || removed == removeScans {
			break
		}
		made, err := e.ledger.Remove(ctx, s, now, age, removeWrites-writes)
		writes += made
		if made > 0 {
			removed++
		}
		errs = errors.Join(errs, err)
	}
	return errs
}

// presence counts the steps of each scan that a process has in hand. Whoever of them has
// ended without children would have to look whether the scan has ended, too. It hasn't while another
// one of them is pending: so only the last that leaves looks.
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
