package status

import (
	"context"
	"time"

	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
)

// Timeline shows a scan's work over time.
type Timeline struct {
	At       time.Time      `json:"at"`       // when it was read
	Interval float64        `json:"interval"` // length of a point's interval, in seconds
	Points   []ledger.Point `json:"points"`
}

// Timeline returns at most 240 points, in order of time. An interval without work has no point.
func (rd *Reader) Timeline(ctx context.Context, id ledger.ScanID) (Timeline, error) {
	found, err := rd.detail(ctx, id)
	if err != nil {
		return Timeline{}, err
	}
	return Timeline{At: found.Date, Interval: found.Sums.Times.Interval().Seconds(), Points: found.Sums.Times.Points()}, nil
}

// detailTime is the maximum age of a scan's detail: the timeline, ranges and counts of failed rows, which are read
// together.
const detailTime = 15 * time.Second

// detail returns a scan's detail, at most detailTime old. If a running scan's detail is older than [scans.ScanTime],
// one request checks whether another process has ended the scan. For a group, which has no detail, the error is a
// Conflict.
func (rd *Reader) detail(ctx context.Context, id ledger.ScanID) (ledger.Snapshot, error) {
	read := func(ledger.Snapshot) (ledger.Snapshot, error) { return rd.ledger.Detail(ctx, id) }
	found, err := rd.details.Get(ctx, id, read)
	if err == nil && found.Scan.Members > 0 {
		return found, problem.Conflictf("id", "the scan is a group; send this request for each of its members")
	}
	if err != nil || found.Scan.State != ledger.Running || rd.details.Age(id) < scans.ScanTime {
		return found, NotFound(id, err)
	}
	now, err := rd.ledger.Scan(ctx, id)
	if err != nil || now.State == ledger.Running {
		return found, NotFound(id, err)
	}
	rd.detailEnded(now)
	found, err = rd.details.Get(ctx, id, read)
	return found, NotFound(id, err)
}

// detailEnded drops a scan's cached detail if it was read before the scan's end.
func (rd *Reader) detailEnded(ended ledger.Scan) {
	rd.details.Outdate(ended.ID, func(s ledger.Snapshot) bool { return s.Scan.State == ledger.Running || s.Scan.Attempt < ended.Attempt })
}
