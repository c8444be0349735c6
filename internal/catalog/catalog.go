package catalog

import (
	"time"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/storage"
)

// Options configure a [Catalog].
type Options struct {
	Name   string         // for messages
	Index  *storage.Table // contains the index rows
	Log    *storage.Table
	Schema index.Schema
	// KeepChanges is how long changes are kept; 0 means 30 days.
	KeepChanges time.Duration
	Now         func() time.Time // nil means time.Now
}

// Catalog reads, writes and maintains a catalog of records. It is safe for concurrent use, and any number of processes may
// open the same catalog.
type Catalog struct {
	*store.Store
	*SchemaGuard
	*Reader
	*Writer
	*Maintainer
}

// New returns a catalog. Call [SchemaGuard.Prepare] before use.
func New(o Options) *Catalog {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.KeepChanges == 0 {
		o.KeepChanges = 30 * 24 * time.Hour
	}
	s := &store.Store{Name: o.Name, Index: o.Index, Log: o.Log, Schema: o.Schema, Clock: o.Now}
	guard := &SchemaGuard{Store: s}
	reader := &Reader{Store: s, guard: guard}
	commits := &committer{Store: s, guard: guard}
	commits.background.SetLimit(maxBackground)
	writes := &stages{s, commits}
	writer := &Writer{Store: s, guard: guard, reader: reader, chooser: &chooser{s, guard, reader, writes}, stages: writes, committer: commits}
	return &Catalog{s, guard, reader, writer, &Maintainer{Store: s, guard: guard, stages: writes, clearer: &clearer{s}, keepChanges: o.KeepChanges}}
}

// Close waits for the background work that continues after writes and queries are answered.
func (c *Catalog) Close() {
	_ = c.Reader.reading.Wait()              // the callers have received the errors
	_ = c.Writer.committer.background.Wait() // errors are logged, and Maintain completes the writes
}

// Finding is one problem found in a catalog.
type Finding struct {
	Partition string `json:"partition"`
	Row       string `json:"row"`
	Problem   string `json:"problem"`
	Repaired  bool   `json:"repaired"`
}
