package engine_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/schedule"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// world is an app on embedded storage. The test takes the place of the Functions host.
type world struct {
	testing.TB
	emulator *emulator.Emulator
	account  *storage.Account // used by the test, not by the app
	engine   *engine.Engine
	process  *emulatortest.Process
	observer *engine.Engine // used by the test to read states; never dies

	options   []func(*options)  // applied to each engine
	delivered map[string]int    // the number of messages, by function
	onMessage func(body []byte) // if not nil, called with each message before it is handled
	memory    *memory.Budget    // shared by all engines; at the end, all of it must be free
}

// options are the options of an engine, and its schedules.
type options struct {
	scans.Options
	Schedules []schedule.Schedule
}

func newWorld(t testing.TB, o emulator.Options) *world {
	t.Helper()
	em := emulatortest.New(t, o)
	w := &world{TB: t, emulator: em, account: emulatortest.Open(t, em, nil), delivered: map[string]int{}, memory: memory.NewBudget(256 << 20)}
	t.Cleanup(func() {
		for try := 0; w.memory.Usage().Used > 0; try++ { // a comparison holds rows for some seconds
			if try == 120 {
				t.Errorf("memory %+v: parts of it were not released", w.memory.Usage())
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	w.observer = w.newEngine(w.account)
	w.restart()
	w.must(w.engine.TryPrepare(t.Context()))
	return w
}

// restart replaces the app's process by a new process.
func (w *world) restart() {
	w.Helper()
	w.process = &emulatortest.Process{Next: w.emulator.Transport()}
	w.engine = w.newEngine(emulatortest.Open(w, w.emulator, w.process))
}

func (w *world) newEngine(a *storage.Account, change ...func(*options)) *engine.Engine {
	w.Helper()
	o := options{Options: scans.Options{Own: a, Accounts: map[string]*storage.Account{"AzureWebJobsStorage": a}, StateTable: "tablesweep", Memory: w.memory}}
	for _, f := range slices.Concat(w.options, change) {
		f(&o)
	}
	e, err := engine.New(o.Options, o.Schedules...)
	w.must(err)
	return e
}

// transport is a function that serves as an HTTP transport.
type transport func(*http.Request) (*http.Response, error)

func (t transport) Do(r *http.Request) (*http.Response, error) { return t(r) }

// refuse makes the service answer with a status and a code if `refused` returns true for an app's request. The argument `body` is the
// request's body.
func (w *world) refuse(status int, code string, refused func(r *http.Request, body string) bool) {
	w.process.Next = emulatortest.Via{Transporter: w.emulator.Transport(), Answer: func(r *http.Request, body string) (*http.Response, error) {
		if refused(r, body) {
			return emulatortest.Refusal(r, status, code), nil
		}
		return nil, nil
	}}
}

// withSource returns a world with a table Source, which has the given number of partitions of the given size.
func withSource(t testing.TB, partitions, size int) *world {
	t.Helper()
	w := newWorld(t, emulator.Options{})
	w.fill("Source", plainRows(partitions, size))
	return w
}

// must ends the test if one of the errors is not nil.
func (w *world) must(errs ...error) {
	w.Helper()
	proof.Must(w, errs...)
}

// fill creates a table with the rows.
func (w *world) fill(table string, rows []storage.Entity) {
	w.Helper()
	emulatortest.Table(w, w.account, table, rows)
}

// rows reads a whole table.
func (w *world) rows(table string) []storage.Entity {
	w.Helper()
	return emulatortest.Rows(w, w.account.Table(table))
}

func (w *world) start(r scans.Request) ledger.ScanID {
	w.Helper()
	id, err := w.engine.Start(w.Context(), r)
	w.must(err)
	return id
}

// takeMessages takes up to n messages of a function, and hides them for as long as the host does.
func (w *world) takeMessages(function string, n int) (*storage.Queue, []storage.Message) {
	w.Helper()
	q := w.queue(scans.Queues[function])
	messages, err := q.Get(w.Context(), n, lease)
	if err != nil {
		w.Error(err)
	}
	return q, messages
}

// bodyOf returns a message's body.
func (w *world) bodyOf(m storage.Message) []byte {
	w.Helper()
	body, err := base64.StdEncoding.DecodeString(m.Text)
	if err != nil {
		w.Error(err)
	}
	return body
}

// deliver takes up to a batch of messages from each queue, and handles each message, as the host does. A message that fails
// becomes visible again. deliver returns the number of messages.
func (w *world) deliver() int {
	w.Helper()
	const batchSize = 8 // as in host.json
	total := 0
	for _, function := range []string{scans.ScanPrefix, scans.ScanPartition, scans.CopyRows} {
		q, messages := w.takeMessages(function, batchSize)
		for _, m := range messages {
			body := w.bodyOf(m)
			if w.onMessage != nil {
				w.onMessage(body)
			}
			_, err := w.engine.Run(w.Context(), body, m.DequeueCount)
			switch {
			case w.process.Dead():
				w.restart() // the message stays hidden, as after the loss of an instance
			case problem.FateOf(err) == problem.Done:
				w.must(q.Delete(w.Context(), m))
			case m.DequeueCount >= scans.MaxDeliveries:
				poison := w.queue(q.Name() + "-poison")
				w.must(poison.Create(w.Context()), poison.Put(w.Context(), m.Text), q.Delete(w.Context(), m))
			default:
				w.Logf("delivery %d failed: %v", m.DequeueCount, err)
				if _, err := q.Update(w.Context(), m, 0); err != nil {
					w.Fatal(err)
				}
			}
		}
		w.delivered[function] += len(messages)
		total += len(messages)
	}
	return total
}

func (w *world) queue(name string) *storage.Queue {
	w.Helper()
	q, err := w.account.Queue(name)
	w.must(err)
	return q
}

// drain delivers messages until none is visible.
func (w *world) drain() {
	w.Helper()
	for w.deliver() > 0 {
	}
}

// status reads a scan's status.
func (w *world) status(id ledger.ScanID) status.Status {
	w.Helper()
	s, err := w.observer.Status(w.Context(), id)
	w.must(err)
	return s
}

// list returns the first page of the list of scans.
func (w *world) list(top int) ([]status.Status, error) {
	l, err := w.observer.List(w.Context(), status.ListQuery{Top: top})
	return l.Scans, err
}

// run starts a scan and delivers messages until its end.
func (w *world) run(r scans.Request) status.Status {
	w.Helper()
	id := w.start(r)
	w.drain()
	return w.status(id)
}

// succeed runs a scan, which must succeed.
func (w *world) succeed(r scans.Request) status.Status {
	w.Helper()
	s := w.run(r)
	if s.State != ledger.Succeeded || s.Steps.Pending != 0 {
		w.Fatalf("got status %+v, want success", s)
	}
	return s
}

// checkCounts fails the test unless a scan has the given state and numbers of rows.
func (w *world) checkCounts(id ledger.ScanID, state ledger.State, scanned, written, failed int) {
	w.Helper()
	rows := [3]int64{int64(scanned), int64(written), int64(failed)}
	if s := w.status(id); s.State != state || [3]int64{s.Rows.Scanned, s.Rows.Written, s.Rows.Failed} != rows || state == ledger.Succeeded && s.Steps.Pending != 0 {
		w.Errorf("got status %+v, want %s with %v rows scanned, written and failed", s, state, rows)
	}
}

// equalTables fails the test unless both tables have the same rows.
func (w *world) equalTables(a, b string) {
	w.Helper()
	x, y := w.rows(a), w.rows(b)
	if !slices.EqualFunc(x, y, storage.Equal) {
		w.Errorf("tables %s (%d rows) and %s (%d rows) differ", a, len(x), b, len(y))
		for i := range min(len(x), len(y)) {
			if !storage.Equal(x[i], y[i]) {
				w.Errorf("row %d: %v\nwant %v", i, y[i], x[i])
				return
			}
		}
	}
}

// plainRows returns rows with two properties, in the given number of partitions of the given size. Partitions and rows are named
// by number.
func plainRows(partitions, size int) []storage.Entity {
	var rows []storage.Entity
	for p := range partitions {
		for r := range size {
			rows = append(rows, storage.Entity{
				Key: key.Key{Partition: fmt.Sprintf("customer-%07d", p*7919%9999991), Row: fmt.Sprintf("%06d", r)},
				Properties: []storage.Property{
					storage.StringProperty("Name", strings.Repeat("x", 20)),
					storage.Int64Property("Number", int64(r)),
				},
			})
		}
	}
	slices.SortFunc(rows, func(a, b storage.Entity) int { return a.Key.Compare(b.Key) })
	return rows
}

func copyRequest(from, to string) scans.Request {
	return scans.Request{
		Source: scans.TableRef{Table: from},
		Action: scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Table: to}},
	}
}
