package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

var scanColumns = []string{"Version", "State", "Attempt", "Request", "StartedAt", "FinishedAt", "ResumedAt", "RanMillis", "Error", "Members", "First", "Note", "LeftOut", "NoTable"}

// Snapshot is a scan at one moment.
type Snapshot struct {
	Scan Scan
	Sums Sums
	// Steps contains the ids of pending steps. If Whole is true, Steps contains the ids of all pending steps. Done
	// contains the ids of done steps that were not folded.
	Steps map[StepID]bool
	Done  map[StepID]bool
	Whole bool
	// MissingRows describes rows that somebody has deleted. If the scan's rows fill more than one page, MissingRows is
	// empty, because several pages do not show all rows at the same moment.
	MissingRows string
	// Notes (of done rows) and Pending are set only by [Ledger.Detail].
	Notes   [][]byte
	Pending []Pending
	Members Members // set only for a group; the Sums of a group include all members
	// Date is the service's time when the last page was read.
	Date time.Time
}

// Snapshot reads a scan, the sums over its done steps, and some pending steps: those whose rows in the ledger are on the
// same page as the last done row. Usually, one request is enough, because folds keep the number of done rows small. If many steps are
// pending, Snapshot makes a second request. If folds are late or pages are short, Snapshot makes more requests. If a
// fold happens between two of these requests, Snapshot reads the rows again, because the fold may have hidden a row or
// made it count twice. Snapshot returns [ErrNotFound] if there is no such scan.
func (l *Ledger) Snapshot(ctx context.Context, id ScanID) (Snapshot, error) {
	return l.snapshot(ctx, id, false)
}

// Detail reads a scan, the notes of its done rows, and up to a few thousand pending steps. It makes one request for
// each thousand rows, or for each 4 MiB if the rows are large.
func (l *Ledger) Detail(ctx context.Context, id ScanID) (Snapshot, error) {
	return l.snapshot(ctx, id, true)
}

func (l *Ledger) snapshot(ctx context.Context, id ScanID, detail bool) (Snapshot, error) {
	what := "sum up scan " + string(id)
	for range snapshotTries {
		d, err := l.read(ctx, what, id, detail)
		if err != nil {
			return Snapshot{}, err
		}
		if d.donePages > 1 {
			now, err := l.folded(ctx, what, id)
			if err != nil {
				return Snapshot{}, err
			}
			if !slices.Equal(now, d.folded) {
				continue
			}
		}
		if d.Scan.ID == "" {
			if d.Scan, err = l.Scan(ctx, id); err != nil {
				return Snapshot{}, err
			}
		}
		if d.Scan.Members > 0 {
			return d.Snapshot, l.sum(ctx, &d.Snapshot)
		}
		if d.pages == 1 && d.Whole {
			d.MissingRows = d.describeMissing(d.Steps)
		}
		return d.Snapshot, nil
	}
	return Snapshot{}, fmt.Errorf("%s: the rows of the scan's steps are being combined; try again", what)
}

// snapshotTries is the maximum number of tries of [Ledger.Snapshot]. A try fails if done rows are
// folded during the try.
const snapshotTries = 5

// detailPages is the maximum number of pages that [Ledger.Detail] reads, unless the done rows fill more pages.
const detailPages = 8

type draft struct {
	Snapshot
	pages     int
	donePages int      // pages up to the end of the done rows
	folded    []string // keys of folded rows
	beyond    bool     // all done rows have been read
}

// read returns all done rows. It also returns the pending steps and the scan's own row, if they are on the same pages.
// If `detail` is true, read continues after the done rows, up to detailPages pages in total.
func (l *Ledger) read(ctx context.Context, what string, id ScanID, detail bool) (d draft, err error) {
	r := key.Range{Partition: id.partition(), Low: &key.Bound{Key: donePrefix}, High: &key.Bound{Key: scanRow}}
	q := storage.Query{Range: r, Select: slices.Concat(sumColumns, scanColumns)}
	if detail {
		q.Select = append(q.Select, "Note", "Message", "Reason")
	}
	d.Steps, d.Done = map[StepID]bool{}, map[StepID]bool{}
	for p, err := range l.pages(ctx, what, q) {
		if err != nil {
			return d, err
		}
		d.pages++
		d.Date, d.Whole = p.Date, p.Next == nil
		if !d.beyond {
			d.donePages++
		}
		for _, e := range p.Entities() {
			if strings.HasPrefix(e.Key.Row, donePrefix) {
				d.addDone(e)
				continue
			}
			d.beyond = true
			if e.Key.Row == scanRow {
				if d.Scan, err = scanOf(id, e); err != nil {
					return d, because(what, err)
				}
			} else if step, pending := strings.CutPrefix(e.Key.Row, pendingPrefix); pending {
				d.Steps[StepID(step)] = true
				if detail {
					d.Pending = append(d.Pending, pendingStep(e, p.Date))
				}
			}
		}
		d.beyond = d.beyond || d.Whole
		if d.beyond && !(detail && d.pages < detailPages) {
			break
		}
	}
	return d, nil
}

func (d *draft) addDone(e storage.Entity) {
	d.Sums.add(sumsOf(e))
	if note := e.Bytes("Note"); note != nil {
		d.Notes = append(d.Notes, note)
	}
	if isFolded(e) {
		d.folded = append(d.folded, e.Key.Row)
	} else {
		d.Done[StepID(e.Key.Row[strings.LastIndexByte(e.Key.Row, '|')+1:])] = true
	}
}

// folded returns the keys of the scan's folded rows. Each fold changes this list, because it adds a row with a new key.
func (l *Ledger) folded(ctx context.Context, what string, id ScanID) (rows []string, err error) {
	for p, err := range l.pages(ctx, what, storage.Query{Range: id.rows(foldedPrefix), Select: []string{}}) {
		if err != nil {
			return nil, err
		}
		for _, e := range p.Rows {
			rows = append(rows, e.Key.Row)
		}
	}
	return rows, nil
}
