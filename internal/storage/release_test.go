package storage_test

import (
	"context"
	"net/http"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

// remembering is a transport that keeps the contexts of requests.
type remembering struct {
	*emulator.Transport
	contexts []context.Context
}

func (r *remembering) Do(req *http.Request) (*http.Response, error) {
	r.contexts = append(r.contexts, req.Context())
	return r.Transport.Do(req)
}

// TestRequestsAreReleased: nothing of a request stays in memory after its answer. An open context would keep the
// request's body in memory until its time-out, and a busy process makes thousands of requests in that time.
func TestRequestsAreReleased(t *testing.T) {
	t.Parallel()
	_, em := openEmulator(t)
	transport := &remembering{Transport: em.Transport()}
	a := open(t, em.ConnectionString(), storage.Options{Transport: transport})
	table := newTable(t, a)
	row := storage.Entity{Key: key.Key{Partition: "p"}}
	proof.Must(t, table.Write(t.Context(), storage.Op{Kind: storage.Insert, Row: row.Row()}))
	if err := table.Write(t.Context(), storage.Op{Kind: storage.Insert, Row: row.Row()}); !storage.Conflict(err) {
		t.Fatal(err)
	}
	if _, err := table.Query(t.Context(), storage.Query{}); err != nil {
		t.Fatal(err)
	}
	if len(transport.contexts) < 4 {
		t.Fatalf("%d requests", len(transport.contexts))
	}
	for i, ctx := range transport.contexts {
		if ctx.Err() == nil {
			t.Errorf("request %d of %d is still in memory", i+1, len(transport.contexts))
		}
	}
}
