package scans

import (
	"cmp"
	"context"
	"sync"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

const (
	ScanTime  = time.Second      // how old a scan's state may be when a step begins or sends a request to the source or destination
	hintsTime = 10 * time.Minute // how long an idle scan's hints stay cached
	StartTime = 30 * time.Second // the time limit for a start; it is short, because a caller waits
)

// Options configure [Scans].
type Options struct {
	// Own is the app's account, with the queues and the state table.
	Own *storage.Account
	// Accounts maps the names of settings to the accounts that scans may use. A request without a connection uses
	// AzureWebJobsStorage.
	Accounts map[string]*storage.Account
	// StateTable is the ledger's table.
	StateTable string
	// Kept lists the app's other tables (event log, catalogs, catalogs' logs), which no scan changes.
	Kept []*storage.Table
	// Packages is the container from which the app is deployed, if known. No scan exports into it.
	Packages Container
	// SegmentsPerInvocation applies to requests whose [Request.SegmentsPerInvocation] is 0.
	SegmentsPerInvocation int
	// FoldEvery is the average number of done steps that a fold replaces; 0 means 48.
	FoldEvery int
	// Retention is how long scans are kept after their end; 0 means 90 days. It must exceed the 7 days for which queues keep messages.
	Retention time.Duration
	// Memory is the budget from which steps take memory before they read; nil means no limit. Steps take at
	// most three quarters of the budget, so that the app's other work need not wait for them.
	Memory *memory.Budget
	// Price is the price of 10,000 storage requests, in dollars.
	Price float64
	// Now is the process's clock; nil means time.Now. Only the order of done steps depends on this clock. All other
	// times come from the service's clock, because the clocks of instances differ.
	Now func() time.Time
}

// Scans contains the app's accounts and queues, the ledger, and recently read scans. All parts of the engine share it.
// Scans and the types of the other parts are safe for concurrent use.
type Scans struct {
	Options Options
	Ledger  *ledger.Ledger
	Loaded  *Cache[*Loaded]
	Queues  map[string]*storage.Queue    // by function
	limiter action.Limiter               // limits requests to busy partitions
	codec   func() (*place.Codec, error) // shared by all exports; needs 15 MB for each page that is encoded concurrently
}

// New returns the Scans of an app.
func New(o Options) (*Scans, error) {
	o.FoldEvery, o.Retention = cmp.Or(o.FoldEvery, ledger.FoldEvery), cmp.Or(o.Retention, 90*24*time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Memory = o.Memory.Steps()
	ss := &Scans{
		Options: o, Ledger: ledger.New(o.Own.Table(o.StateTable)), Loaded: NewCache[*Loaded](ScanTime, hintsTime), Queues: map[string]*storage.Queue{},
		codec: sync.OnceValues(func() (*place.Codec, error) { return place.NewCodec(place.Zstd) }),
	}
	for _, function := range Functions {
		q, err := o.Own.Queue(Queues[function])
		if err != nil {
			return nil, err
		}
		ss.Queues[function] = q
	}
	return ss, nil
}

// Now returns the time by the clock of the app's own storage. If the process does not know this time yet, Now makes a
// request.
func (ss *Scans) Now(ctx context.Context) (time.Time, error) {
	return ss.Ledger.Now(ctx, ss.Options.Now())
}

// TryPrepare creates the state table and the queues if they are missing. It makes no retries, because its caller
// repeats the call.
func (ss *Scans) TryPrepare(ctx context.Context) error {
	once := storage.RequestOptions{Once: true}
	g, ctx := task.WithContext(ctx) // concurrently, because each request may be slow
	g.Go(func() error { return ss.Options.Own.Table(ss.Options.StateTable).With(once).Create(ctx) })
	for _, function := range Functions {
		g.Go(func() error { return ss.Queues[function].With(once).Create(ctx) })
	}
	return g.Wait()
}

// Account returns the account of the connection named in a request's field.
func (ss *Scans) Account(field, connection string) (*storage.Account, error) {
	name := cmp.Or(connection, storage.HostConnection)
	a, ok := ss.Options.Accounts[name]
	if !ok {
		return nil, problem.Invalidf(field+".connection", "%s is not among the app's connections; add the setting's name to TABLESWEEP_CONNECTIONS", secret.Name(name))
	}
	return a, nil
}
