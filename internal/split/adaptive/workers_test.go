package adaptive_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/scantest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// workersSlowdown is the divisor of the number of random tables in tests.
var workersSlowdown = testsize.Slow(10, 3, 1)

// query is a running query.
type query struct {
	piece *adaptive.Piece
	step  scan.Step
	page  *scan.Page // the answer; nil until the service has made it
}

// shareCase runs a case within a range. Queries are answered in random order, and answers arrive in random order. Idle workers steal at random
// moments from random pieces. shareCase returns the rows in order, and the number of thieves.
func shareCase(c scantest.Case, whole key.Range, r *rand.Rand) (rows []key.Key, thieves int, err error) {
	s := c.Open(r)
	w := adaptive.NewWorkers(c.Segment)
	if whole.Empty() {
		return nil, 0, nil
	}
	underway := []*query{{piece: adaptive.NewPiece(whole), step: scan.Step{Range: whole}}}
	for turns := 0; len(underway) > 0; turns++ {
		if turns > 10_000+1000*len(c.Rows) {
			return nil, 0, fmt.Errorf("no end after %d turns", turns)
		}
		i := r.IntN(len(underway))
		q := underway[i]
		switch {
		case q.page == nil:
			p, err := s.Query(q.step)
			if err != nil {
				return nil, 0, err
			}
			q.page = &p
		default:
			underway = slices.Delete(underway, i, i+1)
			yield, rest := w.Page(q.piece, q.step, *q.page)
			rows = append(rows, q.page.Keys[:yield]...)
			for _, step := range rest {
				underway = append(underway, &query{piece: q.piece, step: step})
			}
		}
		if r.IntN(2) == 0 && thieves < 50+2*len(c.Rows) {
			for _, t := range w.Steal(piecesOf(underway, r), r.IntN(9)) {
				for _, thief := range t.Thieves {
					thieves++
					if thief.Range().Empty() {
						return nil, 0, fmt.Errorf("a thief has the empty range %+v", thief.Range())
					}
					underway = append(underway, &query{piece: thief, step: scan.Step{Range: thief.Range()}})
				}
			}
		}
	}
	slices.SortFunc(rows, key.Key.Compare)
	return rows, thieves, nil
}

// piecesOf returns some of the pieces.
func piecesOf(queries []*query, r *rand.Rand) []*adaptive.Piece {
	var pieces []*adaptive.Piece
	for _, q := range queries {
		if r.IntN(3) > 0 {
			pieces = append(pieces, q.piece)
		}
	}
	return pieces
}

// TestWorkersOnRandomTables scans random tables with unusual keys, in short and empty pages, while rows are added and deleted. Every row must be
// yielded exactly once, whatever the order of answers and thefts.
func TestWorkersOnRandomTables(t *testing.T) {
	t.Parallel()
	thieves := 0
	for i := range 2500 / workersSlowdown {
		r := rand.New(rand.NewPCG(15, uint64(i)))
		c := scantest.Random(r)
		rows, n, err := shareCase(c, c.Bounds.Range(), r)
		if err == nil {
			err = c.Compare(rows)
		}
		if err != nil {
			t.Fatalf("case %d: got error %v", i, err)
		}
		thieves += n
	}
	if thieves < 5_000/workersSlowdown {
		t.Errorf("only %d thieves: hardly anything was tried", thieves)
	}
}

// A piece keeps to the bounds of its range, of any kind. Neither the piece nor its thieves yield a row beyond the bounds.
func TestPiecesKeepToTheirBounds(t *testing.T) {
	t.Parallel()
	thieves := 0
	for i := range 5000 / workersSlowdown {
		r := rand.New(rand.NewPCG(16, uint64(i)))
		c := scantest.Random(r)
		if c.Bounds, c.Churn = (key.Bounds{}), 0; len(c.Rows) == 0 {
			continue
		}
		whole := anyRange(r, c.Rows)
		rows, n, err := shareCase(c, whole, r)
		if err == nil {
			c.Rows = slices.DeleteFunc(slices.Clone(c.Rows), func(k key.Key) bool { return !whole.Contains(k) })
			err = c.Compare(rows)
		}
		if err != nil {
			t.Fatalf("case %d, range %+v: got error %v", i, whole, err)
		}
		thieves += n
	}
	if thieves < 2_500/workersSlowdown {
		t.Errorf("only %d thieves: hardly anything was tried", thieves)
	}
}

// anyRange returns a range of partitions, or of a partition's rows, whose bounds are keys of some rows.
func anyRange(r *rand.Rand, rows []key.Key) (whole key.Range) {
	a, b := rows[r.IntN(len(rows))], rows[r.IntN(len(rows))]
	low, high := a.Partition, b.Partition
	if r.IntN(2) == 0 {
		whole.Partition, low, high = &a.Partition, a.Row, b.Row
	}
	if r.IntN(2) == 0 {
		whole.Low = &key.Bound{Key: low, Open: r.IntN(2) == 0}
	}
	if r.IntN(2) == 0 {
		whole.High = &key.Bound{Key: high, Open: r.IntN(2) == 0}
	}
	return whole
}

// TestWorkersOnLargerTables scans tables of a hundred pages and more, which are cut between partitions and within partitions.
func TestWorkersOnLargerTables(t *testing.T) {
	t.Parallel()
	for name, shape := range scantest.Shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(5, 1))
			c := scantest.Case{Rows: scantest.Table(1500, shape), Segment: 10, Faulty: true, Churn: 50}
			rows, thieves, err := shareCase(c, c.Bounds.Range(), r)
			if err == nil {
				err = c.Compare(rows)
			}
			proof.Must(t, err)
			if thieves < 20 {
				t.Errorf("got %d thieves, want at least 20", thieves)
			}
		})
	}
}

// After a thief that finds nothing, the victim's end stays at the key where that thief began, and the next thief begins before that key.
func TestThiefThatFindsNothing(t *testing.T) {
	t.Parallel()
	w := adaptive.NewWorkers(2)
	s := adaptive.NewPiece(key.Range{})
	page := scan.Page{Keys: []key.Key{{Partition: "a"}, {Partition: "b"}}, Next: &key.Token{Partition: "c"}}
	if yield, rest := w.Page(s, scan.Step{}, page); yield != 2 || len(rest) == 0 {
		t.Fatalf("the first page yields %d rows and the steps %v", yield, rest)
	}
	last := s.End
	for range 5 {
		thefts := w.Steal([]*adaptive.Piece{s}, 1)
		if len(thefts) == 0 {
			break
		}
		if e := s.End; last != nil && e.Compare(*last) >= 0 {
			t.Errorf("after an empty thief, the end moved from %q to %q", *last, *e)
		}
		last = s.End
		for _, thief := range thefts[0].Thieves {
			if yield, rest := w.Page(thief, scan.Step{}, scan.Page{}); yield != 0 || len(rest) > 0 {
				t.Errorf("an empty page yields %d rows and the steps %v", yield, rest)
			}
		}
	}
	if last == nil {
		t.Fatal("nothing was stolen")
	}
	// The running page extends beyond the cut. Its rows after the cut belong to the thief.
	page.Keys = []key.Key{{Partition: "b", Row: "x"}, *last, {Partition: last.Partition, Row: "y"}}
	if yield, rest := w.Page(s, scan.Step{}, page); yield != 1 || len(rest) > 0 {
		t.Errorf("the page yields %d rows before the cut and the steps %v, want 1 row and no steps", yield, rest)
	}
}
