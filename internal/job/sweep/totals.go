package sweep

import "time"

// Totals are the counts of a sweep. If a sweep was resumed, its totals include the counts of its earlier runs.
type Totals struct {
	Rows    int64 `json:"rows,omitempty"`    // rows that are done or failed
	Written int64 `json:"written,omitempty"` // rows for which the action succeeded
	Failed  int64 `json:"failed,omitempty"`  // rows for which the action failed

	// In a comparison of two tables, Rows counts the source's rows. Missing, Extra and Different count the rows that differ.
	Missing   int64 `json:"missing,omitempty"`
	Extra     int64 `json:"extra,omitempty"`
	Different int64 `json:"different,omitempty"`

	Queries          int64 `json:"queries,omitempty"`
	EmptyQueries     int64 `json:"emptyQueries,omitempty"`     // queries that returned no row
	PartitionQueries int64 `json:"partitionQueries,omitempty"` // queries within one partition
	Steps            int64 `json:"steps,omitempty"`
	CriticalPath     int64 `json:"criticalPath,omitempty"` // the length of the longest chain of steps in which each step had to wait for the previous one
	Requests         int64 `json:"requests,omitempty"`     // storage requests, including retries
	Throttles        int64 `json:"throttles,omitempty"`    // answers in which the service refused a request because it was too busy
	Doubts           int64 `json:"doubts,omitempty"`       // requests of the action that may have been applied although no answer came
}

// Add adds the counts of another unit, query or sweep.
func (t *Totals) Add(o Totals) {
	t.Rows += o.Rows
	t.Written += o.Written
	t.Failed += o.Failed
	t.Missing += o.Missing
	t.Extra += o.Extra
	t.Different += o.Different
	t.Queries += o.Queries
	t.EmptyQueries += o.EmptyQueries
	t.PartitionQueries += o.PartitionQueries
	t.Steps += o.Steps
	t.CriticalPath = max(t.CriticalPath, o.CriticalPath)
	t.Requests += o.Requests
	t.Throttles += o.Throttles
	t.Doubts += o.Doubts
}

// Progress is the progress of a sweep.
type Progress struct {
	Totals
	Run      Totals        // the totals of this run alone
	Elapsed  time.Duration // the duration of this run so far
	Ranges   int           // remaining steps and pages
	Buffered int64         // rows that were read and are not done
	Reading  int           // running queries
	Working  int           // running units
	Limit    int           // how many concurrent queries and units are worthwhile, according to the measurements so far
	Bytes    int64         // bytes of the pages that this run has read
	Stopping bool          // the sweep was interrupted, and waits for its running requests
	Ended    bool
}
