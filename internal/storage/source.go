package storage

import (
	"context"

	"tablesweep/internal/key"
)

// Source is where rows are read from: a [Table], a complete export, rows in memory, or two sources as one. A list of keys is not a
// source, because it selects rows of a source. The methods may be called concurrently.
type Source interface {
	// Address identifies the source, without secrets. It is empty for rows in memory.
	Address() string
	// Read returns one page of the query's rows, in table order. Its requests use the options. The page may be short or empty and
	// still have a token. A token is valid only for the source that made it. queries is the number of queries that the page took.
	// It is valid even if there is an error.
	Read(ctx context.Context, o RequestOptions, q Query) (p Page, queries int, err error)
}

// Hinted is a [Source] that knows in advance where many of its rows lie, so that a scan of it can begin at many keys at once.
type Hinted interface {
	Source
	// Hints calls fn with keys of rows in table order. rows counts the rows after the previous key, up to and including this one.
	Hints(fn func(last key.Key, rows int64))
}

// OrEmpty is a source that has no rows if its table does not exist.
type OrEmpty struct{ Source }

// Read implements [Source].
func (s OrEmpty) Read(ctx context.Context, o RequestOptions, q Query) (p Page, queries int, err error) {
	if p, queries, err = s.Source.Read(ctx, o, q); Gone(err) {
		return Page{}, queries, nil
	}
	return p, queries, err
}

// Read implements [Source] by one query.
func (t *Table) Read(ctx context.Context, o RequestOptions, q Query) (p Page, queries int, err error) {
	p, err = t.With(o).Query(ctx, q)
	return p, 1, err
}
