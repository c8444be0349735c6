package logtail

import (
	"context"
	"sync/atomic"

	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// largePage is the size in bytes from which a page shows that rows are large. One large row alone is not enough.
const largePage = MaxAnswer / 8

// Sizes learns the size of rows from the latest pages that a process reads, so that it requests only a few large rows at once.
// The zero value does not limit.
type Sizes struct{ mean atomic.Int64 }

// Rows returns how many rows to request if the given number of bytes is enough. The argument most is the limit of the result.
// See [Fewer].
func (s *Sizes) Rows(ctx context.Context, most int, bytes int64) int {
	if few, ok := ctx.Value(fewKey{}).(int); ok {
		most = min(most, few)
	}
	if mean := s.mean.Load(); mean > 0 {
		return int(max(1, min(int64(most), bytes/mean)))
	}
	return most
}

// Query reads a page of a table, and learns from it. It charges ctx's part of the memory. Only a single row may exceed it.
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

// learn updates the size of rows from a page. The argument requested is the number of rows that were requested. A page with
// much text raises the size. A page that may have successors lowers the size.
func (s *Sizes) learn(requested int, p storage.Page) {
	rows := len(p.Rows)
	if rows == 0 {
		return
	}
	mean, before := int64(p.Bytes/rows), s.mean.Load()
	if mean > before && rows > 1 && p.Bytes > largePage || mean < before && rows >= requested {
		s.mean.Store(mean)
	}
}

type fewKey struct{}

// Fewer returns a context whose readers request a quarter of the rows that ctx's readers request. It is for retries after [memory.ErrFull], down to
// one row at a time.
func Fewer(ctx context.Context) context.Context {
	few, ok := ctx.Value(fewKey{}).(int)
	if !ok {
		few = storage.PageRows
	}
	return context.WithValue(ctx, fewKey{}, max(1, few/4))
}
