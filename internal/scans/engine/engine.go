package engine

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

const (
	scanTime  = time.Second      // how old a scan's state may be when a step begins, or a request of it to the data
	hintsTime = 10 * time.Minute // how long an idle scan's hints stay cached
	startTime = 30 * time.Second // to check a request, and to record that its scan starts: a caller waits
)

// Options configure an [Engine].
type Options struct {
	// Own is the app's own account. It has the queues and the state table.
	Own *storage.Account
	// Accounts holds the accounts that scans may use, by the names of their
	// settings. A request without a name uses AzureWebJobsStorage.
	Accounts map[string]*storage.Account
	// StateTable is the ledger's table.
	StateTable string
	// Kept are the app's other tables: its event log's, its catalogs', and their logs'. No scan changes them.
	Kept []*storage.Table
	// Packages is the container that the app is deployed from, if it is known. No scan exports into it.
	Packages Container
	// SegmentsPerInvocation is the number of queries an invocation may make; 0 means 4 for a count and 1 for others.
	SegmentsPerInvocation int
	// FoldEvery is how many done steps are folded at once, on average; 0 means 48.
	FoldEvery int
	// Retention is how long scans are kept after their end; 0 means 90 days. Messages live 7 days: it must exceed that.
	Retention time.Duration
	// Memory is what steps take their part of before they read, and leave a quarter of to others; nil for no limit.
	Memory *memory.Budget
	// Schedules start scans by themselves.
	Schedules []Schedule
	// Price is what 10,000 storage requests cost, in dollars.
	Price float64
	// Now is the process's own clock; nil means time.Now. It dates done steps, for their order alone. All else is by the
	// service's clock, since the clocks of two instances may differ.
	Now func() time.Time
}

// Engine runs scans. It is safe for concurrent use.
type Engine struct {
	options Options
	ledger  *ledger.Ledger
	heart   *heart
	scans   *cache[*loaded]
	details *cache[ledger.Snapshot]
	heard   atomic.Pointer[heard]
	queues  map[string]*storage.Queue    // by function
	poison  []*storage.Queue             // into which a host puts messages that it gave up
	limiter action.Limiter               // of requests to busy partitions
	keys    claim.Tidying                // of requests that start scans
	looks   *cache[struct{}]             // at schedules, by who is about to read them
	codec   func() (*place.Codec, error) // of all exports: for each page that it encodes at once it keeps 15 MB
	tidied  atomic.Pointer[string]       // up to which ended scan Maintain has tidied up; nil to begin with the newest
}

// New returns an engine. Call [Engine.TryPrepare] before its other methods.
func New(o Options) (*Engine, error) {
	o.FoldEvery, o.Retention = cmp.Or(o.FoldEvery, ledger.FoldEvery), cmp.Or(o.Retention, 90*24*time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Memory = o.Memory.Steps()
	e := &Engine{
		options: o, queues: map[string]*storage.Queue{}, ledger: ledger.New(o.Own.Table(o.StateTable)),
		scans: newCache[*loaded](scanTime, hintsTime), details: newCache[ledger.Snapshot](detailTime, detailTime),
		looks: newCache[struct{}](readersLook, readersLook),
		codec: sync.OnceValues(func() (*place.Codec, error) { return place.NewCodec(place.Zstd) }),
	}
	e.heart = newHeart(e.waits, e.ledger.With(storage.RequestOptions{Once: true}).Beat)
	for _, function := range functions {
		q, err := o.Own.Queue(Queues[function])
		poisonous, poisonErr := o.Own.Queue(Queues[function] + poison)
		if err = cmp.Or(err, poisonErr); err != nil {
			return nil, err
		}
		e.queues[function], e.poison = q, append(e.poison, poisonous)
	}
	return e, nil
}

// Now returns the time by the clock of the app's own storage, which dates scans. It makes a request if the process does not know it yet.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	return e.ledger.Now(ctx, e.options.Now())
}

// TryPrepare creates the state table and the queues where they are missing, without retries. Its
// caller calls it again, and must notice soon that the service is back.
func (e *Engine) TryPrepare(ctx context.Context) error {
	once := storage.RequestOptions{Once: true}
	g, ctx := task.WithContext(ctx) // at once: each may be slow
	g.Go(func() error { return e.options.Own.Table(e.options.StateTable).With(once).Create(ctx) })
	for _, function := range functions {
		g.Go(func() error { return e.queues[function].With(once).Create(ctx) })
	}
	return g.Wait()
}

func (e *Engine) account(field, connection string) (*storage.Account, error) {
	name := cmp.Or(connection, storage.HostConnection)
	a, ok := e.options.Accounts[name]
	if !ok {
		return nil, problem.Invalidf(field+".connection", "%s is not among the app's connections; add the setting's name to TABLESWEEP_CONNECTIONS", secret.Name(name))
	}
	return a, nil
}
