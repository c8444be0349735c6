// Package engine runs scans by queue messages: one message, one step.
//
// A message is delivered at least once, and a process may die at any point, so
// every step goes through the ledger in one order: look whether it is still
// pending; read and do the action's writes, which repeating does not change;
// commit; send the children's messages. What a crash in between leaves, the
// next delivery or [Engine.Maintain] completes. DESIGN.md has the table.
package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/action"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/problem"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/storage"
)

// Strategies lists the names of the strategies, the default first.
var Strategies = []string{"adaptive", prefixStrategy, "serial"}

const prefixStrategy = "prefix"

// MaxDeliveries is how often the host delivers a message before it gives up:
// maxDequeueCount in host.json, which a test compares.
const MaxDeliveries = 5

// defaultRetention is how long scans are kept after their end.
const defaultRetention = 90 * 24 * time.Hour

const (
	stepTime      = 8 * time.Minute  // a step's own deadline, below host.json's functionTimeout
	segmentTime   = 20 * time.Second // after it, an invocation reads no further segment
	segmentBytes  = 16 << 20         // nor after this much
	scanCacheTime = 5 * time.Second
	hintsTime     = 10 * time.Minute // that an idle scan's hints are kept after that
	startTime     = 4 * time.Minute  // for recording that a scan starts; below unfinishedStart
	afterwork     = 30 * time.Second // for recording a failure when a step's time is up
	endTime       = time.Minute      // for recording a scan's end, and what it has learned
)

// Options configure an [Engine].
type Options struct {
	// Own is the app's own account: it has the queues and the state table.
	Own *storage.Account
	// Accounts holds the accounts that scans may use, by the names of their
	// settings. A request that names none means the one called AzureWebJobsStorage.
	Accounts map[string]*storage.Account
	// StateTable is the ledger's table.
	StateTable string
	// SegmentsPerInvocation is the number of queries an invocation may make;
	// 0 means 4 for a count and 1 for others.
	SegmentsPerInvocation int
	// FoldEvery is how many done steps are folded at once, on the mean; 0 means 48.
	FoldEvery int
	// Retention is how long scans are kept after their end; 0 means 90 days. Messages live 7.
	Retention time.Duration
	// Price is what 10,000 storage requests cost, in dollars.
	Price float64
	// Now is the app's own clock; nil means time.Now. It only dates scans and steps:
	// what has become of a message is told by the service's clock, since those of
	// two instances may differ.
	Now func() time.Time
}

// Engine runs scans. It is safe for concurrent use.
type Engine struct {
	options Options
	ledger  *ledger.Ledger
	heart   *heart
	present presence
	details details
	queues  map[string]*storage.Queue // by function
	limiter action.Limiter            // of requests to busy partitions

	mu    sync.Mutex
	scans map[string]cachedScan // guarded by mu
}

// cachedScan is a scan as it was read a few seconds ago.
type cachedScan struct {
	running *running
	until   time.Time
}

// New returns an engine. [Engine.Prepare] must be called before others.
func New(o Options) (*Engine, error) {
	if o.FoldEvery == 0 {
		o.FoldEvery = foldEvery
	}
	if o.Retention == 0 {
		o.Retention = defaultRetention
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	e := &Engine{options: o, queues: map[string]*storage.Queue{}, scans: map[string]cachedScan{}}
	e.present.scans = map[string]*attended{}
	e.ledger = ledger.New(o.Own.Table(o.StateTable))
	e.heart = newHeart(e.ledger.Beat)
	for function, name := range Queues {
		q, err := o.Own.Queue(name)
		if err != nil {
			return nil, err
		}
		e.queues[function] = q
	}
	return e, nil
}

// Prepare creates the state table and the queues where they are missing.
func (e *Engine) Prepare(ctx context.Context) error {
	if err := e.options.Own.Table(e.options.StateTable).Create(ctx); err != nil {
		return err
	}
	for _, function := range slices.Sorted(maps.Keys(e.queues)) {
		if err := e.queues[function].Create(ctx); err != nil {
			return err
		}
	}
	return nil
}

// table opens the table that a request's field refers to.
func (e *Engine) table(field string, ref TableRef) (*storage.Table, error) {
	a, err := e.account(field, ref.Connection)
	if err != nil {
		return nil, err
	}
	return a.Table(ref.Table), nil
}

// account returns the account of a connection that a request's field names.
func (e *Engine) account(field, connection string) (*storage.Account, error) {
	name := cmp.Or(connection, storage.HostConnection)
	a, ok := e.options.Accounts[name]
	if !ok {
		return nil, problem.Invalidf(field+".connection", "%q is not among the app's connections; add the setting's name to TABLESWEEP_CONNECTIONS", name)
	}
	return a, nil
}

// StrategyFor returns the strategy that the request asks for. Only adaptive takes
// hints.
func StrategyFor(r Request, hints *adaptive.Hints) scan.Strategy {
	if r.Action.Type == Keys { // only this one can step over rows
		return scan.Prefix{KeepPartitions: true}
	}
	switch r.Strategy {
	case "serial":
		return scan.Serial{}
	case prefixStrategy:
		return scan.Prefix{FirstSegments: r.SegmentsPerFirstPrefix, NextSegments: r.SegmentsPerSubsequentPrefix}
	}
	return adaptive.Strategy{Hints: hints}
}

// Start records a scan and sends its first message. It returns the scan's id.
// It asks the source for one row, so that a missing table or a bad filter is
// told at once, and creates a copy's destination table.
func (e *Engine) Start(ctx context.Context, r Request) (string, error) {
	run, err := e.open(r, nil)
	if err != nil {
		return "", err
	}
	if err := e.checkDestination(run); err != nil {
		return "", err
	}
	if err := probe(ctx, run.source, r); err != nil {
		return "", err
	}
	if run.work.prepare != nil {
		if err := run.work.prepare(ctx); err != nil {
			return "", err
		}
	}
	hints, err := e.ledger.SavedHints(ctx, run.hintsName())
	if err != nil {
		return "", err
	}
	usable, err := usableHints(hints, r)
	if err != nil {
		warnOfHints(ctx, err)
		hints = nil
	}
	if run, err = e.open(r, usable); err != nil {
		return "", err
	}
	now := e.options.Now()
	id := ledger.NewID(now)
	m := message{Version: messageVersion, Scan: id, Step: run.strategy.Start(r.Range)}
	first, err := m.step()
	if err != nil {
		return "", err
	}
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := e.ledger.Create(starting, id, now, r.json(), hints, first, m.ahead()); err != nil {
		return "", err
	}
	// The scan is recorded now: if its message is lost, Maintain sends it.
	if err := e.send(ctx, first); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Str("scan", id).Msg("first message not sent; Maintain will send it")
	}
	return id, nil
}

// probe asks the source for a row with the request's filter and properties.
func probe(ctx context.Context, source *storage.Table, r Request) error {
	_, err := source.Query(ctx, storage.Query{Range: r.Range.Range(), Filter: r.Filter, Select: r.Select, Top: 1})
	switch {
	case err == nil:
		return nil
	case storage.NotFound(err):
		return problem.NotFoundf("source.table", "table %s does not exist in that account", r.Source.Table).Because(err)
	case storage.Permanent(err) && r.Filter != "" && !denied(err):
		return problem.Invalidf("filter", "the Table service refuses it").Because(err)
	case storage.Permanent(err):
		return problem.Invalidf("source", "the Table service refuses to read it; check the connection and its permissions").Because(err)
	}
	return err
}

// checkDestination refuses destinations that the scan would spoil.
func (e *Engine) checkDestination(run *running) error {
	destination := run.work.destination
	switch {
	case destination == nil:
		return nil
	case destination.Same(run.source):
		return problem.Invalidf("action.destination", "is the source itself; name another table or connection")
	case destination.Same(e.options.Own.Table(e.options.StateTable)):
		return problem.Invalidf("action.destination.table", "is the table that keeps this app's scans; name another")
	}
	return nil
}

// createDestination creates the table unless it exists. That it exists is enough
// for an identity that may write but not create.
func createDestination(ctx context.Context, t *storage.Table) error {
	err := t.Create(ctx)
	if err == nil {
		return nil
	}
	if storage.HasCode(err, "TableBeingDeleted") {
		return problem.Conflictf("action.destination.table", "is being deleted; try again in a minute").Because(err)
	}
	if denied(err) {
		if _, readErr := t.Query(ctx, storage.Query{Top: 1}); readErr == nil {
			return nil
		}
	}
	if storage.Permanent(err) {
		return problem.Invalidf("action.destination", "the Table service refuses to create it; check the name, the connection and its permissions").Because(err)
	}
	return err
}

func denied(err error) bool {
	var e *storage.Error
	return errors.As(err, &e) && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden)
}

// send puts a step's message into its function's queue.
func (e *Engine) send(ctx context.Context, s ledger.Step) error {
	m, err := parseMessage(s.Message)
	if err != nil {
		return err
	}
	return e.queues[m.function()].Put(ctx, encode(s.Message))
}
