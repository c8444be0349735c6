package engine_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
)

// everyRequest is the distance between the requests at which a process dies.
var everyRequest = testsize.Slow(13, 3, 1)

// lease is how long the host hides a delivered message.
const lease = 10 * time.Minute

// timeToEnd delivers messages, and runs Maintain once a minute, until the scan has ended. It returns how long that took in the virtual time of a
// synctest bubble.
func (w *world) timeToEnd(id ledger.ScanID) time.Duration {
	w.Helper()
	start := time.Now()
	for {
		w.drain()
		if w.status(id).State != ledger.Running {
			return time.Since(start)
		}
		if time.Since(start) > 12*time.Hour {
			w.Fatalf("the scan does not end: %+v", w.status(id))
		}
		time.Sleep(time.Minute)
		if err := w.engine.Maintain(w.Context()); err != nil && !w.process.Dead() {
			w.Errorf("Maintain: %v", err)
		}
		if w.process.Dead() {
			w.restart()
		}
	}
}

// checkTidy waits until the messages of dead processes are visible again, delivers them, and checks that no messages remain.
func (w *world) checkTidy() {
	w.Helper()
	time.Sleep(lease + time.Minute)
	w.drain()
	if err := w.engine.Maintain(w.Context()); err != nil {
		w.Errorf("Maintain: %v", err)
	}
	for function, name := range scans.Queues {
		if n, err := w.queue(name).Length(w.Context()); err != nil || n != 0 {
			w.Errorf("%d messages are left for %s, %v", n, function, err)
		}
		if n, err := w.queue(name + "-poison").Length(w.Context()); n != 0 || err != nil && !storage.NotFound(err) {
			w.Errorf("%d poison messages are left for %s, %v", n, function, err)
		}
	}
}

// checkEnd checks what must be true after every end: the counts are exact, the tables are equal, and no messages or pending steps remain.
func (w *world) checkEnd(id ledger.ScanID, rows int) {
	w.Helper()
	w.checkCounts(id, ledger.Succeeded, rows, rows, 0)
	steps := int64(0)
	left := slices.DeleteFunc(w.rows("tablesweep"), func(e storage.Entity) bool {
		done := strings.HasPrefix(e.Key.Row, "d|")
		if done {
			steps += e.Int("Steps")
		}
		return done || slices.Contains([]string{"hints", "beats", "maintain"}, e.Key.Partition)
	})
	if s := w.status(id); steps != s.Steps.Done {
		w.Errorf("the done rows count %d steps, want %d", steps, s.Steps.Done)
	}
	if len(left) != 3 { // the scan's row, and its rows in the list of all scans and the list of scans to tidy up
		w.Errorf("the ledger has %d rows besides done ones, want 3: %v", len(left), left)
	}
	w.equalTables("Source", "Target")
}

// crashPoints calls `run` for one request after another, with a process that dies before or after this request is applied, until a run survives.
func crashPoints(t *testing.T, step int, run func(t *testing.T, n int, applied bool) (survived bool)) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		for n, survived := 1, false; !survived; n += testsize.Apart(step) {
			synctest.Test(t, func(t *testing.T) { survived = run(t, n, applied) })
			if t.Failed() {
				t.Fatalf("the run failed with a death at request %d, applied: %v", n, applied)
			}
		}
	}
}

// TestCrashWhileStarting lets the process die at each request of a scan's start. The scan then either runs to its end or leaves no trace. An
// export that has claimed its place always runs.
func TestCrashWhileStarting(t *testing.T) {
	crashPoints(t, testsize.Of(3, 1), func(t *testing.T, n int, applied bool) bool {
		copied := crashWhileStarting(t, n, applied, copyRequest("Source", "Target"), func(w *world, id ledger.ScanID) { w.checkEnd(id, 5) })
		exported := crashWhileStarting(t, n, applied, exportRequest("Source", "p"), func(w *world, id ledger.ScanID) {
			w.checkCounts(id, ledger.Succeeded, 5, 5, 0)
			w.checkExport("p", "Source")
			if left := w.ledgerRows("scans", "r|"); len(left) > 0 {
				t.Errorf("start requests are left: %v", left)
			}
		})
		return copied && exported
	})
}

func crashWhileStarting(t *testing.T, n int, applied bool, r scans.Request, check func(w *world, id ledger.ScanID)) (survived bool) {
	w := withSource(t, 5, 1)
	w.process.DieWith(n, applied)
	_, started := w.engine.Start(t.Context(), r)
	w.restart()
	for range 20 {
		time.Sleep(time.Minute)
		w.must(w.engine.Maintain(t.Context()))
		w.drain()
	}
	list, err := w.list(10)
	w.must(err)
	for _, s := range list {
		check(w, s.ID)
	}
	if len(list) == 0 && (len(w.rows("tablesweep")) > 0 || len(w.blobs("p")) > 0) {
		t.Errorf("the ledger has the rows %v, and the export %v, want none", w.rows("tablesweep"), w.blobs("p"))
	}
	return started == nil
}

// TestStepThatKillsProcesses kills the process each time a step begins, in any delivery of any message. After the fifth time, the scan fails, and
// its error names the step. A first delivery that ended with an error does not count.
func TestStepThatKillsProcesses(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	for _, redelivered := range []bool{false, true} {
		for _, fails := range []bool{false, true} {
			if redelivered == fails && !testsize.Full() {
				continue
			}
			t.Run(fmt.Sprintf("repeated delivery %v, failed first %v", redelivered, fails), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { endProcesses(t, redelivered, fails) })
			})
		}
	}
}

func endProcesses(t *testing.T, redelivered, fails bool) {
	w := withSource(t, 3, 1)
	id := w.start(copyRequest("Source", "Target"))
	deaths, start := 0, time.Now()
	for w.status(id).State == ledger.Running && time.Since(start) < 3*time.Hour {
		q, messages := w.takeMessages(scans.ScanPrefix, 1)
		for _, m := range messages {
			faults := ""
			if fails {
				faults = "seed=1; busy p=1 on=query table=Source"
			} else {
				w.process.DieWhen(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "Source") })
			}
			w.must(w.emulator.SetFaults(faults))
			_, _ = w.engine.Run(t.Context(), w.bodyOf(m), m.DequeueCount)
			again := redelivered && m.DequeueCount < scans.MaxDeliveries
			switch {
			case w.process.Dead():
				deaths++
			case fails:
				fails, again = false, true
			default:
				w.must(q.Delete(t.Context(), m))
			}
			w.restart()
			if again {
				if _, err := q.Update(t.Context(), m, 10*time.Second); err != nil && !storage.NotFound(err) {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Minute)
		w.must(w.engine.Maintain(t.Context()))
	}
	s := w.status(id)
	if deaths != scans.MaxDeliveries || s.State != ledger.Failed || !strings.Contains(s.Error, "begun 5 times") || s.Steps.Pending != 1 {
		t.Errorf("%d processes died, and the status is %+v; want 5, and failed with the step pending", deaths, s)
	}
}

// TestRepeatedDeliveryEndsTheScan: a process dies between the last commit and the scan's end. The next delivery ends the scan.
func TestRepeatedDeliveryEndsTheScan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 3, 1)
		id := w.start(countInSteps)
		_, messages := w.takeMessages(scans.ScanPrefix, 1)
		w.process.DieWhen(func(*http.Request) bool { return len(w.ledgerRows(id, "p|")) == 0 })
		for delivery, want := range []ledger.State{ledger.Running, ledger.Succeeded} {
			_, _ = w.engine.Run(t.Context(), w.bodyOf(messages[0]), delivery+1)
			if s := w.status(id); s.State != want || s.Steps.Pending != 0 {
				t.Errorf("after delivery %d, the status is %+v, want %s with every step done", delivery+1, s, want)
			}
			w.restart()
		}
	})
}

// TestLeasedSteps: a status counts the steps that processes hold, and shows until when their messages are sent again if the processes are dead. The
// ranges show these steps without a further request.
func TestLeasedSteps(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := withSource(t, 3, 1)
			id := w.start(copyRequest("Source", "Target"))
			if l := w.status(id).Leased; l != nil {
				t.Errorf("leased steps %+v, but no step was begun", l)
			}
			ranges := func(want string) {
				t.Helper()
				if r, err := w.observer.Ranges(t.Context(), id); err != nil || len(r.Ranges) != 1 || r.Ranges[0].State != want {
					t.Errorf("got ranges %+v, %v; want a single %s one", r, err, want)
				}
			}
			ranges("pending")
			w.process.DieWhen(func(r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "Source") {
					return false
				}
				time.Sleep(12 * time.Second) // a slow query
				return dies
			})
			q, messages := w.takeMessages(scans.ScanPrefix, 1)
			if len(messages) != 1 {
				t.Fatalf("got messages %v, want the scan's message", messages)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := w.engine.Run(t.Context(), w.bodyOf(messages[0]), 1)
				ended <- err
			}()
			time.Sleep(7 * time.Second)
			if l := w.status(id).Leased; l == nil || l.Steps != 1 || time.Until(l.Until) < 80*time.Second || time.Until(l.Until) > 90*time.Second {
				t.Errorf("leased steps %+v at %v, want 1 step for up to 90 s", l, time.Now())
			}
			if n := w.requests(func() error { ranges("leased"); return nil }); n != 1 {
				t.Errorf("ranges that were read 7 s ago make %d requests, want one for the scan's state", n)
			}
			time.Sleep(6 * time.Second)
			if !dies {
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if s := w.status(id); s.State != ledger.Succeeded || s.Leased != nil {
					t.Errorf("got status %+v, want it succeeded without leased steps", s)
				}
				ranges(status.RangeDone)
				return
			}
			l := w.status(id).Leased
			if l == nil || l.Steps != 1 {
				t.Fatalf("leased steps %+v, want the step of the dead process", l)
			}
			for waits := []storage.Message(nil); len(waits) == 0; {
				time.Sleep(time.Minute - 11*time.Second)
				w.must(w.observer.Maintain(t.Context()))
				var err error
				if waits, err = q.Peek(t.Context()); err != nil || time.Now().After(l.Until) {
					t.Fatalf("the message was not sent again by %v: %v", l.Until, err)
				}
			}
			time.Sleep(time.Until(l.Until))
			if l := w.status(id).Leased; l != nil {
				t.Errorf("leased steps %+v, want none after the dead process's last heartbeat is too old", l)
			}
			<-ended
		})
	}
}

// TestPoisonMessages: if messages went to the poison queue during an outage, their steps are sent again. A message that cannot be removed does
// not hide others. Messages of other apps stay.
func TestPoisonMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 40, 1)
		r := copyRequest("Source", "Target")
		r.SegmentSize, r.Strategy = 2, "prefix"
		id := w.start(r)
		w.deliver() // this leaves several messages in the queue
		q, messages := w.takeMessages(scans.ScanPrefix, storage.MaxGetMessages)
		if len(messages) < 2 {
			t.Fatalf("got %d messages, want several", len(messages))
		}
		poison := w.queue(q.Name() + "-poison")
		w.must(poison.Create(t.Context()))
		for _, m := range messages {
			w.must(poison.Put(t.Context(), m.Text), q.Delete(t.Context(), m))
		}
		w.must(poison.Put(t.Context(), base64.StdEncoding.EncodeToString([]byte("not ours"))))
		removals := 0
		w.refuse(http.StatusForbidden, "AuthorizationFailure", func(r *http.Request, _ string) bool {
			if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "-poison/messages/") {
				removals++
				return removals == 1
			}
			return false
		})
		if err := w.engine.Maintain(t.Context()); err == nil {
			t.Error("Maintain does not report that a poison message could not be removed")
		}
		if n, err := poison.Length(t.Context()); err != nil || n != 2 {
			t.Errorf("got %d poison messages, %v; want the foreign one and the one that could not be removed", n, err)
		}
		w.timeToEnd(id)
		w.checkEnd(id, 40)
	})
}

// TestEndWithoutListRows: a scan's end is recorded, but its rows in the lists cannot be written. Maintain writes these rows later.
func TestEndWithoutListRows(t *testing.T) {
	t.Parallel()
	w := withSource(t, 30, 1)
	r := copyRequest("Source", "Target")
	r.SegmentSize = 2
	w.refuse(http.StatusForbidden, "AuthorizationFailure", func(r *http.Request, _ string) bool {
		return r.Method == http.MethodGet && strings.Contains(r.URL.Query().Get("$filter"), "PartitionKey eq 'scans'")
	})
	succeeded := w.run(r)
	if p, err := w.account.Table("tablesweep").Query(t.Context(), storage.Query{Range: key.WithPrefix("hints", "")}); err != nil || len(p.Rows) == 0 {
		t.Error("a succeeded scan left no hints")
	}
	canceled := w.start(r)
	if err := w.engine.Cancel(t.Context(), canceled); err != nil {
		t.Errorf("a cancellation of an ended scan: got error %v", err)
	}
	w.restart()
	w.must(w.engine.Maintain(t.Context()))
	list, err := w.list(2)
	if err != nil || list[0].State != ledger.Canceled || list[1].State != succeeded.State || list[1].Rows.Written != 30 {
		t.Errorf("the list has %+v, %v, want the ended scan", list, err)
	}
	if open := w.ledgerRows("", "o|"); len(open) > 0 {
		t.Errorf("the list of open scans still has %v", open)
	}
}

// TestCanceledEnqueue: while a step enqueues a page, another process cancels the scan. The step still sends all messages of the page, because a
// retry would otherwise send some of them again. The list has the step's counts, although the scan had already ended. sim.TestCanceledInAStep
// tests the actions that stop immediately.
func TestCanceledEnqueue(t *testing.T) {
	t.Parallel()
	const rows = 600
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, rows, 1)
		id := w.start(scans.Request{Source: scans.TableRef{Table: "Source"}, Action: scans.Action{Type: scans.Enqueue, Queue: &scans.QueueRef{Name: "orders"}}, Strategy: "serial"})
		w.must(w.emulator.SetFaults("latency=300ms on=put queue=orders"))
		time.AfterFunc(1600*time.Millisecond, func() {
			if err := w.observer.Cancel(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
		w.drain()
		w.checkCounts(id, ledger.Canceled, rows, rows, 0)
		if list, err := w.list(1); err != nil || list[0].Rows != w.status(id).Rows || list[0].Steps != w.status(id).Steps {
			t.Errorf("the list has %+v, %v; want the figures of the status", list, err)
		}
		w.must(w.engine.Retry(t.Context(), id))
		w.drain()
		w.checkCounts(id, ledger.Succeeded, rows, rows, 0)
	})
}

// TestNewerVersion: a newer version has written a scan's request, hints or message in a form that this version does not know. The message is also
// in the poison queue. For as long as an upgrade may take, this version neither fails the scan nor sends a message. Then the newer version reads
// every row.
func TestNewerVersion(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	request := func(text string) storage.Property { return storage.BinaryProperty("Request", []byte(text)) }
	for name, stored := range map[string]storage.Property{
		"field":    request(`{"source":{"table":"Source"},"action":{"type":"count"},"limit":3}`),
		"action":   request(`{"source":{"table":"Source"},"action":{"type":"rename"}}`),
		"mode":     request(`{"source":{"table":"Source"},"action":{"type":"copy","destination":{"table":"Target"},"mode":"newest"}}`),
		"strategy": request(`{"source":{"table":"Source"},"action":{"type":"count"},"strategy":"halving"}`),
		"hints":    storage.BinaryProperty("Data00", gzipped(`{"version":2,"keys":{"in":"another form"}}`)),
		"message":  {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := withSource(t, 20, 6)
				r := copyRequest("Source", "Target")
				r.SegmentSize = 10
				w.run(r) // this scan leaves hints
				id := w.start(r)
				if name == "message" {
					newer := []byte(`{"v":3,"scan":"` + id + `","unknown":{"field":1}}`)
					stored = storage.BinaryProperty("Message", newer)
					q, first := w.takeMessages(scans.ScanPrefix, 1)
					poison, text := w.queue(q.Name()+"-poison"), base64.StdEncoding.EncodeToString(newer)
					w.must(q.Delete(t.Context(), first[0]), poison.Create(t.Context()), poison.Put(t.Context(), text), q.Put(t.Context(), text))
				}
				was := w.replaceProperty(string(id), stored)
				w.restart() // this process has an older version
				for range 4 {
					w.drain()
					time.Sleep(time.Hour)
					w.must(w.engine.Maintain(t.Context()))
					if n, err := w.queue(scans.Queues[scans.ScanPrefix]).Length(t.Context()); name == "message" && (n != 0 || err != nil) {
						t.Errorf("got %d messages, %v; want none", n, err)
					}
				}
				w.drain()
				w.replaceProperty(string(id), was)
				if s := w.status(id); s.State != ledger.Running || s.Steps.Pending != 1 || s.Steps.Done != 0 {
					t.Errorf("got status %+v, want it running with its step pending", s)
				}
				w.restart() // this process has the newer version
				time.Sleep(time.Hour)
				w.must(w.engine.Maintain(t.Context()))
				w.checkTidy()
				w.checkCounts(id, ledger.Succeeded, 120, 120, 0)
			})
		})
	}
}

// replaceProperty replaces a property of a ledger row in a partition, such as a scan's row, and returns the old property.
func (w *world) replaceProperty(partition string, p storage.Property) (was storage.Property) {
	w.Helper()
	for _, row := range w.rows("tablesweep") {
		for i, old := range row.Properties {
			if row.Key.Partition != partition || old.Name != p.Name {
				continue
			}
			row.Properties[i] = p
			w.must(w.account.Table("tablesweep").Write(w.Context(), storage.Op{Kind: storage.Replace, Row: row.Row()}))
			return old
		}
	}
	w.Fatalf("no row has %s", p.Name)
	return was
}
