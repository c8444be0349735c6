package engine

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

var manySteps = flag.Int("steps", 2_000, "the steps of the scan in TestStatusOfManySteps")

// TestStatusOfManySteps: however many steps are done, a status makes at most three requests, since each step may fold others, and has the
// sums of all. The steps are committed straight to the ledger.
func TestStatusOfManySteps(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	em, e, id := startCount(t)
	first, err := e.Scans.ledger.FirstPending(t.Context(), id)
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	step, rows := first[0], int64(0)
	for n := range int64(*manySteps) {
		next := ledger.Pending{ID: fmt.Sprint(n), Message: step.Message}
		done := ledger.Done{Totals: ledger.Totals{Rows: 1 + n%1000, Queries: 1, Transactions: 4}}
		done.Note = (&yield{ends: []scan.PageEnd{{Last: key.Key{Partition: step.ID, Row: "000001"}, Rows: int(done.Rows)}}}).note()
		rows += done.Rows
		if ok, err := e.Scans.ledger.Commit(t.Context(), id, step.ID, time.Now(), done, []ledger.Pending{next}); err != nil || !ok {
			t.Fatalf("commit of step %s: %v, %v", step.ID, ok, err)
		}
		proof.Must(t, e.Scans.ledger.FoldAfter(t.Context(), id, step.ID, ledger.FoldEvery, joinNotes))
		if step = next; (n+1)%int64(max(1, *manySteps/10)) != 0 {
			continue
		}
		em.ResetCounts()
		s, err := e.Status(t.Context(), id)
		proof.Must(t, err)
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

// startCount returns an engine with a count that was started.
func startCount(t *testing.T) (*emulator.Emulator, *Engine, string) {
	t.Helper()
	em, account := emulatortest.NewAccount(t, emulator.Options{})
	e, err := New(Options{Own: account, Accounts: map[string]*storage.Account{storage.HostConnection: account}, StateTable: "tablesweep"})
	if err == nil {
		err = errors.Join(e.TryPrepare(t.Context()), account.Table("Source").Create(t.Context()))
	}
	proof.Must(t, err)
	id, err := e.Start(t.Context(), Request{Source: TableRef{Table: "Source"}, Action: Action{Type: Count}})
	proof.Must(t, err)
	return em, e, id
}

// TestLoadRestarted: a step of a restarted scan is not dropped because another step has read the
// scan before its restart.
func TestLoadRestarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, e, id := startCount(t)
		running, err := e.Scans.loadAnew(t.Context(), id, nil)
		proof.Must(t, err)
		before := make(chan *loaded) // what a reading that is under way finds in the end
		go func() {
			_, _ = e.Scans.loaded.get(t.Context(), id, func(*loaded) (*loaded, error) { return <-before, nil })
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
		before <- &loaded{opened: running.opened, state: ledger.Canceled, attempt: 1}
		if state := <-result; state != ledger.Running {
			t.Errorf("the scan is %s, want it %s again", state, ledger.Running)
		}
	})
}

// TestCache: a value is read once for all who ask at a time, again when it is old or outdated, and after an error by
// the next who asks. It is kept for the next reading while others are read, until it is too old.
func TestCache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCache[string](5*time.Second, time.Minute)
		var reads atomic.Int64
		var fails bool
		was := ""
		read := func(last string) (string, error) {
			time.Sleep(time.Second)
			was = last
			reads.Add(1)
			if fails {
				return "", errors.New("failed")
			}
			return last + "x", nil
		}
		expect := func(what, want, last string, n int64) {
			t.Helper()
			got, err := c.get(t.Context(), "a", read)
			if got != want || was != last || reads.Swap(0) != n || (err != nil) != fails {
				t.Errorf("%s: got %q, %v, when the last value was %q; want %q and %q by %d readings", what, got, err, was, want, last, n)
			}
		}
		var g errgroup.Group
		for range 10 {
			g.Go(func() error { _, err := c.get(t.Context(), "a", read); return err })
		}
		if err := g.Wait(); err != nil || reads.Swap(0) != 1 {
			t.Errorf("%v, and not just one of ten has read", err)
		}
		expect("fresh", "x", "", 0)
		time.Sleep(5 * time.Second)
		expect("old", "xx", "x", 1)
		c.outdate("a", func(s string) bool { return s == "x" })
		expect("another is outdated", "xx", "x", 0)
		c.outdate("a", func(s string) bool { return s == "xx" })
		expect("outdated", "xxx", "xx", 1)
		for range 5 {
			time.Sleep(10 * time.Second)
			if _, err := c.get(t.Context(), "b", func(string) (string, error) { return "", nil }); err != nil {
				t.Error(err)
			}
		}
		expect("while others were read", "xxxx", "xxx", 1)
		time.Sleep(time.Minute)
		expect("too old", "x", "", 1)
		time.Sleep(10 * time.Second)
		fails = true
		expect("it fails", "", "x", 1)
		fails = false
		expect("after a failure", "xx", "x", 1)

		time.Sleep(10 * time.Second)
		reading := make(chan error)
		go func() { _, err := c.get(t.Context(), "a", read); reading <- err }()
		synctest.Wait()
		gone, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := c.get(gone, "a", read); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who waits and has no more time gets %v", err)
		}
		if err := <-reading; err != nil {
			t.Error(err)
		}

		reads.Store(0)
		time.Sleep(4*time.Second + time.Millisecond)
		expect("as old as its reading's beginning", "xxxx", "xxx", 1)
		time.Sleep(10 * time.Second)
		go func() { _, err := c.get(t.Context(), "a", read); reading <- err }()
		synctest.Wait()
		c.outdate("a", func(string) bool { return true })
		expect("outdated while it was read", "xxxxxx", "xxxxx", 2)
		if err := <-reading; err != nil {
			t.Error(err)
		}
	})
}
