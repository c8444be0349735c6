package ledger_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// book has the expected content of a scan's ledger. It is the model for the tests below.
type book struct {
	mu      sync.Mutex // guards the fields below
	pending map[ledger.StepID]scan.Outlook
	totals  ledger.Totals
	next    int
	born    map[ledger.StepID]scan.Outlook // the estimated work of steps that are not committed yet
}

// committed records that a step's children are pending.
func (b *book) committed(children []ledger.Pending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range children {
		b.pending[c.ID] = b.born[c.ID]
	}
}

func newBook() *book {
	return &book{pending: map[ledger.StepID]scan.Outlook{"000000": {Unknown: 1}}, born: map[ledger.StepID]scan.Outlook{}}
}

// take picks a pending step, and decides its counts and children.
func (b *book) take(r *rand.Rand) (id ledger.StepID, done ledger.Done, children []ledger.Pending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := slices.Sorted(maps.Keys(b.pending))
	if len(ids) == 0 {
		return "", done, nil
	}
	id = ids[r.IntN(len(ids))]
	done.Ahead = scan.Outlook{}.Minus(b.pending[id])
	delete(b.pending, id)
	done.Totals = ledger.Totals{Rows: r.Int64N(1000), Written: r.Int64N(1000), Failed: r.Int64N(2), Queries: 1, Transactions: r.Int64N(9), Throttled: r.Int64N(3)}
	n := r.IntN(4)
	if len(ids) < 5 {
		n = 3
	}
	for range n {
		b.next++
		c := ledger.Pending{ID: ledger.StepID(fmt.Sprintf("%06d", b.next)), Message: []byte("{}")}
		o := scan.Outlook{Millipages: r.Int64N(9999), Unknown: r.Int64N(2)}
		b.born[c.ID] = o
		done.Ahead = done.Ahead.Plus(o)
		children = append(children, c)
	}
	b.totals.Steps++
	for sum, n := range map[*int64]int64{&b.totals.Rows: done.Rows, &b.totals.Written: done.Written, &b.totals.Failed: done.Failed, &b.totals.Queries: done.Queries, &b.totals.Transactions: done.Transactions, &b.totals.Throttled: done.Throttled} {
		*sum += n
	}
	return id, done, children
}

// check compares a snapshot with the book while no step is being committed.
func (b *book) check(t *testing.T, s ledger.Snapshot) {
	t.Helper()
	if s.Sums.Totals != b.totals {
		t.Errorf("got sums %+v, want %+v", s.Sums.Totals, b.totals)
	}
	ahead := scan.Outlook{}
	for _, o := range b.pending {
		ahead = ahead.Plus(o)
	}
	if steps, got := s.Sums.Pending(); steps != int64(len(b.pending)) || got != ahead {
		t.Errorf("the sums show %d pending steps with work %+v, want %d with %+v", steps, got, len(b.pending), ahead)
	}
	if s.Whole && len(s.Steps) != len(b.pending) {
		t.Errorf("the snapshot has %d pending steps, want %d", len(s.Steps), len(b.pending))
	}
	var worked ledger.Point
	for _, p := range s.Sums.Times.Points() {
		worked.Rows += p.Rows
		worked.Requests += p.Requests
		worked.Throttled += p.Throttled
	}
	if worked.Rows != b.totals.Rows || worked.Requests != b.totals.Transactions || worked.Throttled != b.totals.Throttled {
		t.Errorf("the timeline has %+v in all, want the totals %+v", worked, b.totals)
	}
}

// begunScan returns a ledger's table with a scan that has the first step of a new book.
func begunScan(t *testing.T) (*emulator.Emulator, *storage.Table, ledger.ScanID) {
	t.Helper()
	em, table := newTable(t)
	now := time.Now()
	id := ledger.NewScanID(now)
	first := ledger.Pending{ID: "000000", Message: []byte("{}")}
	proof.Must(t, ledger.New(table).Create(t.Context(), id, now, []byte("{}"), nil, first, scan.Outlook{Unknown: 1}))
	return em, table, id
}

// succeeds returns the ending of a scan without errors.
func succeeds(ledger.Listed) (ledger.Ending, error) {
	return ledger.Ending{State: ledger.Succeeded}, nil
}

func join(notes [][]byte) []byte { return nil }

// commitOne commits a step, sometimes twice, with a time that is wrong by minutes. It reports false if no step is
// pending.
func (b *book) commitOne(ctx context.Context, t *testing.T, l *ledger.Ledger, id ledger.ScanID, r *rand.Rand) bool {
	step, done, children := b.take(r)
	if step == "" {
		return false
	}
	skewed := time.Now().Add(time.Duration(r.IntN(20)-10) * time.Minute)
	ours := 0
	for range 1 + r.IntN(2) { // the second is a repeated delivery
		committed, err := l.Commit(ctx, id, step, skewed, done, children)
		if err != nil {
			t.Errorf("commit of step %s: %v", step, err)
		}
		if committed {
			ours++
		}
		skewed = skewed.Add(time.Second)
	}
	b.committed(children)
	if ours != 1 {
		t.Errorf("step %s was committed %d times, want once", step, ours)
	}
	return true
}

// TestSumsDuringConcurrentFolds: steps are committed, some of them twice, with times that are wrong by minutes, while
// several goroutines fold them. A snapshot has all steps that were committed before it, and no step that was begun
// after it. Between commits, it has exactly the sums of the book. Pages may be short or empty, so some snapshots need
// several pages.
func TestSumsDuringConcurrentFolds(t *testing.T) {
	t.Parallel()
	em, table, id := begunScan(t)
	l, b := ledger.New(table), newBook()
	proof.Must(t, em.SetFaults("seed=1; short-page p=0.2 on=query; empty-page p=0.1 on=query"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	folding, stop := context.WithCancel(ctx)
	var folds sync.WaitGroup
	for i := range 3 {
		folds.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(i)))
			for folding.Err() == nil {
				if _, err := l.Fold(ctx, id, min(r.IntN(6), 3), 2+r.IntN(9), join); err != nil {
					t.Errorf("a fold: got error %v", err)
					return
				}
				time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
			}
		})
	}
	snapshots := 0
	for range 10 {
		var commits sync.WaitGroup
		var mu sync.Mutex // guards acknowledged
		begun, acknowledged := b.totals.Steps, b.totals.Steps
		for i := range 4 {
			r := rand.New(rand.NewPCG(uint64(begun), uint64(i)))
			commits.Go(func() {
				for range 15 {
					if !b.commitOne(ctx, t, l, id, r) {
						return
					}
					mu.Lock()
					acknowledged++
					mu.Unlock()
				}
			})
		}
		for range 10 {
			mu.Lock()
			least := acknowledged
			mu.Unlock()
			s, err := l.Snapshot(ctx, id)
			if err != nil {
				continue // every read was overtaken by a new fold
			}
			snapshots++
			b.mu.Lock()
			most := b.totals.Steps
			b.mu.Unlock()
			if s.Sums.Steps < least || s.Sums.Steps > most {
				t.Errorf("the snapshot counts %d steps, want %d to %d", s.Sums.Steps, least, most)
			}
		}
		commits.Wait()
		for {
			if s, err := l.Snapshot(ctx, id); err == nil {
				b.check(t, s)
				break
			} else if ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	folds.Wait()
	if snapshots < 20 {
		t.Errorf("only %d snapshots were taken between commits", snapshots)
	}
	for whole := false; !whole; {
		var err error
		whole, err = l.FoldAll(ctx, id, join)
		proof.Must(t, err)
	}
	s, err := l.Snapshot(ctx, id)
	proof.Must(t, err)
	b.check(t, s)
	if n := doneRows(t, table); n != 1 {
		t.Errorf("%d done rows are left, want 1", n)
	}
}

func doneRows(t *testing.T, table *storage.Table) int {
	t.Helper()
	return bytes.Count(dump(t, table), []byte(`"d|`))
}

// TestManyPendingSteps: a snapshot of a scan with more pending steps than fit on a page makes two requests, and counts all
// of the steps.
func TestManyPendingSteps(t *testing.T) {
	t.Parallel()
	em, table, id := begunScan(t)
	l, ctx, b, r := ledger.New(table), t.Context(), newBook(), rand.New(rand.NewPCG(3, 3))
	for len(b.pending) < 1500 {
		step, done, children := b.take(r)
		for range 60 { // a step with many children
			b.next++
			c := ledger.Pending{ID: ledger.StepID(fmt.Sprintf("%06d", b.next)), Message: []byte("{}")}
			b.born[c.ID] = scan.Outlook{Unknown: 1}
			done.Ahead.Unknown++
			children = append(children, c)
		}
		_, err := l.Commit(ctx, id, step, time.Now(), done, children)
		proof.Must(t, err)
		b.committed(children)
	}
	em.ResetCounts()
	s, err := l.Snapshot(ctx, id)
	proof.Must(t, err)
	if n := em.Counts().TableTransactions(); n > 2 {
		t.Errorf("the snapshot made %d requests, want 2", n)
	}
	if s.Whole || s.Scan.State != ledger.Running {
		t.Errorf("got whole %v and scan %+v", s.Whole, s.Scan)
	}
	b.check(t, s)
}
