package catalog

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/logtail"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
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

// identify checks a record, and returns its identity.
func (c *Catalog) identify(r record.Record) (index.Identity, error) {
	get, err := c.lookup(r)
	if err != nil {
		return index.Identity{}, err
	}
	return c.Schema.Identity(get)
}

// lookup returns what finds the record's index and sort values, whatever the case
// of the fields' names.
func (c *Catalog) lookup(r record.Record) (func(field string) (string, bool), error) {
	values := map[string]string{}
	for _, f := range r.Fields {
		name := strings.ToLower(f.Name)
		if c.Schema.Rank(name) < 0 && strings.ToLower(c.Schema.Sort.Field) != name {
			continue
		}
		if f.Nested {
			return nil, problem.Invalidf(f.Name, "is an index key or the row key: it must be text, a number or a boolean")
		}
		if _, twice := values[name]; twice {
			return nil, problem.Invalidf(f.Name, "is there twice, in different case: send one of the two")
		}
		values[name] = keyText(r, f)
	}
	return func(field string) (string, bool) {
		v, ok := values[strings.ToLower(field)]
		return v, ok
	}, nil
}

// keyText returns the text of a field that keys are made of. Of a number it is the same
// however the number is spelt: the service spells it in its own way.
func keyText(r record.Record, f record.Field) string {
	text, _ := r.Get(f.Name)
	switch f.Type {
	case storage.Int32, storage.Int64, storage.Double:
		if n, ok := index.Number(text); ok { // NaN and the infinities are none
			return n
		}
	}
	return text
}

// First returns what all records with the record's first index value share.
func (c *Catalog) First(r record.Record) (string, error) {
	id, err := c.identify(r)
	if err != nil {
		return "", err
	}
	return id.First(), nil
}

// writeFor returns the write of a record with the identity; the version is to be set.
func writeFor(id index.Identity) wal.Write {
	return wal.Write{First: id.First(), Identity: id.Hash(), Row: id.Row, Partitions: id.Partitions}
}

func shardOf(first string) string { return shardName(index.Shard(first, shards)) }

func shardName(i int) string { return fmt.Sprintf("%02d", i) }

// newEntry returns an entry that follows the heads.
func (c *Catalog) newEntry(kind wal.Kind, first string, r record.Record, heads ...*wal.Head) entry {
	// Each has a clock of its own: one that has met the record of a writer whose clock is
	// far ahead must not date others.
	id := logtail.NewClock().NextKey(wal.After(c.Now(), heads...))
	t, err := logtail.KeyTime(id)
	if err != nil {
		panic("catalog: internal error: " + err.Error())
	}
	return entry{Entry: wal.Entry{Kind: kind, Time: t}, id: id, shard: shardOf(first), record: r}
}

func (c *Catalog) readHead(ctx context.Context, first, identity string) (*head, error) {
	row, found, err := c.Log.Get(ctx, headKey(shardOf(first), first, identity))
	if err != nil || !found {
		return nil, err
	}
	return headOf(row)
}
