package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// The states of the schema row.
const (
	ready  = "ready"
	moving = "moving" // a migration is moving records to the schema
)

var schemaKey = key.Key{Partition: "schema"}

// Prepare creates missing tables, and checks that the stored schema is that of the options.
// A catalog that another program wrote has no stored schema: it can be read, but not
// written before [Catalog.Migrate] has taken it over.
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
	empty := true
	err = rows.All(ctx, storage.Query{Top: 1}, func(p storage.Page) error {
		if len(p.Entities) > 0 {
			empty = false
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err != nil || !empty:
		return err
	}
	err = log.Write(ctx, storage.Op{Kind: storage.Insert, Entity: c.schemaRow(ready)})
	if storage.Conflict(err) {
		_, err = c.checkSchema(ctx, log)
	}
	return err
}

// Fits checks the stored schema as Prepare does, and changes nothing. It is for those who
// only read.
func (c *Catalog) Fits(ctx context.Context) error {
	_, err := c.checkSchema(ctx, c.Log)
	if storage.HasCode(err, "TableNotFound") {
		return nil // another program's catalog may have no log
	}
	return err
}

// errEnough ends a query early.
var errEnough = errors.New("enough")

func (c *Catalog) schemaRow(state string) storage.Entity {
	return storage.Entity{Key: schemaKey, Properties: []storage.Property{
		storage.Int64Property("Format", format),
		storage.StringProperty("Schema", c.Schema.String()),
		storage.StringProperty("State", state),
	}}
}

// checkSchema compares the schema stored in the log's table with ours. found is false if none is
// stored.
func (c *Catalog) checkSchema(ctx context.Context, log *storage.Table) (found bool, err error) {
	row, found, err := log.Get(ctx, schemaKey)
	if err != nil || !found {
		return found, err
	}
	if err := checkFormat(row.Int("Format")); err != nil {
		return true, fmt.Errorf("catalog %s: its schema: %w", c.Name, err)
	}
	conflict := func(format string, args ...any) error {
		return problem.Conflictf("", "catalog %s %s", c.Name, fmt.Sprintf(format, args...))
	}
	switch stored := row.Get("Schema"); {
	case stored != c.Schema.String():
		return true, conflict("was written with the schema %s, but the settings say %s; restore the settings of the index keys and the row key, or move every record with: handler catalog migrate", stored, c.Schema)
	case row.Get("State") != ready:
		return true, conflict("is being moved to the schema %s; finish that with: handler catalog migrate; with the settings from before, the same command takes it back", stored)
	}
	return true, nil
}

// look reads and remembers whether the stored schema is ours. found is false if none is
// stored.
func (c *Catalog) look(ctx context.Context) (found bool, err error) {
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
	found, err := c.look(ctx)
	if err == nil && !found {
		err = problem.Conflictf("", "catalog %s holds records that another program wrote; it can be read, but before any write take it over with: handler catalog migrate", c.Name)
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
		_, err := c.look(ctx)
		return err
	})
	return g.Wait
}

// stopWriters stores our schema. If it was another one or none, it also stops all writers
// and waits until they have noticed; stopped is then the schema row, and letIn ends the
// stop. The row says since when writers are stopped. So a migration that continues another
// one, or takes it back, waits only for the rest of the time.
func (c *Catalog) stopWriters(ctx context.Context) (stopped *storage.Entity, err error) {
	row, found, err := c.Log.Get(ctx, schemaKey)
	if err != nil || found && row.Get("Schema") == c.Schema.String() && row.Get("State") == ready {
		return nil, err
	}
	if !found || row.Get("Schema") != c.Schema.String() || row.Get("State") == ready {
		next := c.schemaRow(moving)
		switch {
		case found && row.Get("State") == ready:
		case found && row.Get(stoppedColumn) == "": // an earlier version wrote it
			next.Properties = append(next.Properties, storage.TimeProperty(stoppedColumn, row.Timestamp))
		case found:
			next.Properties = append(next.Properties, storage.TimeProperty(stoppedColumn, row.Time(stoppedColumn)))
		default: // there are no writers yet
			next.Properties = append(next.Properties, storage.TimeProperty(stoppedColumn, unixEpoch))
		}
		op := storage.Op{Kind: storage.Replace, Entity: next, IfMatch: row.ETag}
		if !found {
			op = storage.Op{Kind: storage.Insert, Entity: next}
		}
		if err := c.Log.Write(ctx, op); err != nil && !overtaken(err) {
			return nil, err
		}
	}
	for {
		row, date, err := c.schemaNow(ctx)
		switch {
		case err != nil:
			return nil, err
		case row.Get("Schema") != c.Schema.String() || row.Get("State") != moving:
			return nil, c.anotherMove()
		}
		since := row.Timestamp
		if row.Get(stoppedColumn) != "" {
			since = row.Time(stoppedColumn)
		}
		wait := schemaWait - date.Sub(since)
		if wait <= 0 {
			return &row, nil
		}
		zerolog.Ctx(ctx).Info().Str("catalog", c.Name).Stringer("wait", wait).Msg("waiting until all writers have noticed the change of schema")
		if !task.Sleep(ctx, max(wait, time.Second)) { // the service's clock has a resolution of a second
			return nil, ctx.Err()
		}
	}
}

// schemaNow reads the schema row and the service's clock.
func (c *Catalog) schemaNow(ctx context.Context) (row storage.Entity, date time.Time, err error) {
	partition := schemaKey.Partition
	err = c.Log.All(ctx, storage.Query{Range: key.Range{Partition: &partition}}, func(p storage.Page) error {
		date = p.Date
		if len(p.Entities) > 0 { // at most one
			row = p.Entities[0]
		}
		return nil
	})
	return row, date, err
}

// stoppedColumn of the schema row says since when writers are stopped, if that is earlier
// than the row's Timestamp.
const stoppedColumn = "Stopped"

var unixEpoch = time.Unix(0, 0).UTC()

// letIn ends a change of schema: writers may write again.
func (c *Catalog) letIn(ctx context.Context, stopped *storage.Entity) error {
	err := c.Log.Write(ctx, storage.Op{Kind: storage.Replace, Entity: c.schemaRow(ready), IfMatch: stopped.ETag})
	if !overtaken(err) {
		return err
	}
	// By another migration, or by the first try of this request.
	row, found, err := c.Log.Get(ctx, schemaKey)
	if err == nil && (!found || row.Get("Schema") != c.Schema.String()) {
		err = c.anotherMove()
	}
	return err
}

func (c *Catalog) anotherMove() error {
	return problem.Conflictf("", "another process is moving catalog %s to another schema; let one of the two end, then run this again", c.Name)
}
