package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// scanColumns are the properties of a scan's row, beside the totals.
var scanColumns = []string{"Version", "State", "Attempt", "Request", "StartedAt", "FinishedAt", "ResumedAt", "RanMillis", "Error"}

// Snapshot is a scan at one moment.
type Snapshot struct {
	Scan Scan
	Sums Sums
	// Steps holds the ids of pending steps, and Done those of the newest done steps. Whole
	// reports whether Steps has all of them.
	Steps map[string]bool
	Done  map[string]bool
	Whole bool
	// Lost counts the steps that were begun, and are neither pending nor done: somebody has deleted their rows. It is below 0
	// if steps are done that nobody has begun, and 0 if the scan takes more than a page, which shows one moment.
	Lost int64
	// Only [Ledger.Detail] reads Notes and Pending: the notes of done rows, and the pending steps.
	Notes   [][]byte
	Pending []Pending
	// Date is the time of the snapshot by the service's clock.
	Date time.Time
}

// Snapshot reads a scan, the sums over its done steps, and as many pending ones as come along.
// It makes one request, and a second one if there are many pending steps: folding keeps done rows few (see
// fold.go). It makes more only if folding is far behind or the service's pages are short. It returns
// [ErrNotFound] if there is no such scan.
//
// The done rows come from a single page, which shows one moment, or from several pages without a fold
// in between: a fold could hide a row, or count it twice.
func (l *Ledger) Snapshot(ctx context.Context, id string) (Snapshot, error) {
	return l.snapshot(ctx, id, false)
}

// Detail reads a scan with the notes of its done rows and at most a few thousand pending
// steps. It makes a request for each thousand rows or 4 MiB.
func (l *Ledger) Detail(ctx context.Context, id string) (Snapshot, error) {
	return l.snapshot(ctx, id, true)
}

func (l *Ledger) snapshot(ctx context.Context, id string, detail bool) (Snapshot, error) {
	for range snapshotTries {
		r := draft{id: id, detail: detail, s: Snapshot{Steps: map[string]bool{}, Done: map[string]bool{}}}
		if err := l.readDone(ctx, &r); err != nil {
			return Snapshot{}, fmt.Errorf("sum up scan %s: %w", id, err)
		}
		if r.donePages > 1 {
			same, err := l.foldedStill(ctx, id, r.folded)
			if err != nil {
				return Snapshot{}, fmt.Errorf("sum up scan %s: %w", id, err)
			}
			if !same {
				continue
			}
		}
		if r.s.Scan.ID == "" {
			var err error
			if r.s.Scan, err = l.Scan(ctx, id); err != nil {
				return Snapshot{}, err
			}
		}
		if r.pages == 1 && r.s.Whole {
			pending, _ := r.s.Sums.Pending()
			r.s.Lost = pending - int64(len(r.s.Steps))
		}
		return r.s, nil
	}
	return Snapshot{}, fmt.Errorf("sum up scan %s: its steps are being folded; try again", id)
}

// readDone reads all done rows, and what follows them on their pages.
func (l *Ledger) readDone(ctx context.Context, r *draft) error {
	q := storage.Query{Range: doneToScan(r.id), Select: slices.Concat(sumColumns, scanColumns)}
	if r.detail {
		q.Select = append(q.Select, "Note", "Message", "Reason")
	}
	err := l.table.All(ctx, q, func(p storage.Page) error {
		if err := r.take(p); err != nil {
			return err
		}
		if r.detail && r.pages < detailPages {
			return nil
		}
		if r.beyond {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// detailPages bounds the pages that a [Ledger.Detail] reads once it has all done rows.
const detailPages = 8

// snapshotTries bounds how often [Ledger.Snapshot] reads again after a fold.
const snapshotTries = 5

// doneToScan is the range of a scan's done rows, its pending steps and its own row.
func doneToScan(id string) key.Range {
	return key.Range{Partition: &id, Low: &key.Bound{Key: donePrefix}, High: &key.Bound{Key: scanRow}}
}

// draft is a snapshot in the making.
type draft struct {
	id        string
	detail    bool
	s         Snapshot
	pages     int
	donePages int      // until all done rows were read
	folded    []string // keys of folded rows
	beyond    bool     // all done rows have been read
}

func (r *draft) take(p storage.Page) error {
	r.pages++
	if !r.beyond {
		r.donePages++
	}
	r.s.Date = p.Date
	for _, e := range p.Entities {
		row := e.Key.Row
		if strings.HasPrefix(row, donePrefix) {
			r.s.Sums.add(sumsOf(e))
			if note := e.Bytes("Note"); note != nil {
				r.s.Notes = append(r.s.Notes, note)
			}
			if isFolded(e) {
				r.folded = append(r.folded, row)
			} else {
				r.s.Done[row[strings.LastIndexByte(row, '|')+1:]] = true
			}
			continue
		}
		r.beyond = true
		switch {
		case strings.HasPrefix(row, pendingPrefix):
			r.s.Steps[strings.TrimPrefix(row, pendingPrefix)] = true
			if r.detail {
				r.s.Pending = append(r.s.Pending, pendingStep(e, p.Date))
			}
		case row == scanRow:
			var err error
			if r.s.Scan, err = scanOf(r.id, e); err != nil {
				return err
			}
		}
	}
	r.s.Whole = p.Next == nil
	r.beyond = r.beyond || r.s.Whole
	return nil
}

// foldedStill reports whether the scan's folded rows are still these. Each fold adds one
// with a new key.
func (l *Ledger) foldedStill(ctx context.Context, id string, folded []string) (bool, error) {
	var now []string
	q := storage.Query{Range: key.WithPrefix(id, foldedPrefix), Select: []string{}}
	err := l.table.All(ctx, q, func(p storage.Page) error {
		for _, e := range p.Entities {
			now = append(now, e.Key.Row)
		}
		return nil
	})
	return slices.Equal(now, folded), err
}
