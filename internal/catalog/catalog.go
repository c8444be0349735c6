package catalog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/stream/logtail"
	"tablesweep/internal/task"
)

const (
	// clearAfter is the age at which tombstones are deleted.
	// A writer gives up after applyTime.
	clearAfter = 24 * time.Hour
	applyTime  = 5 * time.Minute

	// schemaTrust is how long a process trusts the schema that it has read. A change of
	// schema waits for schemaWait, which is longer, before it moves a record.
	schemaTrust = 30 * time.Second
	commitTime  = 25 * time.Second // the most that a commit takes
	serviceTime = 30 * time.Second // the most that the service takes for a request (Microsoft Learn, "Setting timeouts for Table service operations")
	SchemaWait  = schemaTrust + commitTime + serviceTime

	// maxBackground bounds the writes that are completed after their answer: on slow
	// storage, each may take minutes.
	maxBackground = 100

	// maxRaces is how often a write is decided anew after others have overtaken it.
	maxRaces = 50
)

// Options configure a [Catalog].
type Options struct {
	Name   string         // in messages
	Index  *storage.Table // of the index rows
	Log    *storage.Table
	Schema index.Schema
	// KeepChanges is how long changes are kept; 0 means 30 days.
	KeepChanges time.Duration
	Now         func() time.Time // nil means time.Now
}

// Catalog is a catalog of records. It is safe for concurrent use, and any number of
// processes may open the same one.
type Catalog struct {
	store.Store
	keepChanges time.Duration

	background task.Group
	reading    task.Group
	tidying    claim.Tidying
	rowSizes   logtail.Sizes // of index rows
	logSizes   logtail.Sizes // of changes

	mu    sync.Mutex // guards the fields below
	seen  time.Time  // when the stored schema was last found to be ours
	found bool       // false if none was stored
}

// New returns a catalog. Call [Catalog.Prepare] before use.
func New(o Options) *Catalog {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.KeepChanges == 0 {
		o.KeepChanges = 30 * 24 * time.Hour
	}
	c := &Catalog{Store: store.Store{Name: o.Name, Index: o.Index, Log: o.Log, Schema: o.Schema, Clock: o.Now}, keepChanges: o.KeepChanges}
	c.background.SetLimit(maxBackground)
	return c
}

// Close waits for the work that goes on after writes and queries were answered.
func (c *Catalog) Close() {
	_ = c.reading.Wait()    // its callers have the errors
	_ = c.background.Wait() // errors are logged; recovery does the rest
}

// later does work in the background. If the process dies first, or has too much work
// under way, the work is left for recovery.
func (c *Catalog) later(ctx context.Context, do func(context.Context) error) {
	left := func(err error) {
		zerolog.Ctx(ctx).Warn().Err(err).Str("catalog", c.Name).Msg("entry left for recovery")
	}
	started := c.background.TryGo(func() error {
		ctx, cancel := context.WithTimeout(storage.WithPatience(context.WithoutCancel(ctx), 0), applyTime) // nobody waits
		defer cancel()
		if err := task.Do(func() error { return do(ctx) }); err != nil {
			left(err)
		}
		return nil
	})
	if !started {
		left(fmt.Errorf("more than %d writes are being completed", maxBackground))
	}
}

// identityTaken is the refusal because another record has the identity.
func identityTaken(row string) error {
	return problem.Conflictf("", "a record with the same index values and row key (%s) exists with other contents; PUT replaces it", row)
}

// rowKeyTaken is the refusal because another record has the row key, see collision.
func rowKeyTaken(s index.Schema, cause error) error {
	return problem.Conflictf(s.Sort.Field, "another record is in the way, and the record was not written; change this value a little in one of the two").Because(cause)
}

// unknownToLog is the refusal because only index rows know the record.
func unknownToLog() error {
	return problem.Conflictf("", "the catalog's log does not know the record; tablesweep catalog check lists such rows, and tablesweep catalog export and catalog import bring them into another catalog")
}

// tooManyRaces is the error of a call that others have overtaken maxRaces times.
func tooManyRaces() error {
	return problem.Busyf("", "others keep changing this record; try again")
}

// Finding is one thing that is wrong with a catalog.
type Finding struct {
	Partition string `json:"partition"`
	Row       string `json:"row"`
	Problem   string `json:"problem"`
	Repaired  bool   `json:"repaired"`
}
