package sweep

import "time"

// Totals are what a sweep has done, earlier runs of a resumed one included.
type Totals struct {
	Rows    int64 `json:"rows,omitempty"`    // rows done, whatever became of them
	Written int64 `json:"written,omitempty"` // of these, those that the action dealt with
	Failed  int64 `json:"failed,omitempty"`  // and those that it could not

	// Of two tables that are compared, Rows are the source's, and of these and of the
	// destination's differ:
	Missing   int64 `json:"missing,omitempty"`
	Extra     int64 `json:"extra,omitempty"`
	Different int64 `json:"different,omitempty"`

	Queries          int64 `json:"queries,omitempty"`
	EmptyQueries     int64 `json:"emptyQueries,omitempty"`     // queries that returned no row
	PartitionQueries int64 `json:"partitionQueries,omitempty"` // queries within one partition
	Steps            int64 `json:"steps,omitempty"`
	CriticalPath     int64 `json:"criticalPath,omitempty"` // steps that had to wait for each other, at most
	Requests         int64 `json:"requests,omitempty"`     // storage requests, retries included
	Throttles        int64 `json:"throttles,omitempty"`    // answers that the service is too busy
	Doubts           int64 `json:"doubts,omitempty"`       // requests of the action that may have been carried out without an answer
}

// Add adds what one more unit, query or sweep did.
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
	Ended    bool
}
