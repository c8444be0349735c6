package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

const (
	// schemaTrust is how long a process may use a schema after reading it. Before a migration moves a record, it waits for
	// SchemaWait, which is longer than schemaTrust.
	schemaTrust = 30 * time.Second
	commitTime  = 25 * time.Second // maximum duration of a commit
	serviceTime = 30 * time.Second // maximum duration of a request in the service (Microsoft Learn, "Setting timeouts for Table service operations")
	SchemaWait  = schemaTrust + commitTime + serviceTime
)

// SchemaGuard checks that the schema stored in the log equals the schema of the options. A process with another schema must not
// write, and must not use what it reads.
type SchemaGuard struct {
	*store.Store

	mu     sync.Mutex // guards the fields below
	stored storedSchema
	readAt time.Time // when the last successful read of the stored schema began
}

// storedSchema is the remembered result of reading the stored schema. A read that finds a different schema does not change the
// remembered result.
type storedSchema int

const (
	schemaUnread  storedSchema = iota
	schemaMissing              // another program wrote the catalog, or its log is lost
	schemaOurs
)

// Prepare creates missing tables, and checks that the stored schema equals the schema of the options. A catalog of another
// program has no stored schema. Such a catalog can be read, but it cannot be written before package migrate has taken it over.
func (sg *SchemaGuard) Prepare(ctx context.Context) error {
	return sg.prepare(ctx, storage.RequestOptions{})
}

// TryPrepare is Prepare without retries. Its callers repeat the call themselves. Without retries, the callers notice sooner
// that the service is available again.
func (sg *SchemaGuard) TryPrepare(ctx context.Context) error {
	return sg.prepare(ctx, storage.RequestOptions{Once: true})
}

func (sg *SchemaGuard) prepare(ctx context.Context, o storage.RequestOptions) error {
	rows, log := sg.Index.With(o), sg.Log.With(o)
	for _, t := range []*storage.Table{rows, log} {
		if err := t.Create(ctx); err != nil {
			return fmt.Errorf("catalog %s: %w", sg.Name, err)
		}
	}
	found, err := sg.checkSchema(ctx, log)
	if err != nil || found {
		return err
	}
	err = rows.All(ctx, storage.Query{Top: 1}, func(p storage.Page) error {
		if len(p.Rows) > 0 {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) { // the index contains rows of another program
		return nil
	}
	if err != nil {
		return err
	}
	err = log.Write(ctx, storage.Op{Kind: storage.Insert, Row: sg.SchemaRow(store.Ready).Row()})
	if storage.Conflict(err) {
		_, err = sg.checkSchema(ctx, log)
	}
	return err
}

// Readable returns an error if the stored schema differs from the schema of the options. It does not create tables, so
// processes that only read use Readable instead of Prepare.
func (sg *SchemaGuard) Readable(ctx context.Context) error {
	_, err := sg.readSchema(ctx)
	return err
}

// Now returns the service's time, which is learned from the service's answers. Without an answer so far, Now makes a request.
func (sg *SchemaGuard) Now(ctx context.Context) (time.Time, error) {
	if _, known := sg.Log.Now(sg.Clock()); !known {
		if err := sg.Readable(ctx); err != nil {
			return time.Time{}, err
		}
	}
	return sg.ServiceNow(), nil
}

var errEnough = errors.New("enough")

// checkSchema compares the schema that the log's table contains with the schema of the options. If no schema is stored, found
// is false.
func (sg *SchemaGuard) checkSchema(ctx context.Context, log *storage.Table) (found bool, err error) {
	row, found, err := log.Get(ctx, store.SchemaKey)
	if err != nil || !found {
		return found, err
	}
	if err := store.CheckFormat(row.Int("Format")); err != nil {
		return true, fmt.Errorf("catalog %s: the stored schema cannot be read: %w", sg.Name, err)
	}
	switch stored := row.Get("Schema"); {
	case row.Get("State") != store.Ready:
		return true, problem.Movingf("", `the records of catalog %s are being moved to the schema %s; try again later. If the migration was interrupted, run "tablesweep catalog migrate": with the new settings, this command completes the migration; with the old settings, it moves the records back`, sg.Name, stored)
	case stored != sg.Schema.String():
		return true, problem.Conflictf("", "catalog %s was written with the schema %s, but the settings say %s; restore the earlier index keys and row key in the settings, or move all records with: tablesweep catalog migrate", sg.Name, stored, sg.Schema)
	}
	return true, nil
}

// readSchema reads the stored schema. If the stored schema differs from the schema of the options, readSchema returns an error.
// If no schema is stored, `found` is false. Unless it returns an error, readSchema records `found` and the time in sg.
func (sg *SchemaGuard) readSchema(ctx context.Context) (found bool, err error) {
	now := time.Now()
	if found, err = sg.checkSchema(ctx, sg.Log); storage.HasCode(err, "TableNotFound") {
		found, err = false, nil // a catalog of another program may have no log
	}
	if err != nil {
		return found, err
	}
	sg.mu.Lock()
	defer sg.mu.Unlock()
	sg.readAt, sg.stored = now, schemaMissing
	if found {
		sg.stored = schemaOurs
	}
	return found, nil
}

func (sg *SchemaGuard) lastRead() storedSchema {
	sg.mu.Lock()
	defer sg.mu.Unlock()
	return sg.stored
}

// trustedRead returns the result of the last read. If that read was too long ago, it returns schemaUnread.
func (sg *SchemaGuard) trustedRead() storedSchema {
	sg.mu.Lock()
	defer sg.mu.Unlock()
	if time.Since(sg.readAt) >= schemaTrust {
		return schemaUnread
	}
	return sg.stored
}

// Writable returns an error if the stored schema does not equal the schema of the options. Every write calls Writable. If a
// read in the last half minute found the two schemas equal, Writable makes no request.
func (sg *SchemaGuard) Writable(ctx context.Context) error {
	if sg.trustedRead() == schemaOurs {
		return nil
	}
	found, err := sg.readSchema(ctx)
	if err == nil && !found {
		err = problem.Conflictf("", "catalog %s can be read but not written, because another program wrote its records, or because its log was lost; to write, first run: tablesweep catalog migrate", sg.Name)
	}
	return err
}

// startCheck checks the stored schema in the background, while the caller reads. The returned function waits for the check, and
// returns an error if the stored schema differs from the schema of the options. After an error, the caller must not use the data
// that it has read.
func (sg *SchemaGuard) startCheck(ctx context.Context) (result func() error) {
	if sg.trustedRead() != schemaUnread {
		return func() error { return nil }
	}
	var g task.Group
	g.Go(func() error {
		_, err := sg.readSchema(ctx)
		return err
	})
	return g.Wait
}
