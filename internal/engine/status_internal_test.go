package engine

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

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
	c := &committed{e: e, id: id, message: first[0].Message, ahead: m.ahead(), random: rand.New(rand.NewPCG(1, 1))}
	c.commit(t, first[0].ID, processes, adaptive.Outlook{Millipages: 4000}.Minus(m.ahead()))
	for range rounds {
		var g sync.WaitGroup
		for range processes {
			g.Go(func() {
				for range *manySteps / rounds / processes {
					c.next(t)
				}
			})
		}
		g.Wait()
		em.ResetCounts()
		s, err := e.Status(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		counts := em.Counts()
		if n := counts.TableTransactions() + counts.QueueTransactions(); n > 3 {
			t.Errorf("a status after %d steps takes %d requests, want at most 3", s.Steps.Done, n)
		}
		if s.Rows.Scanned != c.rows || s.Queries != c.steps || s.Transactions != c.transactions || s.Throttled != c.throttled ||
			s.Steps.Done != c.steps || s.Steps.Pending != int64(len(c.pending)) {
			t.Errorf("rows, steps, queries, requests, throttled: %v, %v, %d, %d, %d; want %d, %d pending and %d done, %d, %d, %d",
				s.Rows, s.Steps, s.Queries, s.Transactions, s.Throttled, c.rows, len(c.pending), c.steps, c.steps, c.transactions, c.throttled)
		}
		share, ok := c.ahead.Progress(float64(c.rows) / 1000)
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

	mu                                   sync.Mutex // guards the following
	random                               *rand.Rand
	pending                              []string
	steps, rows, transactions, throttled int64
	ahead                                adaptive.Outlook
}

// next commits a pending step, with up to two children: never none if few steps are left.
func (c *committed) next(t *testing.T) {
	c.mu.Lock()
	i := c.random.IntN(len(c.pending))
	step := c.pending[i]
	c.pending = slices.Delete(c.pending, i, i+1)
	children := c.random.IntN(3)
	if len(c.pending) < 200 {
		children = 1 + c.random.IntN(2)
	}
	ahead := adaptive.Outlook{Millipages: c.random.Int64N(1000) - 450, Guessed: c.random.Int64N(3) - 1}
	c.mu.Unlock()
	c.commit(t, step, children, ahead)
}

func (c *committed) commit(t *testing.T, step string, children int, ahead adaptive.Outlook) {
	c.mu.Lock()
	c.steps++
	n := c.steps
	rows := 1 + n%1000
	done := ledger.Done{Totals: ledger.Totals{Rows: rows, Queries: 1, Transactions: 4 + n%3, Throttled: n % 2}, Ahead: ahead}
	c.rows, c.transactions, c.throttled = c.rows+rows, c.transactions+done.Transactions, c.throttled+done.Throttled
	c.ahead = c.ahead.Plus(ahead)
	c.mu.Unlock()
	done.Note = (&yield{ends: []adaptive.PageEnd{{Last: key.Key{Partition: step, Row: "000001"}, Rows: int(rows)}}}).note()
	var next []ledger.Pending
	for i := range children {
		next = append(next, ledger.Pending{ID: fmt.Sprintf("%d-%d", n, i), Message: c.message})
	}
	ok, err := c.e.ledger.Commit(t.Context(), c.id, step, time.Now(), done, next)
	if err != nil || !ok {
		t.Errorf("commit of step %s: %v, %v", step, ok, err)
	}
	c.mu.Lock()
	for _, p := range next {
		c.pending = append(c.pending, p.ID)
	}
	c.mu.Unlock()
	c.e.foldAfter(t.Context(), c.id, step)
}
