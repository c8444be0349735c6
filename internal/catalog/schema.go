package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// Prepare creates missing tables, and checks that the stored schema is that of the options.
// A catalog that another program wrote has no stored schema: it can be read, but not
// written before package migrate has taken it over.
func (c *Catalog) Prepare(ctx context.Context) error {
	return c.prepare(ctx, storage.RequestOptions{})
}

// TryPrepare does the same without retries. It is for callers that call it again, and must
// notice soon that the service is back.
func (c *Catalog) TryPrepare(ctx context.Context) error {
	return c.prepare(ctx, storage.RequestOptions{Once: true})
}

func (c *Catalog) prepare(ctx context.Context, o storage.RequestOptions) error {
	rows, log := c.Index.With(o), c.Log.With(o)
	for _, t := range []*storage.Table{rows, log} {
		if err := t.Create(ctx); err != nil {
			return fmt.Errorf("catalog %s: %w", c.Name, err)
		}
	}
	found, err := c.checkSchema(ctx, log)
	if err != nil || found {
		return err
	}
	err = rows.All(ctx, storage.Query{Top: 1}, func(p storage.Page) error {
		if len(p.Rows) > 0 {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) { // another program's rows
		return nil
	}
	if err != nil {
		return err
	}
	err = log.Write(ctx, storage.Op{Kind: storage.Insert, Row: c.SchemaRow(store.Ready).Row()})
	if storage.Conflict(err) {
		_, err = c.checkSchema(ctx, log)
	}
	return err
}

// Readable returns an error if the stored schema is not that of the options. It is for those who only read, and makes no
// table.
func (c *Catalog) Readable(ctx context.Context) error {
	_, err := c.askSchema(ctx)
	return err
}

// Now returns the service's time. It takes a request if no answer has told it yet.
func (c *Catalog) Now(ctx context.Context) (time.Time, error) {
	if _, known := c.Log.Now(c.Clock()); !known {
		if err := c.Readable(ctx); err != nil {
			return time.Time{}, err
		}
	}
	return c.ServiceNow(), nil
}

// errEnough ends a query early.
var errEnough = errors.New("enough")

// checkSchema compares the schema stored in the log's table with ours. found is false if none is
// stored.
func (c *Catalog) checkSchema(ctx context.Context, log *storage.Table) (found bool, err error) {
	row, found, err := log.Get(ctx, store.SchemaKey)
	if err != nil || !found {
		return found, err
	}
	if err := store.CheckFormat(row.Int("Format")); err != nil {
		return true, fmt.Errorf("catalog %s: its schema: %w", c.Name, err)
	}
	switch stored := row.Get("Schema"); {
	case row.Get("State") != store.Ready:
		return true, problem.Movingf("", "the records of catalog %s are being moved to the schema %s; try again later. If that was interrupted, finish it with: tablesweep catalog migrate; with the settings from before, the same command takes it back", c.Name, stored)
	case stored != c.Schema.String():
		return true, problem.Conflictf("", "catalog %s was written with the schema %s, but the settings say %s; restore the settings of the index keys and the row key, or move every record with: tablesweep catalog migrate", c.Name, stored, c.Schema)
	}
	return true, nil
}

// askSchema reads and remembers whether the stored schema is ours. found is false if none is
// stored.
func (c *Catalog) askSchema(ctx context.Context) (found bool, err error) {
	now := time.Now()
	if found, err = c.checkSchema(ctx, c.Log); storage.HasCode(err, "TableNotFound") {
		found, err = false, nil // another program's catalog may have no log
	}
	if err != nil {
		return found, err
	}
	c.mu.Lock()
	c.seen, c.found = now, found
	c.mu.Unlock()
	return found, nil
}

// trusted reports whether the stored schema was lately ours or missing, and whether there
// was one.
func (c *Catalog) trusted() (ours, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.seen.IsZero() && time.Since(c.seen) < schemaTrust, c.found
}

// Writable returns an error unless the stored schema is that of the options. Every write
// calls it. It asks the service only if the last answer is older than half a minute.
func (c *Catalog) Writable(ctx context.Context) error {
	if ours, found := c.trusted(); ours && found {
		return nil
	}
	found, err := c.askSchema(ctx)
	if err == nil && !found {
		err = problem.Conflictf("", "catalog %s holds records that another program wrote, or has lost its log; it can be read, but before any write run: tablesweep catalog migrate", c.Name)
	}
	return err
}

// checking checks in the background, while the caller reads, that the stored schema is ours
// or missing. The result waits for the check; if it fails, what was read does not count.
func (c *Catalog) checking(ctx context.Context) (result func() error) {
	if ours, _ := c.trusted(); ours {
		return func() error { return nil }
	}
	var g task.Group
	g.Go(func() error {
		_, err := c.askSchema(ctx)
		return err
	})
	return g.Wait
}
