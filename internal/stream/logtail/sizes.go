package logtail

import (
	"context"
	"sync/atomic"

	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// Only a page of more than largePage bytes can raise the estimate of [Sizes].
const largePage = MaxAnswer / 8

// Sizes estimates the size of a table's rows from the latest pages that the process has read. With the estimate, a
// reader requests fewer rows if rows are large.
type Sizes struct{ mean atomic.Int64 }

// Rows estimates how many rows fit into the given number of bytes. The result is at most `limit`. See [Fewer].
func (s *Sizes) Rows(ctx context.Context, limit int, bytes int64) int {
	if few, ok := ctx.Value(fewKey{}).(int); ok {
		limit = min(limit, few)
	}
	if mean := s.mean.Load(); mean > 0 {
		return int(max(1, min(int64(limit), bytes/mean)))
	}
	return limit
}

// Query reads a page of a table, and updates the estimate. The page's memory is counted in ctx's [memory.Part]. The part
// does not grow beyond the memory for large work, unless q requests only one row.
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

// learn updates the estimate from a page. Only a large page can raise the estimate. Only a full page can
// lower the estimate.
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

// Fewer returns a context that limits the number of rows in a reader's queries. The limit is a quarter of ctx's limit, but at least one
// row. Retries after [memory.ErrFull] use the new context.
func Fewer(ctx context.Context) context.Context {
	few, ok := ctx.Value(fewKey{}).(int)
	if !ok {
		few = storage.PageRows
	}
	return context.WithValue(ctx, fewKey{}, max(1, few/4))
}
