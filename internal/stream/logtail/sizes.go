package logtail

import (
	"context"
	"sync/atomic"

	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// largePage is how many bytes a page must have to show that its rows are large: one large row alone is no proof.
const largePage = MaxAnswer / 8

// Sizes learns how large rows are from the pages that a process reads, so that it asks for few large ones at once. It is about what was read last.
// The zero value knows nothing: it lets ask for as many rows as are wanted.
type Sizes struct{ mean atomic.Int64 }

// Rows returns how many rows to ask for, of most, if so many bytes of them are enough. See [Fewer].
func (s *Sizes) Rows(ctx context.Context, most int, bytes int64) int {
	if few, ok := ctx.Value(fewKey{}).(int); ok {
		most = min(most, few)
	}
	if mean := s.mean.Load(); mean > 0 {
		return int(max(1, min(int64(most), bytes/mean)))
	}
	return most
}

// Query reads a page of a table, and learns from it. It uses the part of the memory that ctx has: more than there is for one row alone.
func (s *Sizes) Query(ctx context.Context, t *storage.Table, q storage.Query) (storage.Page, error) {
	part := memory.PartIn(ctx)
	if q.Top != 1 {
		part = part.Bounded()
	}
	page, err := t.With(storage.RequestOptions{Memory: part}).Query(ctx, q)
	if err == nil {
		s.learn(q.Top, page)
	}
	return page, err
}

// learn takes the size of rows from a page for which asked rows were asked: a larger one from a page with much text, a smaller one from a page
// behind which may be more.
func (s *Sizes) learn(asked int, p storage.Page) {
	rows := len(p.Rows)
	if rows == 0 {
		return
	}
	mean, before := int64(p.Bytes/rows), s.mean.Load()
	if mean > before && rows > 1 && p.Bytes > largePage || mean < before && rows >= asked {
		s.mean.Store(mean)
	}
}

type fewKey struct{}

// Fewer returns a context whose readers ask for a quarter of the rows at once that those of ctx ask for: after [memory.ErrFull], until it is
// one at a time.
func Fewer(ctx context.Context) context.Context {
	few, ok := ctx.Value(fewKey{}).(int)
	if !ok {
		few = storage.PageRows
	}
	return context.WithValue(ctx, fewKey{}, max(1, few/4))
}
