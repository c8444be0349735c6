package engine

import (
	"errors"
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/key"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/storage"
)

var manySteps = flag.Int("steps", 2_000, "the steps of the scan in TestStatusOfManySteps")

// TestStatusOfManySteps: however many steps are done, a status makes at most three requests, since each step may fold others, and has the
// sums of all. The steps are committed straight to the ledger.
func TestStatusOfManySteps(t *testing.T) {
	t.Parallel()
	em, e, id := startCount(t)
	first, err := e.ledger.FirstPending(t.Context(), id)
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	step, rows := first[0], int64(0)
	for n := range int64(*manySteps) {
		next := ledger.Pending{ID: fmt.Sprint(n), Message: step.Message}
		done := ledger.Done{Totals: ledger.Totals{Rows: 1 + n%1000, Queries: 1, Transactions: 4}}
		done.Note = (&yield{ends: []adaptive.PageEnd{{Last: key.Key{Partition: step.ID, Row: "000001"}, Rows: int(done.Rows)}}}).note()
		rows += done.Rows
		if ok, err := e.ledger.Commit(t.Context(), id, step.ID, time.Now(), done, []ledger.Pending{next}); err != nil || !ok {
			t.Fatalf("commit of step %s: %v, %v", step.ID, ok, err)
		}
		e.foldAfter(t.Context(), id, step.ID)
		if step = next; (n+1)%int64(max(1, *manySteps/10)) != 0 {
			continue
		}
		em.ResetCounts()
		s, err := e.Status(t.Context(), id)
		must(t, err)
		counts := em.Counts()
		if requests := counts.TableTransactions() + counts.QueueTransactions(); requests > 3 {
			t.Errorf("a status after %d steps takes %d requests, want at most 3", n+1, requests)
		}
		if s.Rows.Scanned != rows || s.Steps.Done != n+1 || s.Queries != n+1 || s.Transactions != 4*(n+1) || s.Steps.Pending != 1 {
			t.Errorf("%d steps with %d rows are told as %+v", n+1, rows, s)
		}
		t.Logf("%d steps done, %d requests, %d rows read", n+1, counts.TableTransactions(), counts.QueryRows)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// startCount returns an engine with a count that was started.
func startCount(t *testing.T) (*emulator.Emulator, *Engine, string) {
	t.Helper()
	em, account := emulatortest.NewAccount(t, emulator.Options{})
	e, err := New(Options{Own: account, Accounts: map[string]*storage.Account{storage.HostConnection: account}, StateTable: "tablesweep"})
	if err == nil {
		err = errors.Join(e.TryPrepare(t.Context()), account.Table("Source").Create(t.Context()))
	}
	must(t, err)
	id, err := e.Start(t.Context(), Request{Source: TableRef{Table: "Source"}, Action: Action{Type: Count}})
	must(t, err)
	return em, e, id
}

// TestLoadRestarted: a step of a restarted scan is not dropped because another step has read the
// scan before its restart.
func TestLoadRestarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, e, id := startCount(t)
		running, err := e.loadAnew(t.Context(), id, nil)
		must(t, err)
		before := make(chan *loaded) // what a reading that is under way finds in the end
		go func() {
			_, _ = e.scans.get(t.Context(), id, func(*loaded) (*loaded, error) { return <-before, nil })
		}()
		synctest.Wait()
		result := make(chan ledger.State)
		go func() {
			s, err := e.load(t.Context(), id)
			if err != nil {
				t.Error(err)
			}
			result <- s.state
		}()
		synctest.Wait()
		before <- &loaded{running.opened, ledger.Canceled, 1}
		if state := <-result; state != ledger.Running {
			t.Errorf("the scan is %s, want it %s again", state, ledger.Running)
		}
	})
}
