package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/problem"
	"tablesweep/internal/task"
)

// Status is the answer to GET /api/scans/{id}.
type Status struct {
	ID         string       `json:"id"`
	State      ledger.State `json:"state"`
	Request                 // as the scan was started
	StartedAt  time.Time    `json:"startedAt"`
	FinishedAt *time.Time   `json:"finishedAt,omitempty"`
	// Seconds is how long it has run, without the time between an end and a retry.
	Seconds float64 `json:"seconds"`
	Rows    struct {
		Scanned int64 `json:"scanned"`
		Written int64 `json:"written"`
		Failed  int64 `json:"failed"`
	} `json:"rows"`
	Steps struct {
		Pending int64 `json:"pending"`
		Done    int64 `json:"done"`
	} `json:"steps"`
	// Leased counts the steps that beats name: those that processes have had in hand for
	// a while. It is nil if there are none.
	Leased *Leased `json:"leased,omitempty"`
	// Progress estimates the share of the work that is done, from 0 to 1. Only a running scan by
	// the adaptive strategy has it, and only when the estimate is good enough. It may fall when
	// the scan finds more rows than expected.
	Progress *float64 `json:"progress,omitempty"`
	// Phase is one of the phases of a running scan.
	Phase string `json:"phase,omitempty"`
	// Rate is how many rows a second were read over the last minute. A running scan has it.
	Rate *float64 `json:"rate,omitempty"`
	// SecondsLeft is absent unless progress is known and the rate is steady.
	SecondsLeft  *float64 `json:"secondsLeft,omitempty"`
	Throttled    int64    `json:"throttled"` // requests that the storage throttled
	Cost         Cost     `json:"cost"`
	Queries      int64    `json:"queries"`
	Transactions int64    `json:"transactions"`
	Error        string   `json:"error,omitempty"`
}

// Cost is the cost of a scan's done steps.
type Cost struct {
	Requests int64   `json:"requests"`
	Dollars  float64 `json:"dollars"`
}

// Leased counts steps that were begun, and neither committed nor lost.
type Leased struct {
	Steps int64 `json:"steps"`
	// Until is when their messages are sent again at the latest if their processes are dead now.
	Until time.Time `json:"until"`
}

// repairTime is how long after a dead process's last beat its steps are sent again at the latest:
// Maintain runs every minute, and takes lookTime. It takes a minute longer if the
// instance is lost that ran Maintain.
const repairTime = 90 * time.Second

// Status returns a scan's status. Its figures are sums over committed steps. It makes at most
// three requests, unless folding is behind.
func (e *Engine) Status(ctx context.Context, id string) (Status, error) {
	found, err := e.ledger.Snapshot(ctx, id)
	if err != nil {
		return Status{}, notFound(id, err)
	}
	st, err := e.statusOf(found)
	if err != nil {
		return st, err
	}
	if found.Scan.State != ledger.Running {
		e.detailEnded(id)
		return st, nil
	}
	beats, err := e.ledger.Beats(ctx)
	if err != nil {
		return Status{}, err
	}
	st.Leased = leased(found, beats)
	if st.Phase == stalled && st.Leased != nil {
		st.Phase = Working
	}
	return st, nil
}

// notFound turns the ledger's error for a missing scan into [problem.NotFound].
func notFound(id string, err error) error {
	if errors.Is(err, ledger.ErrNotFound) {
		return problem.NotFoundf("id", "there is no scan %q", id)
	}
	return err
}

// leased counts the scan's pending steps that beats name. A process without a beat for
// repairTime holds none. If not all pending steps were read, a step counts as pending
// unless it is among the newest done ones.
func leased(s ledger.Snapshot, beats []ledger.Beat) *Leased {
	held := map[string]bool{}
	var until time.Time
	for _, b := range beats {
		if b.Age >= repairTime {
			continue
		}
		for _, h := range b.Steps {
			if h.Scan != s.Scan.ID || !s.Steps[h.Step] && (s.Whole || s.Done[h.Step]) {
				continue
			}
			held[h.Step] = true
			if u := b.At.Add(repairTime); u.After(until) {
				until = u
			}
		}
	}
	if len(held) == 0 {
		return nil
	}
	return &Leased{Steps: int64(len(held)), Until: until}
}

// statusOf returns a status without leased steps.
func (e *Engine) statusOf(found ledger.Snapshot) (Status, error) {
	pending, ahead := found.Sums.Pending()
	st, err := e.summaryOf(found.Scan, found.Sums.Totals, pending, found.Date)
	if err != nil || found.Scan.State != ledger.Running {
		return st, err
	}
	if share, ok := ahead.Progress(float64(st.Rows.Scanned) / float64(st.Request.segmentSize())); ok && pending > 0 {
		st.Progress = &share
	}
	p := ratesOf(found.Scan, found.Sums.Times.Points(), found.Sums.Times.Interval(), found.Date)
	st.Rate = &p.rate
	st.Phase = p.phase(st.Steps.Done, pending)
	if st.Progress != nil {
		st.SecondsLeft = p.left(st.Rows.Scanned, *st.Progress)
	}
	return st, nil
}

// summaryOf returns the part of a status that an ended scan has, too.
func (e *Engine) summaryOf(s ledger.Scan, t ledger.Totals, pending int64, now time.Time) (Status, error) {
	r, err := requestOf(s)
	if err != nil {
		return Status{}, err
	}
	st := Status{
		ID: s.ID, State: s.State, Request: r, StartedAt: s.Started, Seconds: s.Ran(now).Seconds(),
		Queries: t.Queries, Transactions: t.Transactions, Throttled: t.Throttled, Error: s.Error,
		Cost: Cost{Requests: t.Transactions, Dollars: float64(t.Transactions) / 10_000 * e.options.Price},
	}
	if !s.Finished.IsZero() {
		st.FinishedAt = &s.Finished
	}
	st.Rows.Scanned, st.Rows.Written, st.Rows.Failed = t.Rows, t.Written, t.Failed
	st.Steps.Pending, st.Steps.Done = pending, t.Steps
	return st, nil
}

// List returns the status of the newest scans, n at most, without leased steps. It makes one
// request, and one more for each running scan. For some minutes, the figures of a scan that was
// canceled or has failed are those of that moment.
func (e *Engine) List(ctx context.Context, n int) ([]Status, error) {
	scans, err := e.ledger.Recent(ctx, n)
	if err != nil {
		return nil, err
	}
	list := make([]Status, len(scans))
	g, ctx := task.WithContext(ctx)
	g.SetLimit(8)
	for i := range scans {
		g.Go(func() error {
			var err error
			if list[i], err = e.listed(ctx, scans[i]); errors.Is(err, ledger.ErrNotFound) {
				return nil // being created, or never completed
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(s Status) bool { return s.ID == "" }), nil
}

// listed returns the status of a scan in the list. It reads the scan if its row there has no summary.
func (e *Engine) listed(ctx context.Context, s ledger.Listed) (Status, error) {
	if s.Summarized {
		return e.summaryOf(s.Scan, s.Totals, s.Pending, s.Finished)
	}
	found, err := e.ledger.Snapshot(ctx, s.ID)
	if err != nil {
		return Status{}, err
	}
	return e.statusOf(found)
}

// Cancel ends a running scan. Its pending steps are kept, and their messages dropped.
func (e *Engine) Cancel(ctx context.Context, id string) error {
	ended, err := e.ledger.End(ctx, id, ledger.Canceled, e.options.Now(), "")
	if err != nil || ended {
		return notFound(id, err)
	}
	if s, err := e.ledger.Scan(ctx, id); err != nil || s.State == ledger.Canceled {
		return err // canceled before, perhaps by this very request, which a host may repeat
	}
	return problem.Conflictf("id", "the scan has already ended")
}
