package store

import (
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// The states of the schema row.
const (
	Ready  = "ready"
	Moving = "moving" // a migration is moving records to the schema
)

// SchemaKey is the key of the schema row in the log's table.
var SchemaKey = key.Key{Partition: "schema"}

// SchemaRow returns the schema row with our schema.
func (s *Store) SchemaRow(state string) storage.Entity {
	return storage.Entity{Key: SchemaKey, Properties: []storage.Property{
		storage.Int64Property("Format", format),
		storage.StringProperty("Schema", s.Schema.String()),
		storage.StringProperty("State", state),
	}}
}
