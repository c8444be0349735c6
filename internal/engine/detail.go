package engine

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/scan/adaptive"
)

// detailTime is how old a scan's timeline and ranges may be: they are read together.
const detailTime = 15 * time.Second

// details keeps what was read of scans a moment ago.
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

// ended drops what was read of a scan before its end.
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

// Timeline tells how a scan's work was spread over time.
type Timeline struct {
	At       time.Time       `json:"at"`       // as of; a few seconds ago
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

// Timeline returns a scan's timeline: at most 240 points in order of time, those without work
// left out.
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

// Ranges tells what has become of the parts of a scan's key range.
type Ranges struct {
	At     time.Time  `json:"at"` // as of; a few seconds ago
	Ranges []KeyRange `json:"ranges"`
	// Sampled tells that there are too many pending steps to read: some ranges that count as
	// done are pending.
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

// FailedRow is a row that could not be written.
type FailedRow struct {
	PartitionKey string `json:"partitionKey"`
	RowKey       string `json:"rowKey"`
	Reason       string `json:"reason"`
}

// FailedRows are some of a scan's failed rows.
type FailedRows struct {
	Rows   []FailedRow `json:"rows"`
	Total  int64       `json:"total"` // failed rows of the scan
	Kept   int64       `json:"kept"`  // of them, those that can be had here
	Cursor string      `json:"cursor,omitempty"`
}

// maxFailedRows is how many failed rows a step keeps at most; fewer if they are too long.
const maxFailedRows = 1000

// Failed returns failed rows of a scan, those of the steps that were done last first; cursor is
// that of an earlier answer, or empty.
func (e *Engine) Failed(ctx context.Context, id string, top int, cursor string) (FailedRows, error) {
	found, err := e.detail(ctx, id)
	if err != nil {
		return FailedRows{}, err
	}
	f := FailedRows{Rows: []FailedRow{}, Total: found.Sums.Failed, Kept: found.Sums.Kept}
	before, place, skip, err := parseFailedCursor(cursor)
	if err != nil {
		return f, err
	}
	err = e.ledger.Refused(ctx, id, before, func(at string, refused []byte) bool {
		rows := parseRefused(refused)
		from := 0
		if at == place {
			from = min(skip, len(rows))
		}
		n := min(len(rows)-from, top-len(f.Rows))
		f.Rows = append(f.Rows, rows[from:from+n]...)
		if from+n < len(rows) {
			f.Cursor = failedCursor(before, at, from+n)
		} else {
			before = at
			f.Cursor = failedCursor(at, "", 0)
		}
		return len(f.Rows) < top
	})
	if err != nil {
		return f, err
	}
	if len(f.Rows) < top {
		f.Cursor = ""
	}
	return f, nil
}

// failedCursor names the step that was read to its end last, the one that was not, and how many of its
// rows were read.
func failedCursor(before, place string, skip int) string {
	return base64.RawURLEncoding.EncodeToString([]byte(before + " " + place + " " + strconv.Itoa(skip)))
}

func parseFailedCursor(cursor string) (before, place string, skip int, err error) {
	if cursor == "" {
		return "", "", 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	parts := strings.Split(string(text), " ")
	if err == nil && len(parts) == 3 {
		if skip, err = strconv.Atoi(parts[2]); err == nil && skip >= 0 {
			return parts[0], parts[1], skip, nil
		}
	}
	return "", "", 0, problem.Invalidf("cursor", "is not one that this call returned; leave it out to begin anew")
}

// packRefused returns what a step keeps of its failed rows, and how many that are.
func packRefused(failed []action.Failure) (packed []byte, kept int) {
	for most := maxFailedRows; len(failed) > 0; most /= 2 {
		rows := make([]FailedRow, 0, min(len(failed), most))
		for _, f := range failed[:min(len(failed), most)] {
			rows = append(rows, FailedRow{f.Key.Partition, f.Key.Row, f.Reason[:min(len(f.Reason), maxReason)]})
		}
		text, err := json.Marshal(rows)
		if err != nil {
			panic("engine: internal error: " + err.Error())
		}
		if packed = pack(text); len(packed) <= ledger.MaxRefused {
			return packed, len(rows)
		}
	}
	return nil, 0
}

func parseRefused(packed []byte) []FailedRow {
	var rows []FailedRow
	text, err := unpack(packed)
	if err != nil || json.Unmarshal(text, &rows) != nil {
		return nil // of a form that this version doesn't know
	}
	return rows
}

// blame notes at the ends of pages which of their rows could not be written.
func (s *segments) blame(failed []action.Failure, handed bool) {
	if len(failed) == 0 {
		return
	}
	if handed { // its pages are those of another step
		s.ends = []adaptive.PageEnd{{Last: failed[len(failed)-1].Key, Failed: len(failed)}}
		return
	}
	for _, f := range failed {
		s.endOf(f.Key).Failed++
	}
}

// endOf returns the end of the page that a row was read in.
func (s *segments) endOf(k key.Key) *adaptive.PageEnd {
	for i := range s.ends {
		if k.Compare(s.ends[i].Last) <= 0 {
			return &s.ends[i]
		}
	}
	return &s.ends[len(s.ends)-1]
}
