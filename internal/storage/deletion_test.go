package storage_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

// If the account awaits deletions, a table, queue or container is created once the deletion of the old one has ended. A
// write to a table that is being deleted fails immediately.
func TestCreateAwaitsDeletion(t *testing.T) {
	const connection = signed + ";BlobEndpoint=https://h/acct"
	kinds := map[string]func(*storage.Account) (create, use func(context.Context) error){
		"Table": func(a *storage.Account) (create, use func(context.Context) error) {
			table := a.Table("rows")
			return table.Create, func(ctx context.Context) error { return table.Write(ctx, storage.Op{Row: row("p", "r").Row()}) }
		},
		"Queue": func(a *storage.Account) (create, use func(context.Context) error) {
			q, err := a.Queue("work")
			proof.Must(t, err)
			return q.Create, func(ctx context.Context) error { return q.Put(ctx, "x") }
		},
		"Container": func(a *storage.Account) (create, use func(context.Context) error) {
			c, err := a.Container("files")
			proof.Must(t, err)
			return c.Create, func(ctx context.Context) error { _, err := c.Put(ctx, "x", nil); return err }
		},
	}
	for kind, of := range kinds {
		for _, tt := range []struct {
			name     string
			awaits   bool
			patience time.Duration
			least    time.Duration
			fails    bool
		}{
			{"it waits", true, time.Minute, 40 * time.Second, false},
			{"the patience ends", true, 10 * time.Second, 10 * time.Second, true},
			{"without AwaitDeletion", false, time.Minute, 0, true},
		} {
			t.Run(kind+": "+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					made := map[string]int{"Table": 204, "Queue": 204, "Container": 201}[kind]
					service := &stub{answer: func(r *http.Request) (*http.Response, error) {
						if tt.fails && tt.awaits && time.Since(began) >= tt.patience { // a try that begins later is abandoned
							<-r.Context().Done()
							return nil, r.Context().Err()
						}
						if time.Since(began) < 40*time.Second {
							return answered(r, 409, http.Header{"X-Ms-Error-Code": {kind + "BeingDeleted"}}, `{}`), nil
						}
						return answered(r, made, http.Header{}, ``), nil
					}}
					create, use := of(open(t, connection, storage.Options{Transport: service, AwaitDeletion: tt.awaits, Patience: tt.patience}))
					if err := use(t.Context()); !storage.BeingDeleted(err) || time.Since(began) > 0 {
						t.Errorf("a write: error %v after %v, want an immediate refusal", err, time.Since(began))
					}
					err := create(t.Context())
					if took := time.Since(began); storage.BeingDeleted(err) != tt.fails || (err != nil) != tt.fails || took < tt.least || took > tt.least+10*time.Second {
						t.Errorf("create: error %v after %v", err, took)
					}
				})
			})
		}
	}
}
