package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/rs/zerolog"

	"tablesweep/internal/action"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

const stateTable = "tablesweep"

// Stats counts what happened in a run.
type Stats struct {
	Took       time.Duration // from the creation of the first scan until the end of the last
	Requests   int           // all requests of handlers and hosts
	Polls      int           // requests for messages
	Watching   int           // requests to find lost steps
	Transcript uint64        // a hash of all requests, with their times and results
	Rows       int
	Accidents  int // accidents of the plan that happened
	Orphaned   int // losses of the machine that held the timer's lease
	Resent     int // messages that Maintain sent again because they seemed lost
	Duplicates int // messages that were stored twice
	Repeated   int // steps that were carried out in full although another delivery had committed them
	Poisoned   int // messages that the host moved to the poison queue
	Exports    int // exports that were completed
	Failures   int // scans that failed
	Retries    int // retries by the operator
	Redone     int // retries of failed rows
	Lost       int // rows of scans that the operator deleted from the state table
}

// world is the app's environment in a run: storage, hosts, machines and the operator.
type world struct {
	plan     Plan
	emulator *emulator.Transport
	aside    *emulator.Transport // the transport of second
	storage  *emulator.Emulator
	account  *storage.Account // the account of the test itself; machines do not affect it, but faults do
	second   *emulator.Emulator
	beside   *storage.Account // the account of second, into which groups copy
	witness  *witness
	log      zerolog.Logger // the log of the run
	appLog   zerolog.Logger // the log of the handlers and hosts

	start   time.Time
	over    context.Context // ends when the run ends
	group   sync.WaitGroup  // counts everything that runs
	slots   []*slot
	started chan struct{}           // closed when the operator has started the scans
	dark    atomic.Bool             // a blackout has begun
	lights  chan struct{}           // closed when the blackout is over
	failed  atomic.Bool             // a scan has failed
	holder  atomic.Pointer[machine] // the holder of the timer's lease

	mu         sync.Mutex // guards the fields below
	violations []string
	stats      Stats
	raging     []int                // the outages that have begun but not ended
	rounds     map[string]int       // the rounds in which rows were mended, by target
	canceled   map[string]time.Time // the time at which the operator got the answer to a cancellation, by target; deleted before a retry
	reads      map[string]bool      // reads of pending steps by Maintain, by the timer's run and the scan
}

// Run carries out the plan, and returns the violations that it finds. It must be called in a bubble of testing/synctest, because it takes hours of virtual
// time. log gets every event.
func Run(p Plan, log zerolog.Logger) (Stats, []string) {
	w := &world{plan: p, start: time.Now(), log: log, started: make(chan struct{}), lights: make(chan struct{}), rounds: map[string]int{}, canceled: map[string]time.Time{}, reads: map[string]bool{}}
	w.stats.Rows = len(p.Source)
	w.appLog = log
	if log.GetLevel() == zerolog.Disabled {
		w.appLog = zerolog.New(panics{w}).Level(zerolog.WarnLevel)
	}
	w.appLog = w.appLog.Hook(zerolog.HookFunc(w.onLog))
	var stop context.CancelFunc
	w.over, stop = context.WithCancel(context.Background())
	if err := w.prepare(); err != nil {
		stop()
		return w.stats, []string{"prepare: " + err.Error()}
	}
	for i, m := range p.Machines {
		pl := &slot{Machine: m, world: w, number: i, left: m.Accidents}
		w.slots = append(w.slots, pl)
		w.group.Go(pl.keep)
	}
	w.group.Go(w.keepTime)
	w.group.Go(w.blackout)
	w.group.Go(w.outages)
	operator{w}.operate()
	w.settle()
	stop()
	w.group.Wait()
	time.Sleep(time.Minute) // heartbeats stop some time after a process's last step
	checker{w}.check()
	w.stats.Took = w.witness.last.Sub(w.witness.first)
	return w.stats, w.violations
}

// onLog counts the app's log lines about lost messages, and the host's log lines about poison
// messages. A message that the host cannot decode is a violation. If the text of the app's lines changes, TestBugsAreFound fails.
func (w *world) onLog(_ *zerolog.Event, _ zerolog.Level, message string) {
	switch {
	case message == "a step's message was lost, and has been sent again":
		w.count(&w.stats.Resent)
	case strings.HasPrefix(message, "message has reached MaxDequeueCount"):
		w.count(&w.stats.Poisoned)
	case message == "the function is not invoked for this message":
		w.violated("the host cannot decode a message")
	}
}

// panics finds panics in the lines of a log. A panic has no other visible effect, because its invocation is retried.
type panics struct{ *world }

func (p panics) Write(line []byte) (int, error) {
	if i := bytes.Index(line, []byte("panic: ")); i >= 0 {
		p.violated("%s", line[i:])
	}
	return len(line), nil
}

func (w *world) count(n *int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*n++
}

func (w *world) violated(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// note adds a request to the transcript.
func (w *world) note(name string, req *http.Request, result string) {
	now := time.Since(w.start)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Requests++
	h := fnv.New64a()
	fmt.Fprintln(h, w.stats.Transcript, now, name, req.Method, req.URL.Path, req.URL.RawQuery, result)
	w.stats.Transcript = h.Sum64()
	if e := w.log.Trace(); e.Enabled() {
		e.Str("at", now.String()).Str("wire", name).Str("request", req.Method+" "+req.URL.Path+" "+req.URL.RawQuery).Msg(result)
	}
}

// notCanceled checks that no write to a scan's destination begins more than a second after the scan was canceled. It checks only calm plans, because after a
// failure a process may read the scan's state later.
func (w *world) notCanceled(req *http.Request, body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for target, at := range w.canceled {
		writes := req.Method != http.MethodGet && (strings.Contains(req.URL.Path, "/"+target+"(") || bytes.Contains(body, []byte("/"+target+"(")) || strings.Contains(req.URL.Path, "/"+exports+"/"+target+"/"))
		if late := time.Since(at); w.plan.Calm && writes && late > time.Second {
			w.violations = append(w.violations, fmt.Sprintf("%s %s begins %v after the cancellation", req.Method, req.URL.Path, late))
		}
	}
}

// tally counts requests for messages, and requests to find lost steps: heartbeats, reads of heartbeats, peeks into queues, stored observations, and
// Maintain's second check of a scan's pending steps.
func (w *world) tally(req *http.Request, body []byte) {
	q := req.URL.Query()
	filter, peeks := q.Get("$filter"), q.Get("peekonly") != ""
	caller, _ := req.Context().Value(invocationKey{}).(string)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case peeks, strings.Contains(filter, "'beats'"), bytes.Contains(body, []byte(`"PartitionKey":"beats"`)),
		strings.Contains(filter, "'look'"), bytes.Contains(body, []byte(`"RowKey":"look"`)):
		w.stats.Watching++
	case req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/messages"):
		w.stats.Polls++
	case strings.HasPrefix(caller, "timer ") && strings.Contains(filter, "'p|") && q.Get("$top") != "1":
		if read := caller + filter; w.reads[read] {
			w.stats.Watching++
		} else {
			w.reads[read] = true
		}
	}
}

// prepare fills the tables before faults begin.
func (w *world) prepare() error {
	var err error
	if w.storage, err = emulator.New(emulator.Options{OnRequest: w.observe}); err != nil {
		return err
	}
	if w.second, err = emulator.New(emulator.Options{Account: "second"}); err != nil {
		return err
	}
	w.emulator, w.aside = w.storage.Transport(), w.second.Transport()
	if w.witness, err = newWitness(w.storage); err != nil {
		return err
	}
	w.account, w.beside = w.open(w.storage, w.emulator), w.open(w.second, w.aside)
	if err := w.fill(w.account, "Source", w.plan.Source); err != nil {
		return err
	}
	for _, s := range w.plan.Scans {
		for _, m := range s.members() {
			if m.number > 0 && m.Request.Source.Container == "" {
				err = errors.Join(err, w.fill(w.account, tableOf(m.number-1), m.rows(w.plan.Source)))
			}
			if d := m.Request.Action.Destination; d != nil && d.Table != "" && (m.number == 0 || len(m.Destination) > 0) {
				err = errors.Join(err, w.fill(w.accountOf(m), d.Table, m.Destination))
			}
		}
		if s.Request.Action.Type == scans.Delete {
			err = errors.Join(err, w.fill(w.account, s.Request.Source.Table, w.plan.Source))
		}
	}
	return errors.Join(err, w.setFaults(w.plan.Faults))
}

func (w *world) setFaults(rules string) error {
	return errors.Join(w.storage.SetFaults(rules), w.second.SetFaults(rules))
}

// accountOf returns the account of a scan's destination.
func (w *world) accountOf(s PlannedScan) *storage.Account {
	if s.Request.Action.Destination.Connection == other {
		return w.beside
	}
	return w.account
}

// accounts returns the accounts in the app's configuration, by their connections.
func (w *world) accounts(own, beside *storage.Account) map[string]*storage.Account {
	return map[string]*storage.Account{storage.HostConnection: own, other: beside}
}

func (w *world) open(e *emulator.Emulator, transport policy.Transporter) *storage.Account {
	c, err := storage.ParseConnection(e.ConnectionString())
	if err == nil {
		var a *storage.Account
		if a, err = storage.Open(c, storage.Options{Transport: transport}); err == nil {
			return a
		}
	}
	panic("sim: internal error: " + err.Error())
}

func (w *world) fill(a *storage.Account, table string, rows []storage.Entity) error {
	ctx := context.Background()
	t := a.Table(table)
	err := t.Create(ctx)
	for _, unit := range (action.Copy{}).Split(storage.Rows(rows)) {
		var ops []storage.Op
		for _, row := range unit {
			ops = append(ops, storage.Op{Kind: storage.Insert, Row: row})
		}
		err = errors.Join(err, t.Write(ctx, ops...))
	}
	return err
}

func (w *world) ledger() *ledger.Ledger { return ledger.New(w.account.Table(stateTable)) }
