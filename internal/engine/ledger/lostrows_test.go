package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scan"
	"tablesweep/internal/storage"
)

// kindOf names the kind of a scan's row that says which steps there are; "" for others.
func kindOf(row string) string {
	switch {
	case strings.HasPrefix(row, "p|"):
		return "pending"
	case strings.HasPrefix(row, "d|-"):
		return "folded"
	case strings.HasPrefix(row, "d|") && strings.HasSuffix(row, "|"):
		return "begun"
	case strings.HasPrefix(row, "d|"):
		return "done"
	}
	return ""
}

// someLost returns some of the keys, by kind: two of a kind, one of two kinds, all of a kind, all of two kinds, or all.
func someLost(r *rand.Rand, rows map[string][]string) (lost []string) {
	kinds := slices.Sorted(maps.Keys(rows))
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for _, kind := range kinds {
		r.Shuffle(len(rows[kind]), func(i, j int) { rows[kind][i], rows[kind][j] = rows[kind][j], rows[kind][i] })
	}
	one, two := rows[kinds[0]], rows[kinds[min(1, len(kinds)-1)]]
	switch r.IntN(5) {
	case 0:
		return one[:min(2, len(one))]
	case 1:
		return slices.Compact([]string{one[0], two[0]})
	case 2:
		return one
	case 3:
		return slices.Compact(slices.Concat(one, two))
	}
	return slices.Concat(slices.Collect(maps.Values(rows))...)
}

// doPending commits each pending step of a scan.
func doPending(t *testing.T, l *ledger.Ledger, id string) {
	t.Helper()
	proof.Must(t, l.EachPending(t.Context(), id, func(steps []ledger.Pending) (err error) {
		for _, p := range steps {
			_, failed := l.Commit(t.Context(), id, p.ID, time.Now(), ledger.Done{}, nil)
			err = errors.Join(err, failed)
		}
		return err
	}))
}

// work commits so many of the book's pending steps, if there are as many, and calls then behind each.
func (b *book) work(t *testing.T, l *ledger.Ledger, scan string, r *rand.Rand, steps int, then func()) {
	t.Helper()
	for range steps {
		step, done, children := b.take(r)
		if step == "" {
			return
		}
		done.Failed = 0
		_, err := l.Commit(t.Context(), scan, step, time.Now(), done, children)
		proof.Must(t, err)
		b.committed(children)
		then()
	}
}

// TestLostRows: whichever rows of steps somebody deletes, in the middle of a scan or behind its last step, before a retry or after it, the scan does
// not succeed, and says why.
func TestLostRows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testsize.Of(40, 400)) {
		_, table, id := begunScan(t)
		l, ctx, b, r := ledger.New(table), t.Context(), newBook(), rand.New(rand.NewPCG(seed, 4))
		work := func(steps int) {
			b.work(t, l, id, r, steps, func() {
				if r.IntN(9) == 0 {
					_, err := l.Fold(ctx, id, r.IntN(3), 2, join)
					proof.Must(t, err)
				}
			})
		}
		retry := func() {
			_, err := l.End(ctx, id, time.Now(), ledger.Ending{State: ledger.Canceled})
			proof.Must(t, err)
			s, err := l.Scan(ctx, id)
			proof.Must(t, err, l.Restart(ctx, s, time.Now(), &ledger.Pending{ID: fmt.Sprint("again", s.Attempt), Message: []byte("{}")}, scan.Pages(1)))
			b.pending[fmt.Sprint("again", s.Attempt)] = scan.Pages(1)
		}
		work(1 + r.IntN(120))
		if r.IntN(3) == 0 {
			retry()
			work(r.IntN(20))
		}
		if r.IntN(3) == 0 { // no step is left
			doPending(t, l, id)
		}
		rows := map[string][]string{}
		proof.Must(t, table.All(ctx, storage.Query{}, func(p storage.Page) error {
			for _, e := range p.Entities() {
				if kind := kindOf(e.Key.Row); kind != "" {
					rows[kind] = append(rows[kind], e.Key.Row)
				}
			}
			return nil
		}))
		if s, err := l.Snapshot(ctx, id); err != nil || s.Lost != "" {
			t.Fatalf("seed %d: %v; before any loss it lacks: %s", seed, err, s.Lost)
		}
		lost := someLost(r, rows)
		for _, row := range lost {
			proof.Must(t, table.Write(ctx, storage.Op{Kind: storage.Delete, Row: storage.Row{Key: key.Key{Partition: id, Row: row}}}))
		}
		if s, err := l.Snapshot(ctx, id); err != nil || s.Lost == "" {
			t.Errorf("seed %d: %v; nobody notices that %q are lost", seed, err, lost)
		}
		if doPending(t, l, id); r.IntN(3) == 0 {
			_, err := l.Fold(ctx, id, 0, 2, join)
			proof.Must(t, err)
		}
		sealed := false
		ended, err := l.Finish(ctx, id, time.Now(), func(s ledger.Listed) (ledger.Ending, error) { sealed = true; return succeeds(s) })
		s, readErr := l.Scan(ctx, id)
		if proof.Must(t, err, readErr); !ended || sealed || s.State != ledger.Failed || !strings.HasPrefix(s.Error, "the state table lacks ") {
			t.Errorf("seed %d: of %d rows, %q are lost: ended %v, sealed %v, %s: %s", seed, len(slices.Concat(slices.Collect(maps.Values(rows))...)), lost, ended, sealed, s.State, s.Error)
		}
	}
}
