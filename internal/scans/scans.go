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
	ScanTime  = time.Second      // how old a scan's state may be when a step begins, or a request of it to the data
	hintsTime = 10 * time.Minute // how long an idle scan's hints stay cached
	StartTime = 30 * time.Second // to check a request, and to record that its scan starts: a caller waits
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
	// Price is what 10,000 storage requests cost, in dollars.
	Price float64
	// Now is the process's own clock; nil means time.Now. It dates done steps, for their order alone. All else is by the
	// service's clock, since the clocks of two instances may differ.
	Now func() time.Time
}

// Scans is what all rooms share: the app's accounts and queues, the ledger, and the scans that were read a short while ago. It is safe for
// concurrent use, as the types of the other rooms are.
type Scans struct {
	Options Options
	Ledger  *ledger.Ledger
	Loaded  *Cache[*Loaded]
	Queues  map[string]*storage.Queue    // by function
	limiter action.Limiter               // of requests to busy partitions
	codec   func() (*place.Codec, error) // of all exports: for each page that it encodes at once it keeps 15 MB
}

// New returns what all rooms share.
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

// Now returns the time by the clock of the app's own storage, which dates scans. It makes a request if the process does not know it yet.
func (ss *Scans) Now(ctx context.Context) (time.Time, error) {
	return ss.Ledger.Now(ctx, ss.Options.Now())
}

// TryPrepare creates the state table and the queues where they are missing, without retries. Its
// caller calls it again, and must notice soon that the service is back.
func (ss *Scans) TryPrepare(ctx context.Context) error {
	once := storage.RequestOptions{Once: true}
	g, ctx := task.WithContext(ctx) // at once: each may be slow
	g.Go(func() error { return ss.Options.Own.Table(ss.Options.StateTable).With(once).Create(ctx) })
	for _, function := range Functions {
		g.Go(func() error { return ss.Queues[function].With(once).Create(ctx) })
	}
	return g.Wait()
}

// Account returns the account of a connection that a request's field names.
func (ss *Scans) Account(field, connection string) (*storage.Account, error) {
	name := cmp.Or(connection, storage.HostConnection)
	a, ok := ss.Options.Accounts[name]
	if !ok {
		return nil, problem.Invalidf(field+".connection", "%s is not among the app's connections; add the setting's name to TABLESWEEP_CONNECTIONS", secret.Name(name))
	}
	return a, nil
}
