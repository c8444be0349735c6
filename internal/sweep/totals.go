package sweep

import (
	"time"

	"tablesweep/internal/adaptive"
)

// Totals are what a sweep has done, earlier runs of a resumed one included.
type Totals struct {
	Rows    int64 `json:"rows,omitempty"`    // rows done, whatever became of them
	Written int64 `json:"written,omitempty"` // of these, those that the action dealt with
	Failed  int64 `json:"failed,omitempty"`  // and those that it could not

	Queries          int64 `json:"queries,omitempty"`
	EmptyQueries     int64 `json:"emptyQueries,omitempty"`     // queries that returned no row
	PartitionQueries int64 `json:"partitionQueries,omitempty"` // queries within one partition
	Steps            int64 `json:"steps,omitempty"`
	CriticalPath     int64 `json:"criticalPath,omitempty"` // steps that had to wait for each other, at most
	Requests         int64 `json:"requests,omitempty"`     // storage requests, retries included
	Throttles        int64 `json:"throttles,omitempty"`    // answers that the service is too busy
	Doubts           int64 `json:"doubts,omitempty"`       // requests of the action that may have been carried out without an answer
}

// add adds what one more unit or query did.
func (t *Totals) add(o Totals) {
	t.Rows += o.Rows
	t.Written += o.Written
	t.Failed += o.Failed
	t.Queries += o.Queries
	t.EmptyQueries += o.EmptyQueries
	t.PartitionQueries += o.PartitionQueries
	t.Steps += o.Steps
	t.CriticalPath = max(t.CriticalPath, o.CriticalPath)
	t.Requests += o.Requests
	t.Throttles += o.Throttles
	t.Doubts += o.Doubts
}

// Progress is how far a sweep is.
type Progress struct {
	Totals
	Run      Totals        // of these, what this run did
	Elapsed  time.Duration // of this run
	Ranges   int           // steps and pages left
	Buffered int64         // rows read and not done
	Reading  int           // queries under way
	Working  int           // units under way
	Limit    int           // of queries and units under way that was found to pay
	Bytes    int64         // of the pages that this run has read
	Stopping bool          // interrupted: what is under way ends
	// Left is how many rows are believed unread; ok is false while nobody knows.
	Left   float64
	LeftOK bool
	Ended  bool
	told   float64 // the largest share that was told before
}

// believable is the least share that is told. Ahead of it, strands know too little.
const believable = 0.3

// Share returns the share of the rows that is done, from 0 to 1; ok is false
// while it can't be told. It never falls during a run.
func (p Progress) Share() (share float64, ok bool) {
	if p.Ended {
		return 1, true
	}
	left := p.Left + float64(p.Buffered)
	if !p.LeftOK || p.Rows == 0 {
		return 0, false
	}
	share = max(p.told, float64(p.Rows)/(float64(p.Rows)+left))
	return share, share >= believable
}

// left estimates the rows that the steps of the frontier stand for. Steps of
// strategies that believe nothing make it unknown, as do strands that go on after
// a resume, until they have read a page.
func (r *run) left() (rows float64, ok bool) {
	// The few strands that seem endless are mostly wrong. None is thought to have
	// more than a part of what all have read.
	const part = 16
	if !r.steals {
		return 0, false
	}
	most := float64(r.totals.Rows+r.frontier.buffered) / part
	for n := r.frontier.first(); n != nil; n = r.frontier.after(n) {
		if n.state == working {
			continue
		}
		var left float64
		var known bool
		if n.strand != nil {
			left, known = r.model.Left(n.strand)
			left = min(left, most)
		} else {
			left, known = adaptive.Left(n.step)
			left *= float64(r.scan.Segment)
		}
		if !known {
			return 0, false
		}
		if n.through != nil {
			left = float64(r.scan.Segment)
		}
		rows += left
	}
	return rows, true
}
