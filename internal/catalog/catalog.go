package catalog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

const (
	// shards is the number of the log's partitions, each of which takes 2,000
	// rows a second (Microsoft Learn, "Scalability and performance targets for Table
	// storage"). An insertion changes five. It can't be changed: heads are found by it.
	shards = 16

	// clearAfter is the age at which rows that say "gone" are cleared away, and
	// used idempotency keys with them. A writer gives up after applyTime.
	clearAfter = 24 * time.Hour
	applyTime  = 5 * time.Minute

	// schemaTrust is how long a process relies on having seen the schema; a change
	// of schema waits for longer before it moves a record.
	schemaTrust = 30 * time.Second
	commitTime  = 25 * time.Second // that a commit may take
	serviceTime = 30 * time.Second // that the service may take for a request (Microsoft Learn, "Setting timeouts for Table service operations")
	schemaWait  = schemaTrust + commitTime + serviceTime

	// maxBackground bounds the writes that are completed after their answer: with storage
	// that is slow, each may take minutes.
	maxBackground = 100

	// maxRaces is how often a write that another has overtaken is decided anew.
	maxRaces = 50
)

// Options configure a [Catalog].
type Options struct {
	Name   string         // what messages call it
	Index  *storage.Table // of the index rows
	Log    *storage.Table
	Schema index.Schema
	// KeepChanges is how long changes can be read; 0 means 30 days.
	KeepChanges time.Duration
	Now         func() time.Time // nil means time.Now
}

// Catalog is a catalog of records. It is safe for concurrent use, by any number of
// processes.
type Catalog struct {
	Options

	background task.Group
	reading    task.Group

	mu    sync.Mutex
	seen  time.Time // when the schema was last found to be ours
	found bool      // false if there was none
}

// New returns a catalog. [Catalog.Prepare] makes it ready.
func New(o Options) *Catalog {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.KeepChanges == 0 {
		o.KeepChanges = 30 * 24 * time.Hour
	}
	c := &Catalog{Options: o}
	c.background.SetLimit(maxBackground)
	return c
}

// Close waits for what goes on after a write or a query was answered.
func (c *Catalog) Close() {
	_ = c.reading.Wait()    // whoever asked has its errors
	_ = c.background.Wait() // what failed is logged, and left for recovery
}

// later does what need not keep the caller waiting. Recovery does it if the process
// dies first, or has too much of it under way.
func (c *Catalog) later(ctx context.Context, do func(context.Context) error) {
	left := func(err error) {
		zerolog.Ctx(ctx).Warn().Err(err).Str("catalog", c.Name).Msg("entry left for recovery")
	}
	started := c.background.TryGo(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyTime)
		defer cancel()
		if err := task.Do(func() error { return do(ctx) }); err != nil {
			left(err)
		}
		return nil
	})
	if !started {
		left(errCrowded)
	}
}

var errCrowded = fmt.Errorf("more than %d writes are being completed", maxBackground)
