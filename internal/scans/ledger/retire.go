package ledger

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// EndedScan is an ended scan that has not been tidied up.
type EndedScan struct {
	ID      ScanID
	Settled bool          // the list of all scans has the scan's final figures
	Age     time.Duration // time since the row in the list of ended scans was written, by the service's clock

	etag string
}

// SettleTime is longer than an invocation, which takes at most ten minutes. So if a scan ended at least SettleTime ago,
// none of its steps still runs.
const SettleTime = 15 * time.Minute

// Ended returns up to a thousand ended scans that have not been tidied up, newest first, and reports whether there are
// more. The argument `previous` is the last scan of the previous page, or "".
func (l *Ledger) Ended(ctx context.Context, previous ScanID) (scans []EndedScan, more bool, err error) {
	r := key.WithPrefix(scansPartition, endedPrefix)
	if previous != "" {
		r.Low = &key.Bound{Key: endedPrefix + string(previous), Open: true}
	}
	p, err := l.query(ctx, "list ended scans", storage.Query{Range: r})
	for _, e := range p.Entities() {
		scans = append(scans, EndedScan{
			ID: ScanID(strings.TrimPrefix(e.Key.Row, endedPrefix)), Settled: e.Int("Settled") > 0, Age: p.Date.Sub(e.Timestamp), etag: e.ETag,
		})
	}
	return scans, p.Next != nil, err
}

// Settle adds an ended scan's final figures to the list of all scans. Call it only when no step of the scan is running.
// If the scan is running again after a retry, Settle adds no figures, but removes the scan from the list of ended scans.
func (l *Ledger) Settle(ctx context.Context, old EndedScan) error {
	s, err := l.currentFigures(ctx, old.ID)
	if errors.Is(err, ErrNotFound) || err == nil && s.State == Running {
		return l.DropEnded(ctx, old)
	}
	if err != nil {
		return err
	}
	e, listed, err := l.get(ctx, "settle scan "+string(old.ID), scansPartition, listRow(old.ID))
	if err != nil {
		return err
	}
	if !listed || e.Int("Attempt") > s.Attempt {
		return l.DropEnded(ctx, old)
	}
	settled := tidyRow(s.ID, true)
	settled.IfMatch = old.etag
	return unlessOvertaken(l.write(ctx, "settle scan "+string(s.ID), endedRow(s, true, e.ETag), settled))
}

func (l *Ledger) currentFigures(ctx context.Context, id ScanID) (Listed, error) {
	found, err := l.Snapshot(ctx, id)
	if err != nil {
		return Listed{}, err
	}
	return found.asListed(), nil
}

// asListed returns an ended scan's entry in the list of all scans.
func (s Snapshot) asListed() Listed {
	l := Listed{Scan: s.Scan, Summarized: true, Totals: s.Sums.Totals, Members: s.Members}
	l.Pending, _ = s.Sums.Pending()
	return l
}

// DropEnded removes a scan from the list of ended scans. If the scan has ended again since [Ledger.Ended] returned
// `old`, DropEnded changes nothing.
func (l *Ledger) DropEnded(ctx context.Context, old EndedScan) error {
	return unlessOvertaken(l.write(ctx, "tidy up scan "+string(old.ID), unlist(endedPrefix+string(old.ID), old.etag)))
}

// Outdated returns the ids of up to n old scans. A scan is old if both its start and the last change of its row in the
// list of all scans are at least `age` ago.
func (l *Ledger) Outdated(ctx context.Context, now time.Time, age time.Duration, n int) ([]ScanID, error) {
	r := key.WithPrefix(scansPartition, allPrefix)
	r.Low = &key.Bound{Key: allPrefix + key.Inverted(now.Add(-age))}
	p, err := l.query(ctx, "list old scans", storage.Query{Range: r})
	var old []ScanID
	for _, e := range p.Entities() {
		if len(old) < n && p.Date.Sub(e.Timestamp) >= age {
			old = append(old, ScanID(strings.TrimPrefix(e.Key.Row, allPrefix)))
		}
	}
	return old, err
}

// Remove removes a scan if the scan ended at least `age` ago. It removes the scan's own row first, so that no
// process can continue the scan. Then it removes the members if the scan is a group. The scan stays listed until all
// its rows are gone. Remove stops after about `limit` transactions, and returns the approximate number of
// transactions that it has made.
func (l *Ledger) Remove(ctx context.Context, id ScanID, now time.Time, age time.Duration, limit int) (made int, err error) {
	what := "remove scan " + string(id)
	s, err := l.Scan(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound): // partly removed before
	case err != nil:
		return 0, err
	case s.State == Running || now.Sub(s.Finished) < age:
		return 0, nil
	default:
		own := op(storage.Delete, id, scanRow)
		own.IfMatch = s.etag
		if err := l.write(ctx, what, own); err != nil {
			return 1, unlessOvertaken(err)
		}
		made++
	}
	var members []ScanID
	_, err = l.Recent(ctx, ListQuery{Group: id, Page: storage.PageRows, Pages: 1}, func(m Listed) bool { members = append(members, m.ID); return true })
	for _, m := range members {
		if err != nil || made >= limit {
			break
		}
		n := 0
		n, err = l.Remove(ctx, m, now, 0, limit-made)
		made += n + 1
	}
	if err != nil || len(members) > 0 { // the next call removes the group itself
		return made, err
	}
	for p, err := range l.pages(ctx, what, storage.Query{Range: key.Range{Partition: id.partition()}, Select: []string{}}) {
		if err != nil {
			return made, err
		}
		for rows := range slices.Chunk(p.Rows, storage.MaxBatchRows) {
			if made >= limit {
				return made, nil
			}
			var ops []storage.Op
			for _, e := range rows {
				ops = append(ops, op(storage.Delete, id, e.Key.Row))
			}
			if err := l.write(ctx, what, ops...); err != nil {
				return made, unlessOvertaken(err)
			}
			made++
		}
	}
	return made, l.unlistInTurn(ctx, what, endedPrefix+string(id), listRow(id))
}
