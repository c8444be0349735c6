package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// EndedScan is a scan that has ended and is yet to be tidied up.
type EndedScan struct {
	ID      string
	Settled bool          // the list of all has its totals
	Age     time.Duration // since it ended, or since it was settled; by the service's clock

	etag string
}

// Ended returns ended scans that are yet to be tidied up, newest first: at most a thousand of those that were
// started before the time, or of all if it is zero. It reports whether there are more.
func (l *Ledger) Ended(ctx context.Context, started time.Time) (ended []EndedScan, more bool, err error) {
	r := key.WithPrefix(scansPartition, endedPrefix)
	if !started.IsZero() {
		r.Low = &key.Bound{Key: endedPrefix + key.Inverted(started)}
	}
	p, err := l.table.Query(ctx, storage.Query{Range: r})
	if err != nil {
		return nil, false, fmt.Errorf("list ended scans: %w", err)
	}
	for _, e := range p.Entities {
		ended = append(ended, EndedScan{
			ID: strings.TrimPrefix(e.Key.Row, endedPrefix), Settled: e.Int("Settled") > 0, Age: p.Date.Sub(e.Timestamp), etag: e.ETag,
		})
	}
	return ended, p.Next != nil, nil
}

// Settle adds an ended scan's final totals to the list of all. None of its steps may be
// under way any more. If the scan runs again, Settle only takes it off the list of ended ones.
func (l *Ledger) Settle(ctx context.Context, ended EndedScan) error {
	s, err := l.cameTo(ctx, ended.ID)
	if errors.Is(err, ErrNotFound) || err == nil && s.State == Running {
		return l.Tidied(ctx, ended)
	}
	if err != nil {
		return err
	}
	k := key.Key{Partition: scansPartition, Row: allPrefix + ended.ID}
	e, listed, err := l.table.Get(ctx, k)
	if err != nil {
		return fmt.Errorf("settle scan %s: %w", ended.ID, err)
	}
	if !listed || e.Int("Attempt") > s.Attempt {
		return l.Tidied(ctx, ended)
	}
	note := list(endedPrefix + s.ID)
	note.IfMatch = ended.etag
	note.Entity.Properties = []storage.Property{storage.Int64Property("Settled", 1)}
	return l.unless(l.table.Write(ctx, summary(s, true, e.ETag), note), "settle scan "+s.ID)
}

// cameTo returns a scan with its present totals and number of pending steps.
func (l *Ledger) cameTo(ctx context.Context, id string) (Scan, error) {
	found, err := l.Snapshot(ctx, id)
	if err != nil {
		return Scan{}, err
	}
	s, told := found.Scan, false
	s.Totals = found.Sums.Totals
	if s.Pending, _, told = found.Sums.Pending(); !told {
		s.Pending, err = l.CountPending(ctx, id)
	}
	return s, err
}

// Tidied takes a scan off the list of ended ones, unless it has ended once more
// since it was listed.
func (l *Ledger) Tidied(ctx context.Context, ended EndedScan) error {
	op := unlist(endedPrefix + ended.ID)
	op.IfMatch = ended.etag
	return l.unless(l.table.Write(ctx, op), "tidy up scan "+ended.ID)
}

// unless returns a write's error with its context, or nil if another process was faster.
func (l *Ledger) unless(err error, what string) error {
	if err == nil || storage.NotFound(err) || storage.HasCode(err, "UpdateConditionNotSatisfied") {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Outdated returns at most n scans whose start and last change of their list entry are both older
// than age.
func (l *Ledger) Outdated(ctx context.Context, now time.Time, age time.Duration, n int) ([]Listed, error) {
	r := key.WithPrefix(scansPartition, allPrefix)
	r.Low = &key.Bound{Key: allPrefix + key.Inverted(now.Add(-age))}
	p, err := l.table.Query(ctx, storage.Query{Range: r})
	if err != nil {
		return nil, fmt.Errorf("list old scans: %w", err)
	}
	var old []Listed
	for _, e := range p.Entities {
		if len(old) < n && p.Date.Sub(e.Timestamp) >= age {
			old = append(old, listedOf(e))
		}
	}
	return old, nil
}

// Remove removes a listed scan that ended longer ago than age. The scan's own row goes first:
// then nobody can continue it. Remove makes at most so many transactions, and returns how many it
// has made. The scan stays listed until nothing of it is left.
func (l *Ledger) Remove(ctx context.Context, old Listed, now time.Time, age time.Duration, most int) (made int, err error) {
	s, err := l.Scan(ctx, old.ID)
	switch {
	case errors.Is(err, ErrNotFound): // removed in part
	case err != nil:
		return 0, err
	case s.State == Running || now.Sub(s.Finished) < age:
		return 0, nil
	default:
		op := storage.Op{Kind: storage.Delete, IfMatch: s.etag, Entity: storage.Entity{Key: key.Key{Partition: s.ID, Row: scanRow}}}
		if err := l.table.Write(ctx, op); err != nil {
			return 1, l.unless(err, "remove scan "+s.ID)
		}
		made++
	}
	for {
		p, err := l.table.Query(ctx, storage.Query{Range: key.Range{Partition: &old.ID}, Select: []string{}})
		if err != nil {
			return made, fmt.Errorf("remove scan %s: %w", old.ID, err)
		}
		for rows := p.Entities; len(rows) > 0; made++ {
			if made >= most {
				return made, nil
			}
			var ops []storage.Op
			for _, e := range rows[:min(len(rows), storage.MaxBatchRows)] {
				ops = append(ops, storage.Op{Kind: storage.Delete, Entity: storage.Entity{Key: e.Key}})
			}
			rows = rows[len(ops):]
			if err := l.table.Write(ctx, ops...); err != nil {
				return made, l.unless(err, "remove scan "+old.ID)
			}
		}
		if p.Next == nil {
			break
		}
	}
	for _, row := range []string{endedPrefix, allPrefix} {
		if err := l.unless(l.table.Write(ctx, unlist(row+old.ID)), "remove scan "+old.ID); err != nil {
			return made, err
		}
	}
	return made, nil
}
