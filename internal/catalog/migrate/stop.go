package migrate

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// The column stoppedColumn of the schema row contains the time at which writers were stopped. Without this column, the time is
// the row's Timestamp.
const stoppedColumn = "Stopped"

// stopWriters does nothing if the new schema is already stored and ready. Otherwise, it stores the new schema, stops all
// writers, waits until they have noticed the stop, and returns the schema row. The caller ends the stop with resumeWriters.
// The schema row contains the time of the stop, so a migration that continues or reverts an earlier migration waits only
// for the remaining time.
func (m *migrator) stopWriters(ctx context.Context) (stopped *storage.Entity, err error) {
	row, found, err := m.Log.Get(ctx, store.SchemaKey)
	if err != nil || found && row.Get("Schema") == m.Schema.String() && row.Get("State") == store.Ready {
		return nil, err
	}
	if !found || row.Get("Schema") != m.Schema.String() || row.Get("State") == store.Ready {
		next := m.SchemaRow(store.Moving)
		switch {
		case found && row.Get("State") == store.Ready:
		case found:
			next.Properties = append(next.Properties, storage.TimeProperty(stoppedColumn, stoppedAt(row)))
		default: // there are no writers yet
			next.Properties = append(next.Properties, storage.TimeProperty(stoppedColumn, time.Unix(0, 0).UTC()))
		}
		op := storage.Op{Kind: storage.Replace, Row: next.Row(), IfMatch: row.ETag}
		if !found {
			op = storage.Op{Kind: storage.Insert, Row: next.Row()}
		}
		if err := m.Log.Write(ctx, op); err != nil && !store.Overtaken(err) {
			return nil, err
		}
	}
	for {
		row, date, err := m.schemaNow(ctx)
		switch {
		case err != nil:
			return nil, err
		case row.Get("Schema") != m.Schema.String() || row.Get("State") != store.Moving:
			return nil, m.anotherMove()
		}
		wait := catalog.SchemaWait - date.Sub(stoppedAt(row))
		if wait <= 0 {
			return &row, nil
		}
		zerolog.Ctx(ctx).Info().Str("catalog", m.Name).Stringer("wait", wait).Msg("waiting until all writers have noticed the change of schema")
		if !task.Sleep(ctx, max(wait, time.Second)) { // the service's clock has a resolution of a second
			return nil, ctx.Err()
		}
	}
}

func stoppedAt(row storage.Entity) time.Time {
	if row.Get(stoppedColumn) == "" {
		return row.Timestamp
	}
	return row.Time(stoppedColumn)
}

func (m *migrator) schemaNow(ctx context.Context) (row storage.Entity, date time.Time, err error) {
	partition := store.SchemaKey.Partition
	err = m.Log.All(ctx, storage.Query{Range: key.Range{Partition: &partition}}, func(p storage.Page) error {
		date = p.Date
		if len(p.Rows) > 0 {
			row = p.Rows[0].Entity()
		}
		return nil
	})
	return row, date, err
}

// resumeWriters ends a change of schema, so writers may write again.
func (m *migrator) resumeWriters(ctx context.Context, stopped *storage.Entity) error {
	err := m.Log.Write(ctx, storage.Op{Kind: storage.Replace, Row: m.SchemaRow(store.Ready).Row(), IfMatch: stopped.ETag})
	if !store.Overtaken(err) {
		return err
	}
	// Either another migration was faster, or the service has already carried out an earlier try of this request.
	row, found, err := m.Log.Get(ctx, store.SchemaKey)
	if err == nil && (!found || row.Get("Schema") != m.Schema.String()) {
		err = m.anotherMove()
	}
	return err
}

func (m *migrator) anotherMove() error {
	return problem.Conflictf("", "another process is moving catalog %s to another schema; wait until that process has ended, and run this command again", m.Name)
}
