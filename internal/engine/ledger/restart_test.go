package ledger_test

import (
	"testing"
	"time"

	"tablesweep/internal/engine/ledger"
)

// Whoever closes an attempt has read the list some time ago. Meanwhile the scan may
// have been restarted, under another attempt or, where a first restart was abandoned,
// the same.
func TestLateCloseSparesARestartedScan(t *testing.T) {
	t.Parallel()
	_, table, id := begunScan(t)
	l, ctx, now := ledger.New(table), t.Context(), time.Now()
	if _, err := l.End(ctx, id, ledger.Canceled, now, ""); err != nil {
		t.Fatal(err)
	}
	canceled, err := l.Scan(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Restart(ctx, canceled, now); err != nil {
		t.Fatal(err)
	}
	seen, err := l.Open(ctx)
	if err != nil || len(seen) != 1 || seen[0].Attempt != 2 {
		t.Fatalf("open: %+v, %v", seen, err)
	}
	// As if the first restart had been abandoned after it listed the attempt: it is
	// listed again.
	if err := l.Restart(ctx, canceled, now); err != nil {
		t.Fatal(err)
	}
	for _, late := range []ledger.OpenScan{seen[0], {ID: id, Attempt: 1}} {
		if err := l.Close(ctx, late); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := l.Scan(ctx, id); err != nil || s.State != ledger.Running || s.Attempt != 2 {
		t.Errorf("scan %+v, %v, want the second attempt running", s, err)
	}
	open, err := l.Open(ctx)
	if err != nil || len(open) != 1 {
		t.Fatalf("open: %+v, %v, want the running attempt", open, err)
	}
	if err := l.Close(ctx, open[0]); err != nil {
		t.Fatal(err)
	}
	if open, err = l.Open(ctx); err != nil || len(open) != 0 {
		t.Errorf("open: %+v, %v, want none", open, err)
	}
}
