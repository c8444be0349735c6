package ledger_test

import (
	"net/http"
	"testing"
	"time"

	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
)

// A process that closes an attempt has read the list some time ago. Since then, the scan may have been restarted, under another attempt
// or, if a first restart was abandoned, under the same attempt.
func TestLateCloseKeepsRestartedScan(t *testing.T) {
	t.Parallel()
	_, table, id := begunScan(t)
	l, ctx, now := ledger.New(table), t.Context(), time.Now()
	_, err := l.End(ctx, id, now, ledger.Ending{State: ledger.Canceled})
	proof.Must(t, err)
	canceled, err := l.Scan(ctx, id)
	proof.Must(t, err)
	proof.Must(t, l.Restart(ctx, canceled, now, nil, scan.Outlook{}))
	seen, err := l.Open(ctx)
	if err != nil || len(seen) != 1 || seen[0].Attempt != 2 {
		t.Fatalf("the list of open scans has %+v, %v", seen, err)
	}
	// The attempt is listed again, as if the first restart had been abandoned after it listed the attempt.
	proof.Must(t, l.Restart(ctx, canceled, now, nil, scan.Outlook{}))
	for _, late := range []ledger.OpenScan{seen[0], {ID: id, Attempt: 1}} {
		proof.Must(t, l.MoveToEnded(ctx, late))
	}
	if s, err := l.Scan(ctx, id); err != nil || s.State != ledger.Running || s.Attempt != 2 {
		t.Errorf("got scan %+v, %v, want the second attempt running", s, err)
	}
	open, err := l.Open(ctx)
	if err != nil || len(open) != 1 {
		t.Fatalf("the list of open scans has %+v, %v, want the running attempt", open, err)
	}
	proof.Must(t, l.MoveToEnded(ctx, open[0]))
	if open, err = l.Open(ctx); err != nil || len(open) != 0 {
		t.Errorf("the list of open scans has %+v, %v, want none", open, err)
	}
}

// A page of a query may be empty and have a token.
func TestGroupAfterEmptyPages(t *testing.T) {
	t.Parallel()
	em, table, _ := begunScan(t)
	l, id := ledger.New(table), ledger.NewScanID(time.Now())
	proof.Must(t, l.CreateGroup(t.Context(), id, time.Now(), nil, []byte(`["A","B"]`), 2), em.SetFaults("seed=1; empty-page p=0.9"))
	if g, err := l.Group(t.Context(), id); err != nil || string(g.Tables) != `["A","B"]` {
		t.Errorf("got group %+v, %v", g, err)
	}
}

// pause calls a function before the n-th request.
type pause struct {
	next interface {
		Do(*http.Request) (*http.Response, error)
	}
	n    int
	call func()
}

func (p *pause) Do(r *http.Request) (*http.Response, error) {
	if p.n--; p.n == 0 {
		p.call()
	}
	return p.next.Do(r)
}

// A process finds no pending step, but ends the scan late. Meanwhile another process has ended the scan, and a retry has begun an attempt
// with a step.
func TestLateFinishKeepsTheNextAttempt(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ {
		em, table, id := begunScan(t)
		l, ctx, now := ledger.New(table), t.Context(), time.Now()
		done := ledger.Done{Totals: ledger.Totals{Rows: 2, Failed: 2}, FailedRows: []byte("rows"), Kept: 2, FirstFailed: "row", Attempt: 1}
		if ok, err := l.Commit(ctx, id, "000000", now, done, nil); err != nil || !ok {
			t.Fatal(ok, err)
		}
		slow := &pause{next: em.Transport(), n: n, call: func() {
			ended, err := l.Finish(ctx, id, now, succeeds)
			if err != nil || !ended {
				t.Fatal(ended, err)
			}
			s, err := l.Scan(ctx, id)
			if err == nil {
				err = l.Restart(ctx, s, now, &ledger.Pending{ID: "000001", Message: []byte("{}")}, scan.Pages(1))
			}
			proof.Must(t, err)
		}}
		late := ledger.New(emulatortest.Open(t, em, slow).Table(table.Name()))
		if ended, err := late.Finish(ctx, id, now, succeeds); err != nil || ended {
			t.Errorf("before request %d: the late call ended the scan: %v, %v", n, ended, err)
		}
		if s, err := l.Scan(ctx, id); err != nil || s.State != ledger.Running || s.Attempt != 2 {
			t.Errorf("before request %d: got scan %+v, %v, want the second attempt running", n, s, err)
		}
	}
}
