package catalog

import (
	"strings"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// First returns the hash of the record's first index value.
func (c *Catalog) First(r record.Record) (string, error) {
	id, err := c.identify(r)
	if err != nil {
		return "", err
	}
	return id.First(), nil
}

// identify checks a record and returns its identity.
func (c *Catalog) identify(r record.Record) (index.Identity, error) {
	get, err := c.lookup(r)
	if err != nil {
		return index.Identity{}, err
	}
	return c.Schema.Identity(get)
}

// lookup returns a function that looks up the record's index and sort values. It ignores
// the case of field names.
func (c *Catalog) lookup(r record.Record) (func(field string) (string, bool), error) {
	values := map[string]string{}
	for _, f := range r.Fields {
		name := strings.ToLower(f.Name)
		if c.Schema.Rank(name) < 0 && strings.ToLower(c.Schema.Sort.Field) != name {
			continue
		}
		if f.Nested {
			return nil, problem.Invalidf(f.Name, "is an index key or the row key; it must be text, a number or a boolean")
		}
		if _, twice := values[name]; twice {
			return nil, problem.Invalidf(f.Name, "is given twice, in different case; send one of the two")
		}
		values[name] = keyText(r, f)
	}
	return func(field string) (string, bool) {
		v, ok := values[strings.ToLower(field)]
		return v, ok
	}, nil
}

// keyText returns the text that keys are made of. For a number, it is the same in every
// spelling, because the service spells numbers in its own way.
func keyText(r record.Record, f record.Field) string {
	text, _ := r.Get(f.Name)
	switch f.Type {
	case storage.Int32, storage.Int64, storage.Double:
		if n, ok := index.Number(text); ok { // NaN and the infinities are no numbers
			return n
		}
	}
	return text
}

// writeFor returns a write of the identity, without its version.
func writeFor(id index.Identity) wal.Write {
	return wal.Write{First: id.First(), Identity: id.Hash(), Row: id.Row, Partitions: id.Partitions}
}
