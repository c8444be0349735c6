package adaptive_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/scantest"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// TestLargeRows scans large rows, of which a page has 10 instead of 1,000. Hints must be close together, a scan with these hints must make few more
// queries than there are pages, and its progress must be accurate.
func TestLargeRows(t *testing.T) {
	const rows, full, page = 3000, 1000, 10
	c := scantest.Case{Segment: page, Rows: scantest.Table(rows, func(i int) key.Key { return key.Key{Partition: fmt.Sprintf("k%06x", i*7919%16777213)} })}
	var ends []scan.PageEnd
	for i := page - 1; i < rows; i += page {
		ends = append(ends, scan.PageEnd{Last: c.Rows[i], Rows: page, Requested: page})
	}
	hints := scan.NewHints(key.Bounds{}, ends, full)
	if n := len(hints.Keys); n < rows/page/scan.HintPages-2 || n > rows/page/scan.HintPages+2 {
		t.Errorf("got %d hints for %d pages", n, rows/page)
	}
	s := adaptive.Strategy{Hints: &hints, PageRows: full}
	service := c.Open(rand.New(rand.NewPCG(1, 2)))
	pending := []scan.Step{s.Start(key.Bounds{})}
	read, queries, known := 0, 0, 0
	for ; len(pending) > 0; queries++ {
		step := pending[0]
		pending = pending[1:]
		p, err := service.Query(step)
		proof.Must(t, err)
		d, err := s.Advance(step, p)
		proof.Must(t, err)
		read += d.Yield
		pending = append(pending, d.Children...)
		ahead := scan.Outlook{}
		for _, one := range pending {
			ahead = ahead.Plus(adaptive.Ahead(one))
		}
		share, ok := ahead.Progress(float64(read) / full)
		if truth := float64(read) / rows; ok && math.Abs(share-truth) > 0.15 {
			t.Errorf("the progress is %.2f, but %.2f of the rows are read", share, truth)
		} else if ok {
			known++
		}
	}
	if read != rows || float64(queries) > 1.15*rows/page || known < queries*3/4 {
		t.Errorf("got %d rows in %d queries; the progress was known after %d queries", read, queries, known)
	}
}
