package scans

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/split/strategy"
	"tablesweep/internal/storage"
)

// RunnableScan is a scan with all that its steps need, such as the opened places and the strategy.
type RunnableScan struct {
	Request Request
	Source  storage.Source // a table, or an [Export]
	Account string         // the source's account
	Began   time.Time      // the service's time before the source is read; set only by life.Checker
	Limiter *action.Limiter
	plan
	Strategy scan.Strategy
	Queries  int      // the maximum number of queries in an invocation
	Sizes    *Sizes   // learned from steps in this process; nil for a group
	Tables   []string // a group's tables; set only by life.Checker

	Filter string         // in the service's form
	Other  storage.Source // the second place of a comparison
	Reader storage.Source // reads both places of a comparison; nil for other scans
}

// Table returns the source if it is a table, and nil otherwise.
func (o *RunnableScan) Table() *storage.Table {
	t, _ := o.Source.(*storage.Table)
	return t
}

// Export returns the scan's source if the source is an export. Otherwise, it returns nil.
func (o *RunnableScan) Export() *Export {
	x, _ := o.Source.(*Export)
	return x
}

// Open opens a request's places and chooses the scan's strategy. To add hints, call [RunnableScan.Use]. The errors of
// Open are [problem.Invalid].
func (ss *Scans) Open(r Request) (*RunnableScan, error) {
	if r.IsGroup() {
		return ss.openGroup(r)
	}
	if err := r.checkNames(); err != nil {
		return nil, err
	}
	o := &RunnableScan{Request: r, Strategy: strategyOf(r, nil), Limiter: &ss.limiter, Filter: r.Filter, Sizes: &Sizes{}}
	a, err := ss.Account("source", r.Source.Connection)
	if err != nil {
		if d := r.Action.Destination; d != nil {
			_, other := ss.Account("action.destination", d.Connection)
			err = errors.Join(err, other)
		}
		return nil, err
	}
	o.Account = a.String()
	if r.Source.Container == "" {
		o.Source = a.Table(r.Source.Table)
	} else if o.Source, err = ss.exportAt("source", r.Source); err != nil {
		return nil, err
	}
	if r.Action.Type == Verify {
		o.plan, err = ss.comparison(r, o)
	} else {
		o.plan, err = ss.plan(r, o.Table())
	}
	if err != nil {
		return nil, err
	}
	o.Queries = cmp.Or(r.SegmentsPerInvocation, ss.Options.SegmentsPerInvocation, o.Work.queries())
	if r.Limits != nil && r.SegmentsPerInvocation == 0 && o.Container == nil {
		o.Queries = 1 // for an even rate
	}
	return o, nil
}

// RequestOf returns the request of a recorded scan.
func RequestOf(s ledger.Scan) (Request, error) {
	var r Request
	if err := json.Unmarshal(s.Request, &r); err != nil {
		return r, fmt.Errorf("request of scan %s: %w", s.ID, err)
	}
	return r, nil
}

// Loaded is a scan that was read, with its state at that time.
type Loaded struct {
	*RunnableScan
	State   ledger.State
	Attempt int64
	Resumed time.Time // when the attempt began; zero in the first attempt
	Members int64     // the number of a group's members; 0 for other scans
}

// CheckRunning returns nil if the scan is running, and otherwise an error that makes the caller drop the step's
// message.
func (s *Loaded) CheckRunning() error {
	if s.State == ledger.Running {
		return nil
	}
	return problem.Stalef("", "the scan has ended: its state is %s", s.State)
}

// MayProceed returns an error if the scan's steps must not send another request.
func (ss *Scans) MayProceed(ctx context.Context, id ledger.ScanID) error {
	s, err := ss.Load(ctx, id)
	if err != nil {
		return err
	}
	return s.CheckRunning()
}

// Load returns the scan as it was at most [ScanTime] ago. An ended scan may be restarted at any time, so Load reads
// again before it returns a state other than running. A member counts as running only while its group is running.
func (ss *Scans) Load(ctx context.Context, id ledger.ScanID) (*Loaded, error) {
	s, err := ss.loadScan(ctx, id)
	group, _, member := id.InGroup()
	if err != nil || !member || s.State != ledger.Running {
		return s, err
	}
	of, err := ss.loadScan(ctx, group)
	if err != nil || of.State == ledger.Running {
		return s, err
	}
	ended := *s
	ended.State = of.State
	return &ended, nil
}

func (ss *Scans) loadScan(ctx context.Context, id ledger.ScanID) (*Loaded, error) {
	own, called := false, time.Now()
	read := func(was *Loaded) (*Loaded, error) {
		own = true
		return ss.loadAnew(ctx, id, was)
	}
	s, err := ss.Loaded.Get(ctx, id, read)
	if err != nil || own || s.State == ledger.Running {
		return s, err
	}
	return ss.Loaded.getSince(ctx, id, called, read) // the scan may have been restarted since s was read
}

// loadAnew reads a scan. The argument `earlier` is the result of an earlier call, or nil. A scan's [RunnableScan] never
// changes. So if `earlier` is not nil, loadAnew takes the RunnableScan from `earlier`.
func (ss *Scans) loadAnew(ctx context.Context, id ledger.ScanID, earlier *Loaded) (*Loaded, error) {
	s, err := ss.Ledger.Scan(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, problem.Stalef("scan", "the scan is not in the ledger; its record was deleted").Because(err)
	}
	if err != nil {
		return nil, err
	}
	if earlier != nil {
		return &Loaded{earlier.RunnableScan, s.State, s.Attempt, s.Resumed, s.Members}, nil
	}
	r, err := ParseStored(s.Request)
	if err != nil {
		return nil, err
	}
	o, err := ss.Open(r)
	if err != nil {
		return nil, FatalIfOwn(err)
	}
	if err := ss.ownHints(ctx, id, o); err != nil {
		return nil, err
	}
	return &Loaded{o, s.State, s.Attempt, s.Resumed, s.Members}, nil
}

// Of the strategies, only adaptive uses hints.
func strategyOf(r Request, hints *scan.Hints) scan.Strategy {
	switch {
	case r.Action.Type == Keys && r.Strategy == strategy.Prefix:
		return scan.Prefix{KeepPartitions: true}
	case r.Action.Type == Keys:
		return adaptive.Strategy{Partitions: true}
	}
	return strategy.New(r.Strategy, strategy.Options{Hints: hints, PageRows: r.PageRows(), FirstSegments: r.SegmentsPerFirstPrefix, NextSegments: r.SegmentsPerSubsequentPrefix})
}
