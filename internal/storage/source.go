package storage

import (
	"context"

	"tablesweep/internal/key"
)

// Source is a place from which rows are read: a [Table], a complete export, rows in memory, or two sources that are
// read as one. The methods may be called concurrently.
type Source interface {
	// Address identifies the source, without secrets. It is empty for rows in memory.
	Address() string
	// Read returns one page of the query's rows, in table order. Even a short or empty page may have a token. A token is
	// valid only for the source that made it. The result `queries` is the number of queries made, even if there is an error.
	Read(ctx context.Context, o RequestOptions, q Query) (p Page, queries int, err error)
}

// Hinted is a [Source] that can be divided at known keys, so a scan can begin at many of them concurrently.
type Hinted interface {
	Source
	// Hints calls fn for some rows, in table order. The argument `last` is the row's key, and `rows` is the number of
	// rows after the previous call's row, up to and including this row.
	Hints(fn func(last key.Key, rows int64))
}

// OrEmpty is a [Source] in which a missing table counts as an empty table.
type OrEmpty struct{ Source }

// Read implements [Source].
func (s OrEmpty) Read(ctx context.Context, o RequestOptions, q Query) (p Page, queries int, err error) {
	if p, queries, err = s.Source.Read(ctx, o, q); Gone(err) {
		return Page{}, queries, nil
	}
	return p, queries, err
}

// Read implements [Source] with one query.
func (t *Table) Read(ctx context.Context, o RequestOptions, q Query) (p Page, queries int, err error) {
	p, err = t.With(o).Query(ctx, q)
	return p, 1, err
}
