package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tablesweep/internal/adaptive"
	"tablesweep/internal/ledger"
	"tablesweep/internal/problem"
	"tablesweep/internal/task"
)

// Status is a scan as GET /api/scans/{id} tells it.
type Status struct {
	ID         string       `json:"id"`
	State      ledger.State `json:"state"`
	Source     TableRef     `json:"source"`
	Action     Action       `json:"action"`
	StartedAt  time.Time    `json:"startedAt"`
	FinishedAt *time.Time   `json:"finishedAt,omitempty"`
	Rows       struct {
		Scanned int64 `json:"scanned"`
		Written int64 `json:"written"`
		Failed  int64 `json:"failed"`
	} `json:"rows"`
	Steps struct {
		Pending int64 `json:"pending"`
		Done    int64 `json:"done"`
	} `json:"steps"`
	// Leased tells of the steps that processes have in hand, as far as they have said so:
	// those that take a while. It is nil if there are none.
	Leased *Leased `json:"leased,omitempty"`
	// Progress is the share of the work that is done, from 0 to 1, as far as
	// what has been read tells. Only a running scan by the adaptive strategy
	// has it, and only when it can be believed. It may fall when more rows come
	// to light.
	Progress     *float64 `json:"progress,omitempty"`
	Queries      int64    `json:"queries"`
	Transactions int64    `json:"transactions"`
	Error        string   `json:"error,omitempty"`
}

// Leased tells of steps that were begun, and neither committed nor found lost.
type Leased struct {
	Steps int64 `json:"steps"`
	// Until is when they are sent again at the latest if their processes are dead now.
	Until time.Time `json:"until"`
}

// repairTime is how long after a process's last word its steps are sent again at the latest:
// Maintain runs every minute, and takes lookTime. If the instance that ran Maintain is lost,
// too, it takes a minute longer.
const repairTime = 90 * time.Second

// Status returns a scan's status. Its figures are sums over committed steps;
// summing costs a query per thousand steps while the scan runs.
func (e *Engine) Status(ctx context.Context, id string) (Status, error) {
	s, err := e.ledger.Scan(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return Status{}, &problem.Error{Kind: problem.NotFound, Field: "id", Detail: fmt.Sprintf("there is no scan %q", id)}
	}
	if err != nil {
		return Status{}, err
	}
	totals, ahead, beats := s.Totals, backlog{ids: map[string]bool{}}, []ledger.Beat(nil)
	// An end that was reached, and not forced, has the totals.
	if s.State == ledger.Running || s.Totals.Steps == 0 {
		g, ctx := task.WithContext(ctx)
		g.Go(func() (err error) { totals, err = e.ledger.Totals(ctx, id); return err })
		g.Go(func() error {
			return e.ledger.EachPending(ctx, id, func(steps []ledger.Pending) error { ahead.add(steps); return nil })
		})
		g.Go(func() (err error) { beats, err = e.ledger.Beats(ctx); return err })
		if err := g.Wait(); err != nil {
			return Status{}, err
		}
	}
	st, err := newStatus(s, totals, ahead)
	if s.State == ledger.Running {
		st.Leased = leased(ahead.ids, beats)
	}
	return st, err
}

// leased returns what beats tell of pending steps. A process that has said nothing for
// repairTime holds none.
func leased(pending map[string]bool, beats []ledger.Beat) *Leased {
	held := map[string]bool{}
	var until time.Time
	for _, b := range beats {
		if b.Age >= repairTime {
			continue
		}
		for _, step := range b.Steps {
			if !pending[step] {
				continue
			}
			held[step] = true
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

// backlog sums up pending steps.
type backlog struct {
	steps int64
	ids   map[string]bool
	ahead adaptive.Outlook // of the steps, descendants included
}

func (b *backlog) add(steps []ledger.Pending) {
	for _, p := range steps {
		b.steps++
		b.ids[p.ID] = true
		m, err := parseMessage(p.Message)
		ahead := adaptive.Ahead(m.Step)
		if err == nil && m.Rows {
			ahead = adaptive.Pages(1)
		}
		b.ahead = b.ahead.And(ahead)
	}
}

func newStatus(s ledger.Scan, t ledger.Totals, ahead backlog) (Status, error) {
	r, err := requestOf(s)
	if err != nil {
		return Status{}, err
	}
	st := Status{
		ID: s.ID, State: s.State, Source: r.Source, Action: r.Action, StartedAt: s.Started,
		Queries: t.Queries, Transactions: t.Transactions, Error: s.Error,
	}
	if !s.Finished.IsZero() {
		st.FinishedAt = &s.Finished
	}
	st.Rows.Scanned, st.Rows.Written, st.Rows.Failed = t.Rows, t.Written, t.Failed
	st.Steps.Pending, st.Steps.Done = ahead.steps, t.Steps
	if s.State == ledger.Running && ahead.steps > 0 {
		if progress, ok := ahead.ahead.Progress(float64(t.Rows) / float64(r.segmentSize())); ok {
			st.Progress = &progress
		}
	}
	return st, nil
}

// List returns the status of the newest scans, n at most.
func (e *Engine) List(ctx context.Context, n int) ([]Status, error) {
	ids, err := e.ledger.Recent(ctx, n)
	if err != nil {
		return nil, err
	}
	statuses := make([]*Status, len(ids))
	g, ctx := task.WithContext(ctx)
	g.SetLimit(8)
	for i, id := range ids {
		g.Go(func() error {
			s, err := e.Status(ctx, id)
			switch {
			case err == nil:
				statuses[i] = &s
			case problem.Of(err).Kind == problem.NotFound:
				return nil // being created, or never completed
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	list := []Status{}
	for _, s := range statuses {
		if s != nil {
			list = append(list, *s)
		}
	}
	return list, nil
}

// Cancel ends a running scan: its pending steps are kept and not worked on.
func (e *Engine) Cancel(ctx context.Context, id string) error {
	err := e.ledger.Cancel(ctx, id, e.options.Now())
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return &problem.Error{Kind: problem.NotFound, Field: "id", Detail: fmt.Sprintf("there is no scan %q", id)}
	case errors.Is(err, ledger.ErrNotRunning):
		if s, err := e.ledger.Scan(ctx, id); err != nil || s.State == ledger.Canceled {
			return err // canceled before, perhaps by this very request, which a host may repeat
		}
		return &problem.Error{Kind: problem.Conflict, Field: "id", Detail: "the scan has already ended"}
	}
	return err
}
