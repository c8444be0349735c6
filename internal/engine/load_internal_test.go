package engine

import (
	"testing"
	"testing/synctest"

	"tablesweep/internal/engine/ledger"
)

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
