package engine

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"tablesweep/internal/emulator"
	"tablesweep/internal/emulator/emulatortest"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/key"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/storage"
)

var manySteps = flag.Int("steps", 2_000, "the steps of the scan in TestStatusOfManySteps")

// TestStatusOfManySteps: however many steps are done, a status makes at most three requests and equals a full sum,
// pending steps and progress included. Several processes commit the steps straight to the ledger, at once, and fold
// as the engine does.
func TestStatusOfManySteps(t *testing.T) {
	t.Parallel()
	em, e, id := startCount(t)
	first, err := e.ledger.FirstPending(t.Context(), id)
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	m, err := parseMessage(first[0].Message)
	if err != nil {
		t.Fatal(err)
	}
	const processes, rounds = 4, 10
	c := &committed{e: e, id: id, message: first[0].Message}
	c.ahead = m.ahead()
	c.commit(t, processes, first[0].ID, processes, adaptive.Outlook{Millipages: 4000}.Minus(m.ahead()))
	parts := make([]*committed, processes)
	for p := range parts {
		parts[p] = &committed{e: e, id: id, message: c.message, random: rand.New(rand.NewPCG(1, uint64(p))), pending: c.pending[p : p+1 : p+1]}
	}
	c.pending = nil
	for range rounds {
		var g errgroup.Group
		for p, part := range parts {
			g.Go(func() error {
				for range *manySteps / rounds / processes {
					part.next(t, p)
				}
				return nil
			})
		}
		_ = g.Wait() // failures are reported
		want := *c
		for _, part := range parts {
			want.add(part)
		}
		em.ResetCounts()
		s, err := e.Status(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		counts := em.Counts()
		if n := counts.TableTransactions() + counts.QueueTransactions(); n > 3 {
			t.Errorf("a status after %d steps takes %d requests, want at most 3", s.Steps.Done, n)
		}
		if s.Rows.Scanned != want.rows || s.Queries != want.steps || s.Transactions != want.transactions || s.Throttled != want.throttled ||
			s.Steps.Done != want.steps || s.Steps.Pending != int64(len(want.pending)) {
			t.Errorf("rows, steps, queries, requests, throttled: %v, %v, %d, %d, %d; want %d, %d pending and %d done, %d, %d, %d",
				s.Rows, s.Steps, s.Queries, s.Transactions, s.Throttled, want.rows, len(want.pending), want.steps, want.steps, want.transactions, want.throttled)
		}
		share, ok := want.ahead.Progress(float64(want.rows) / 1000)
		if (s.Progress != nil) != ok || ok && *s.Progress != share {
			t.Errorf("progress of %+v, want %v, %v", s.Progress, share, ok)
		}
		t.Logf("%d steps done, %d pending, %d requests, %d rows read", s.Steps.Done, s.Steps.Pending, counts.TableTransactions(), counts.QueryRows)
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
	if err != nil {
		t.Fatal(err)
	}
	id, err := e.Start(t.Context(), Request{Source: TableRef{Table: "Source"}, Action: Action{Type: Count}})
	if err != nil {
		t.Fatal(err)
	}
	return em, e, id
}

// committed is a full sum, kept beside the ledger, and the steps that are pending.
type committed struct {
	e       *Engine
	id      string
	message []byte
	random  *rand.Rand

	pending                              []string
	steps, rows, transactions, throttled int64
	ahead                                adaptive.Outlook
}

func (c *committed) add(o *committed) {
	c.pending = append(c.pending[:len(c.pending):len(c.pending)], o.pending...)
	c.steps, c.rows, c.transactions, c.throttled = c.steps+o.steps, c.rows+o.rows, c.transactions+o.transactions, c.throttled+o.throttled
	c.ahead = c.ahead.Plus(o.ahead)
}

// next commits one of the process's pending steps, with up to two children: never none if it is the last.
func (c *committed) next(t *testing.T, process int) {
	i := c.random.IntN(len(c.pending))
	step := c.pending[i]
	c.pending = append(c.pending[:i], c.pending[i+1:]...)
	children := c.random.IntN(3)
	if len(c.pending) < 50 {
		children = 1 + c.random.IntN(2)
	}
	c.commit(t, process, step, children, adaptive.Outlook{Millipages: c.random.Int64N(1000) - 450, Guessed: c.random.Int64N(3) - 1})
}

func (c *committed) commit(t *testing.T, process int, step string, children int, ahead adaptive.Outlook) {
	c.steps++
	rows := 1 + c.steps%1000
	done := ledger.Done{Totals: ledger.Totals{Rows: rows, Queries: 1, Transactions: 4 + c.steps%3, Throttled: c.steps % 2}, Ahead: ahead}
	done.Note = (&yield{ends: []adaptive.PageEnd{{Last: key.Key{Partition: step, Row: "000001"}, Rows: int(rows)}}}).note()
	var next []ledger.Pending
	for i := range children {
		s := ledger.Pending{ID: fmt.Sprintf("%d-%d-%d", process, c.steps, i), Message: c.message}
		next = append(next, s)
		c.pending = append(c.pending, s.ID)
	}
	ok, err := c.e.ledger.Commit(t.Context(), c.id, step, time.Now(), done, next)
	if err != nil || !ok {
		t.Errorf("commit of step %s: %v, %v", step, ok, err)
	}
	c.rows, c.transactions, c.throttled = c.rows+rows, c.transactions+done.Transactions, c.throttled+done.Throttled
	c.ahead = c.ahead.Plus(ahead)
	c.e.foldAfter(t.Context(), c.id, step)
}
