package storage

import (
	"context"

	"tablesweep/internal/key"
)

// Source is what rows are read from: a [Table], a complete export, rows in memory, or two sources as one. A list of keys is none: it
// says which rows of a source are wanted. The methods may be called concurrently.
type Source interface {
	// Address identifies the source, without secrets. It is empty for rows that stand in memory alone.
	Address() string
	// Read answers a query, by requests with the options. The page has rows of the query's range in table order, and the token with
	// which the source continues; the page may be short or empty and still have one. Only the source that made a token understands it. queries is how
	// many queries the page took, also with an error.
	Read(ctx context.Context, o RequestOptions, q Query) (p Page, queries int, err error)
}

// Hinted is a [Source] that knows before it is read where many of its rows lie, so that a scan of it can begin at many keys at once.
type Hinted interface {
	Source
	// Hints calls fn with keys of rows in table order, and with how many rows lie between the key before and this one, itself included.
	Hints(fn func(last key.Key, rows int64))
}

// OrEmpty is a source that has no rows if its table is not there.
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
