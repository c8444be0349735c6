package action

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"tablesweep/internal/copier"
	"tablesweep/internal/storage"
)

// Action is what is done with rows; see [Delete] and [Enqueue].
type Action interface {
	Split(rows []storage.Entity) [][]storage.Entity
	Do(ctx context.Context, unit []storage.Entity) (copier.Result, error)
}

// All does the action with rows in table order, several units at once. On an error,
// some of them may have been done.
func All(ctx context.Context, a Action, rows []storage.Entity) (copier.Result, error) {
	var (
		mu    sync.Mutex // guards total
		total copier.Result
	)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(copier.Parallel)
	for _, unit := range a.Split(rows) {
		g.Go(func() error {
			r, err := a.Do(ctx, unit)
			mu.Lock()
			defer mu.Unlock()
			total.Written += r.Written
			total.Failed = append(total.Failed, r.Failed...)
			return err
		})
	}
	return total, g.Wait()
}
