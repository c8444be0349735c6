package scans

import (
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// TestLoadOfRestartedScan: a step of a restarted scan is not dropped, even if another step has read the scan before its
// restart.
func TestLoadOfRestartedScan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, account := emulatortest.NewAccount(t, emulator.Options{})
		ss, err := New(Options{Own: account, Accounts: map[string]*storage.Account{storage.HostConnection: account}, StateTable: "tablesweep"})
		proof.Must(t, err)
		proof.Must(t, ss.TryPrepare(t.Context()))
		id, count := ledger.NewScanID(time.Now()), Request{Source: TableRef{Table: "Source"}, Action: Action{Type: Count}}
		proof.Must(t, ss.Ledger.Create(t.Context(), id, time.Now(), JSON(count), nil, ledger.Pending{ID: "first"}, scan.Outlook{}))
		running, err := ss.loadAnew(t.Context(), id, nil)
		proof.Must(t, err)
		before := make(chan *Loaded) // the result of a read that is still running
		go func() {
			_, _ = ss.Loaded.Get(t.Context(), id, func(*Loaded) (*Loaded, error) { return <-before, nil })
		}()
		synctest.Wait()
		result := make(chan ledger.State)
		go func() {
			s, err := ss.Load(t.Context(), id)
			if err != nil {
				t.Error(err)
			}
			result <- s.State
		}()
		synctest.Wait()
		before <- &Loaded{RunnableScan: running.RunnableScan, State: ledger.Canceled, Attempt: 1}
		if state := <-result; state != ledger.Running {
			t.Errorf("the scan is %s, want it %s again", state, ledger.Running)
		}
	})
}
