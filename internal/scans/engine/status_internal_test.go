package engine

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

var manySteps = flag.Int("steps", 2_000, "the steps of the scan in TestStatusOfManySteps")

// TestStatusOfManySteps: however many steps are done, a status has the sums of all of them, and makes at most three requests, because
// done steps are folded. The test commits the steps directly to the ledger.
func TestStatusOfManySteps(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	em, account := emulatortest.NewAccount(t, emulator.Options{})
	e, err := New(scans.Options{Own: account, Accounts: map[string]*storage.Account{storage.HostConnection: account}, StateTable: "tablesweep"})
	if err == nil {
		err = errors.Join(e.TryPrepare(t.Context()), account.Table("Source").Create(t.Context()))
	}
	proof.Must(t, err)
	id, err := e.Start(t.Context(), scans.Request{Source: scans.TableRef{Table: "Source"}, Action: scans.Action{Type: scans.Count}})
	proof.Must(t, err)
	steps := ledger.New(account.Table("tablesweep"))
	first, err := steps.FirstPending(t.Context(), id)
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	step, rows := first[0], int64(0)
	for n := range int64(*manySteps) {
		next := ledger.Pending{ID: ledger.StepID(fmt.Sprint(n)), Message: step.Message}
		done := ledger.Done{Totals: ledger.Totals{Rows: 1 + n%1000, Queries: 1, Transactions: 4}}
		done.Note, err = json.Marshal([]scan.PageEnd{{Last: key.Key{Partition: string(step.ID), Row: "000001"}, Rows: int(done.Rows)}})
		proof.Must(t, err)
		rows += done.Rows
		if ok, err := steps.Commit(t.Context(), id, step.ID, time.Now(), done, []ledger.Pending{next}); err != nil || !ok {
			t.Fatalf("commit of step %s: committed %v, error %v", step.ID, ok, err)
		}
		proof.Must(t, steps.FoldAfter(t.Context(), id, step.ID, ledger.FoldEvery, scans.JoinNotes))
		if step = next; (n+1)%int64(max(1, *manySteps/10)) != 0 {
			continue
		}
		em.ResetCounts()
		s, err := e.Status(t.Context(), id)
		proof.Must(t, err)
		counts := em.Counts()
		if requests := counts.TableTransactions() + counts.QueueTransactions(); requests > 3 {
			t.Errorf("a status after %d steps makes %d requests, want at most 3", n+1, requests)
		}
		if s.Rows.Scanned != rows || s.Steps.Done != n+1 || s.Queries != n+1 || s.Transactions != 4*(n+1) || s.Steps.Pending != 1 {
			t.Errorf("%d steps with %d rows: got status %+v", n+1, rows, s)
		}
		t.Logf("%d steps done, %d requests, %d rows read", n+1, counts.TableTransactions(), counts.QueryRows)
	}
}
