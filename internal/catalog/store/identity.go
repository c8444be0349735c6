package store

import (
	"strings"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// Identify checks a record and returns its identity.
func (s *Store) Identify(r record.Record) (index.Identity, error) {
	get, err := s.keyValues(r)
	if err != nil {
		return index.Identity{}, err
	}
	return s.Schema.Identity(get)
}

// keyValues returns a function that returns the record's index and sort values. It ignores
// the case of field names.
func (s *Store) keyValues(r record.Record) (func(field string) (string, bool), error) {
	values := map[string]string{}
	for _, f := range r.Fields {
		name := strings.ToLower(f.Name)
		if s.Schema.Rank(name) < 0 && strings.ToLower(s.Schema.Sort.Field) != name {
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

// WriteFor returns a write of the identity, without its version.
func WriteFor(id index.Identity) wal.Write {
	return wal.Write{First: id.First(), Identity: id.Hash(), Row: id.Row, Partitions: id.Partitions}
}
