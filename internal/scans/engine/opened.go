package engine

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

// opened is a scan with what its steps need.
type opened struct {
	request Request
	source  storage.Source // a table, or an [export]
	account string         // of the source
	began   time.Time      // before it was read, by the service's clock; only check sets it
	limiter *action.Limiter
	plan
	strategy scan.Strategy
	queries  int      // the most of an invocation
	sizes    *sizes   // of what steps have read in this process; nil for a group
	tables   []string // of a group; only check sets it

	filter string         // of the rows that are read, as the service takes it
	other  storage.Source // that a comparison reads beside the source
	reader storage.Source // of both; nil for other scans
}

// table returns the source if it is a table, and nil if it is not.
func (o *opened) table() *storage.Table {
	t, _ := o.source.(*storage.Table)
	return t
}

// export returns the source if it is an export, and nil if it is not.
func (o *opened) export() *export {
	x, _ := o.source.(*export)
	return x
}

// open turns a request into tables and a strategy without hints. Its errors are [problem.Invalid].
func (ss *Scans) open(r Request) (*opened, error) {
	if r.isGroup() {
		return ss.openGroup(r)
	}
	if err := r.checkNames(); err != nil {
		return nil, err
	}
	o := &opened{request: r, strategy: strategyOf(r, nil), limiter: &ss.limiter, filter: r.Filter, sizes: &sizes{}}
	a, err := ss.account("source", r.Source.Connection)
	if err != nil {
		if d := r.Action.Destination; d != nil {
			_, other := ss.account("action.destination", d.Connection)
			err = errors.Join(err, other)
		}
		return nil, err
	}
	o.account = a.String()
	if r.Source.Container == "" {
		o.source = a.Table(r.Source.Table)
	} else if o.source, err = ss.exportAt("source", r.Source); err != nil {
		return nil, err
	}
	if r.Action.Type == Verify {
		o.plan, err = ss.comparison(r, o)
	} else {
		o.plan, err = ss.plan(r, o.table())
	}
	if err != nil {
		return nil, err
	}
	o.queries = cmp.Or(r.SegmentsPerInvocation, ss.options.SegmentsPerInvocation, o.work.queries())
	if r.Limits != nil && r.SegmentsPerInvocation == 0 && o.container == nil {
		o.queries = 1 // that the rate is even
	}
	return o, nil
}

// requestOf returns the request of a scan that was recorded.
func requestOf(s ledger.Scan) (Request, error) {
	var r Request
	if err := json.Unmarshal(s.Request, &r); err != nil {
		return r, fmt.Errorf("request of scan %s: %w", s.ID, err)
	}
	return r, nil
}

// loaded is a scan with its state when it was read.
type loaded struct {
	*opened
	state   ledger.State
	attempt int64
	resumed time.Time // when the attempt began; zero in the first
	members int64     // of a group
}

// ended returns an error that drops the message of a step, if the scan does not run.
func (s *loaded) ended() error {
	if s.state == ledger.Running {
		return nil
	}
	return problem.Stalef("", "the scan has ended: its state is %s", s.state)
}

// mayGoOn returns an error unless a step of the scan may begin something, such as a transaction.
func (ss *Scans) mayGoOn(ctx context.Context, id string) error {
	s, err := ss.load(ctx, id)
	if err != nil {
		return err
	}
	return s.ended()
}

// load returns the scan as it was at most scanTime ago. One that has ended may be restarted at any
// time, so a state other than running is never older than the call. A group's member runs only while the group does.
func (ss *Scans) load(ctx context.Context, id string) (*loaded, error) {
	s, err := ss.loadScan(ctx, id)
	group, _, member := ledger.MemberOf(id)
	if err != nil || !member || s.state != ledger.Running {
		return s, err
	}
	of, err := ss.loadScan(ctx, group)
	if err != nil || of.state == ledger.Running {
		return s, err
	}
	ended := *s
	ended.state = of.state
	return &ended, nil
}

func (ss *Scans) loadScan(ctx context.Context, id string) (*loaded, error) {
	own, called := false, time.Now()
	read := func(was *loaded) (*loaded, error) {
		own = true
		return ss.loadAnew(ctx, id, was)
	}
	s, err := ss.loaded.get(ctx, id, read)
	if err != nil || own || s.state == ledger.Running {
		return s, err
	}
	return ss.loaded.since(ctx, id, called, read) // another caller began that reading, perhaps before a restart
}

// loadAnew reads a scan. was is the scan as it was read before; nil if it wasn't. Then only its state may have changed.
func (ss *Scans) loadAnew(ctx context.Context, id string, was *loaded) (*loaded, error) {
	s, err := ss.ledger.Scan(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, problem.Stalef("scan", "the scan is not in the ledger; its record was deleted").Because(err)
	}
	if err != nil {
		return nil, err
	}
	if was != nil {
		return &loaded{was.opened, s.State, s.Attempt, s.Resumed, s.Members}, nil
	}
	r, err := parseStored(s.Request)
	if err != nil {
		return nil, err
	}
	o, err := ss.open(r)
	if err != nil {
		return nil, final(err)
	}
	if err := ss.ownHints(ctx, id, o); err != nil {
		return nil, err
	}
	return &loaded{o, s.State, s.Attempt, s.Resumed, s.Members}, nil
}

// strategyOf returns the strategy of a request. Only adaptive takes hints.
func strategyOf(r Request, hints *scan.Hints) scan.Strategy {
	switch {
	case r.Action.Type == Keys && r.Strategy == strategy.Prefix:
		return scan.Prefix{KeepPartitions: true}
	case r.Action.Type == Keys:
		return adaptive.Strategy{Partitions: true}
	}
	return strategy.New(r.Strategy, strategy.Options{Hints: hints, PageRows: r.segmentSize(), FirstSegments: r.SegmentsPerFirstPrefix, NextSegments: r.SegmentsPerSubsequentPrefix})
}
