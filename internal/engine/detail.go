package engine

import (
	"context"
	"sync"
	"time"

	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/scan/adaptive"
)

// detailTime is how old a scan's timeline and ranges may be. They are read together.
const detailTime = 15 * time.Second

// details caches snapshots of scans.
type details struct {
	mu   sync.Mutex // guards byID
	byID map[string]*detail
}

type detail struct {
	mu   sync.Mutex // guards the fields below; held while the scan is read
	at   time.Time
	scan ledger.Snapshot
}

// detail returns a scan's detail, at most detailTime old.
func (e *Engine) detail(ctx context.Context, id string) (ledger.Snapshot, error) {
	now := time.Now()
	e.details.mu.Lock()
	for old, d := range e.details.byID {
		if old != id && d.mu.TryLock() {
			if now.Sub(d.at) >= detailTime {
				delete(e.details.byID, old)
			}
			d.mu.Unlock()
		}
	}
	if e.details.byID == nil {
		e.details.byID = map[string]*detail{}
	}
	d := e.details.byID[id]
	if d == nil {
		d = &detail{}
		e.details.byID[id] = d
	}
	e.details.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.at) < detailTime {
		return d.scan, nil
	}
	found, err := e.ledger.Detail(ctx, id)
	if err != nil {
		return found, notFound(id, err)
	}
	d.at, d.scan = time.Now(), found
	return found, nil
}

// ended drops the snapshot of a scan from before its end.
func (d *details) ended(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if was := d.byID[id]; was != nil && was.mu.TryLock() { // else it is being read
		if was.scan.Scan.State == ledger.Running {
			was.at = time.Time{}
		}
		was.mu.Unlock()
	}
}

// Timeline shows a scan's work over time.
type Timeline struct {
	At       time.Time       `json:"at"`       // when it was read; a few seconds ago
	Interval float64         `json:"interval"` // of a point, in seconds
	Points   []TimelinePoint `json:"points"`
}

// TimelinePoint is the work of one interval.
type TimelinePoint struct {
	At        time.Time `json:"at"` // when it begins
	Rows      int64     `json:"rows"`
	Requests  int64     `json:"requests"`
	Throttled int64     `json:"throttled"`
}

// Timeline returns a scan's timeline: at most 240 points in order of time. Intervals without work have
// no point.
func (e *Engine) Timeline(ctx context.Context, id string) (Timeline, error) {
	found, err := e.detail(ctx, id)
	if err != nil {
		return Timeline{}, err
	}
	t := Timeline{At: found.Date, Interval: found.Sums.Times.Interval().Seconds(), Points: []TimelinePoint{}}
	for _, p := range found.Sums.Times.Points() {
		t.Points = append(t.Points, TimelinePoint{At: p.At, Rows: p.Rows, Requests: p.Requests, Throttled: p.Throttled})
	}
	return t, nil
}

// Ranges shows which parts of a scan's key range are done.
type Ranges struct {
	At     time.Time  `json:"at"` // when they were read; a few seconds ago
	Ranges []KeyRange `json:"ranges"`
	// Sampled is true if there were too many pending steps to read all of them. Then some ranges
	// are pending that are shown as done.
	Sampled bool `json:"sampled,omitempty"`
}

// Ranges returns a scan's ranges in table order: at most maxRanges.
func (e *Engine) Ranges(ctx context.Context, id string) (Ranges, error) {
	found, err := e.detail(ctx, id)
	if err != nil {
		return Ranges{}, err
	}
	r, err := requestOf(found.Scan)
	if err != nil {
		return Ranges{}, err
	}
	var ends []adaptive.PageEnd
	for _, note := range found.Notes {
		ends = append(ends, parseNote(note)...)
	}
	var pending []span
	for _, p := range found.Pending {
		if m, err := parseMessage(p.Message); err == nil {
			s := spanOf(m)
			s.failed = p.Reason != "" && found.Scan.State == ledger.Failed
			pending = append(pending, s)
		}
	}
	ranges := atMost(maxRanges, rangesOf(r.Range.Range(), ends, pending))
	return Ranges{At: found.Date, Ranges: ranges, Sampled: !found.Whole}, nil
}
