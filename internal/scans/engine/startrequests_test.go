package engine_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// Many processes request the same scan and start it, concurrently and repeatedly. The scan starts and runs once.
func TestStartRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 5, 1)
		id := ledger.NewScanID(time.Now())
		for _, r := range []scans.Request{exportRequest("Source", "p"), copyRequest("Source", "Other")} { // only the first request counts
			var all sync.WaitGroup
			for range 4 {
				e := w.newEngine(w.account)
				all.Go(func() {
					if err := e.RequestStart(t.Context(), id, r); err != nil {
						t.Error(err)
					}
					if err := e.Maintain(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			w.drain()
			w.checkCounts(id, ledger.Succeeded, 5, 5, 0)
			w.checkExport("p", "Source")
			time.Sleep(time.Hour)
		}
		list, err := w.list(10)
		w.must(err)
		if len(list) != 1 || list[0].Action.Destination.Container == "" || len(w.ledgerRows("scans", "r|")) != 0 {
			t.Errorf("got scans %+v and start requests %v, want one succeeded scan and no request", list, w.ledgerRows("scans", "r|"))
		}
	})
}

// If a scan cannot be started, its start request records the reason, and stays for a week. After an error that may be temporary, the start is tried again.
func TestRefusedStartRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		id := ledger.NewScanID(time.Now())
		w.must(w.engine.RequestStart(t.Context(), id, copyRequest("Source", "Target")))
		refusal := func() string {
			_, err := w.observer.Status(t.Context(), id)
			if problem.Of(err).Kind != problem.NotFound {
				t.Errorf("the status of an unstarted scan: got error %v, want not found", err)
			}
			return err.Error()
		}
		if s := refusal(); !strings.Contains(s, "about to start") {
			t.Errorf("got %q", s)
		}
		w.drain()
		for range 2 {
			if s := refusal(); !strings.Contains(s, "table Source does not exist") {
				t.Errorf("got %q", s)
			}
			w.fill("Source", plainRows(1, 1)) // this is too late, because the request was refused
			time.Sleep(time.Hour)
			w.must(w.engine.RequestStart(t.Context(), id, copyRequest("Source", "Target")), w.engine.Maintain(t.Context()))
		}
		time.Sleep(7 * 24 * time.Hour)
		w.must(w.engine.Maintain(t.Context()))
		if s := refusal(); !strings.Contains(s, "there is no scan") {
			t.Errorf("got %q", s)
		}

		w.must(w.emulator.SetFaults("seed=1; busy p=1 on=query table=Source"))
		w.must(w.engine.RequestStart(t.Context(), id, copyRequest("Source", "Target")))
		if err := w.engine.Maintain(t.Context()); err == nil {
			t.Error("the source does not answer, but Maintain returns no error")
		}
		w.must(w.emulator.SetFaults(""), w.engine.Maintain(t.Context()))
		w.drain()
		w.checkCounts(id, ledger.Succeeded, 1, 1, 0)
	})
}

// command returns the engine of a command, which has the app's own storage but not the app's connections.
func (w *world) command() *engine.Engine {
	w.Helper()
	return w.newEngine(w.account, func(o *options) { o.Accounts = nil })
}

// A process dies at each request in turn while it fulfils a command's request for a retry. The scan is retried once.
func TestCrashDuringRequestedRetry(t *testing.T) {
	crashPoints(t, testsize.Of(5, 1), func(t *testing.T, n int, applied bool) bool {
		w := withSource(t, 5, 1)
		id := w.start(copyRequest("Source", "Target"))
		w.must(w.engine.Cancel(t.Context(), id))
		w.drain()
		command := w.command()
		w.must(command.RequestRetry(t.Context(), id, false), command.RequestRetry(t.Context(), id, false))
		if s := w.status(id); s.State != ledger.Canceled || s.Note != "its retry is about to start" {
			t.Errorf("before the app retries the scan, its state is %s and its note is %q", s.State, s.Note)
		}
		process := w.process
		process.DieWith(n, applied)
		for range 20 {
			w.drain()
			time.Sleep(time.Minute)
			if err := w.engine.Maintain(t.Context()); w.process.Dead() {
				w.restart()
			} else {
				w.must(err)
			}
		}
		survived := w.process == process
		w.restart()
		w.checkTidy()
		w.checkEnd(id, 5)
		if s, err := w.observer.Ledger.Scan(t.Context(), id); err != nil || s.Attempt != 2 {
			t.Errorf("got attempt %d, %v; want the second", s.Attempt, err)
		}
		w.must(command.RequestRetry(t.Context(), id, false)) // the scan has succeeded by a retry, so this does nothing
		if rows := w.ledgerRows("scans", "r|"); len(rows) > 0 {
			t.Errorf("start requests are left: %v", rows)
		}
		return survived
	})
}

// A command cancels a scan whose start or retry was requested. It does so before the app fulfils the request, or before any storage request of the instance
// that fulfils it. Then the scan never starts, or it stays canceled.
func TestCancelStartRequest(t *testing.T) {
	t.Parallel()
	for _, retry := range []bool{false, true} {
		reached := true
		for n := int64(0); reached; n++ {
			synctest.Test(t, func(t *testing.T) { reached = cancelBefore(t, n, retry) })
			if t.Failed() {
				return
			}
		}
	}
}

// cancelBefore cancels a requested start or retry before the n-th storage request of the instance that fulfils it. With 0, it cancels before the first. It
// reports false if the scan had already succeeded.
func cancelBefore(t *testing.T, n int64, retry bool) (canceled bool) {
	w := withSource(t, 5, 1)
	command := w.command()
	var id ledger.ScanID
	if retry {
		id = w.start(copyRequest("Source", "Target"))
		w.must(w.engine.Cancel(t.Context(), id))
		w.drain()
		w.must(command.RequestRetry(t.Context(), id, false))
	} else {
		var err error
		id, err = command.RequestCheckedStart(t.Context(), copyRequest("Source", "Target"))
		w.must(err)
	}
	cancel := func() {
		err := command.Cancel(t.Context(), id)
		if canceled = problem.Of(err).Kind != problem.Conflict; canceled { // otherwise the scan has succeeded
			w.must(err, command.Cancel(t.Context(), id)) // a second cancellation is harmless
		}
	}
	if n == 0 {
		cancel()
	}
	var requests atomic.Int64
	w.process.DieWhen(func(*http.Request) bool {
		if requests.Add(1) == n {
			cancel()
		}
		return false
	})
	for range 3 {
		w.drain()
		time.Sleep(time.Minute)
		w.must(w.engine.Maintain(t.Context()))
	}
	s, err := w.observer.Status(t.Context(), id)
	switch {
	case !canceled && n < 2, canceled && err == nil && s.State != ledger.Canceled, !canceled && s.State != ledger.Succeeded, s.Note != "":
		t.Errorf("canceled before request %d, retry %v: canceled %v, state %s, note %q, error %v", n, retry, canceled, s.State, s.Note, err)
	case err != nil && !strings.Contains(err.Error(), "was not started: canceled before it began"):
		t.Error(err)
	case err == nil && len(w.ledgerRows("scans", "r|")) > 0:
		t.Errorf("canceled before request %d, retry %v: requests are left: %v", n, retry, w.ledgerRows("scans", "r|"))
	}
	return canceled
}

// A scan is retried before one of the storage requests of its cancellation. Then the cancellation ends the scan again.
func TestRetryDuringCancel(t *testing.T) {
	t.Parallel()
	for n, reached := 1, true; reached && !t.Failed(); n++ {
		reached = false
		synctest.Test(t, func(t *testing.T) {
			w := withSource(t, 5, 1)
			id := w.start(copyRequest("Source", "Target"))
			w.must(w.observer.Cancel(t.Context(), id))
			requests := 0
			w.process.DieWhen(func(*http.Request) bool {
				if requests++; requests == n {
					reached = true
					w.must(w.observer.Retry(t.Context(), id))
				}
				return false
			})
			err := w.engine.Cancel(t.Context(), id)
			if s := w.status(id); err != nil || reached && s.State != ledger.Canceled {
				t.Errorf("retried before request %d: got error %v, and the scan is %s", n, err, s.State)
			}
		})
	}
}

// A command's request is checked and refused in the same way as a request to the API. The scan's status shows the reason.
func TestRefusedCommandRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withTables(t, 2)
		_, other := emulatortest.NewAccount(t, emulator.Options{})
		withOther := func(o *options) { o.Accounts["OTHER"] = other }
		w.engine = w.newEngine(w.account, withOther)
		w.runToEnd(w.start(groupExport("p")))
		command := w.command()
		r := scans.Request{Source: scans.TableRef{Container: "exports", Prefix: "p", Tables: "*"}, Action: scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Connection: "OTHER"}}}
		requestStart := func() ledger.ScanID {
			id, err := command.RequestCheckedStart(t.Context(), r)
			w.must(err)
			time.Sleep(time.Second)
			w.drain()
			return id
		}
		first := requestStart()
		if s := w.runToEnd(first); s.State != ledger.Succeeded || s.Members.Succeeded != 2 {
			t.Errorf("a copy into an empty account: got %+v, want it succeeded", s)
		}
		if _, err := w.observer.Status(t.Context(), requestStart()); problem.Of(err).Kind != problem.NotFound || !strings.Contains(err.Error(), "2 of 2 destination tables (") {
			t.Errorf("a copy over rows: got error %v", err)
		}
		lost := r
		lost.Source.Connection = "LOST"
		id, err := command.RequestCheckedStart(t.Context(), lost)
		w.must(err)
		w.drain()
		if _, err := w.observer.Status(t.Context(), id); problem.Of(err).Kind != problem.NotFound || !strings.Contains(err.Error(), "LOST\" is not among the app's connections") {
			t.Errorf("a copy from a connection that the app does not have: got error %v", err)
		}
		r.Action.Overwrite = true
		second := requestStart()
		if s := w.runToEnd(second); s.State != ledger.Succeeded {
			t.Errorf("a copy with overwrite over rows: got %+v, want it succeeded", s)
		}
		if err := command.RequestRetry(t.Context(), first, false); problem.Of(err).Kind != problem.Conflict {
			t.Errorf("a retry of a succeeded scan: got error %v, want a conflict", err)
		}
		one := w.start(scans.Request{Source: scans.TableRef{Container: "exports", Prefix: "p/Table00", Connection: storage.HostConnection}, Action: scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Table: "One", Connection: "OTHER"}}})
		w.must(w.engine.Cancel(t.Context(), one))
		w.drain()
		if err := command.RequestRetry(t.Context(), one, true); problem.Of(err).Kind != problem.Conflict || !strings.Contains(err.Error(), "no failed rows") {
			t.Errorf("a retry of failed rows without any: got error %v", err)
		}
		w.restart() // the new process does not have the other account
		w.must(command.RequestRetry(t.Context(), one, false))
		w.drain()
		if s := w.status(one); s.State != ledger.Canceled || !strings.Contains(s.Note, "its retry was refused: action.destination.connection: \"OTHER\" is not among the app's connections") {
			t.Errorf("without its connection, the scan is %s with note %q", s.State, s.Note)
		}
		w.engine = w.newEngine(w.account, withOther)
		w.must(command.RequestRetry(t.Context(), one, false)) // this works again, because the setting is back
		w.drain()
		if s := w.status(one); s.State != ledger.Succeeded || s.Note != "" {
			t.Errorf("with its connection, the scan is %s with note %q", s.State, s.Note)
		}
	})
}

// A request to retry a member sends no message, because the group's message for the member has the same text. Maintain retries the member.
func TestMemberRetriedByRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withTables(t, 3)
		id := w.start(groupExport("p"))
		for w.status(id).Members.Running < 3 {
			w.deliver()
		}
		member := id.Member(1)
		w.must(w.engine.Cancel(t.Context(), member), w.command().RequestRetry(t.Context(), member, false), w.engine.Maintain(t.Context()))
		if s, err := w.observer.Ledger.Scan(t.Context(), member); err != nil || s.Attempt != 2 {
			t.Errorf("got attempt %d, %v; want the second", s.Attempt, err)
		}
		if s := w.runToEnd(id); s.State != ledger.Succeeded || s.Members.Succeeded != 3 {
			t.Errorf("got group %+v, want it succeeded with all members", s)
		}
	})
}

// A request for a retry names one attempt. If that attempt was retried in another way, or if the process died after the retry, the next attempt is not
// retried.
func TestRetryRequestIsForOneAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		id := w.canceledCopy()
		w.must(w.command().RequestRetry(t.Context(), id, false), w.engine.Retry(t.Context(), id), w.engine.Cancel(t.Context(), id), w.engine.Maintain(t.Context()))
		w.drain()
		if s, err := w.observer.Ledger.Scan(t.Context(), id); err != nil || s.State != ledger.Canceled || s.Attempt != 2 || w.status(id).Note != "" {
			t.Errorf("got scan %+v, %v; want the second attempt canceled", s, err)
		}
		if rows := w.ledgerRows("scans", "r|"); len(rows) > 0 {
			t.Errorf("start requests are left: %v", rows)
		}
	})
}
