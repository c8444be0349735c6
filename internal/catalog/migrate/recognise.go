package migrate

import (
	"context"
	"errors"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

var errRecognised = errors.New("recognised")

// Recognise returns an error if the index table has rows but does not belong to a catalog. The table belongs to a catalog if one
// of its rows contains a record, if the log contains a schema, or if the log contains data that the published program wrote (see
// the package comment). If Recognise returns an error, do not call [Run], because Run would find no records to
// migrate, and the catalog could then write to the table. Recognise does not change anything. Call it before
// [catalog.SchemaGuard.Prepare], which creates the log's table.
func Recognise(ctx context.Context, c *catalog.Catalog) error {
	for _, partition := range []string{store.SchemaKey.Partition, publishedCheckpoint.Partition, publishedPartition} {
		err := c.Log.All(ctx, storage.Query{Top: 1, Range: key.Range{Partition: &partition}}, func(p storage.Page) error {
			if len(p.Rows) > 0 {
				return errRecognised
			}
			return nil
		})
		if errors.Is(err, errRecognised) {
			return nil
		}
		if err != nil && !storage.HasCode(err, "TableNotFound") {
			return err
		}
	}
	empty := true
	err := c.Index.All(ctx, storage.Query{}, func(p storage.Page) error {
		for _, row := range p.Entities() {
			empty = false
			if !store.Foreign(row) {
				return errRecognised
			}
			if _, err := c.Identify(store.ContentOf(row)); err == nil {
				return errRecognised
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, errRecognised):
		return nil
	case err == nil && !empty:
		return problem.Conflictf("", "%s: no row is a record of the schema %s, so the table is not a catalog; nothing was changed", c.Index, c.Schema)
	}
	return err
}
