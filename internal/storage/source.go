package storage

import "context"

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

// Read implements [Source] by one query.
func (t *Table) Read(ctx context.Context, o RequestOptions, q Query) (p Page, queries int, err error) {
	p, err = t.With(o).Query(ctx, q)
	return p, 1, err
}
