package steal_test

import (
	"math"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/bench"
	"tablesweep/internal/scan/steal"
)

// TestNoShareDone is why no percentage is shown while workers steal: the rows that all
// strands believe to have left make a share done that is off by more than 10 points, on
// the mean of the second half of a scan, in more than one real table of ten. If it fails,
// the share can be shown.
func TestNoShareDone(t *testing.T) {
	t.Parallel()
	sets, near := bench.RealSets(""), 0
	for _, set := range sets {
		keys, err := set.Rows(math.MaxInt)
		if err != nil {
			t.Fatal(err)
		}
		off, most := shareDone(keys, max(1, set.Page/5))
		t.Logf("%-14s off by %2.0f points on the mean, %2.0f at most", set.Name, 100*off, 100*most)
		if off <= 0.1 {
			near++
		}
	}
	if 10*near >= 9*len(sets) {
		t.Errorf("%d of %d tables are off by 10 points at most: show the share", near, len(sets))
	}
}

// shareDone plays a scan by 64 workers, who all make a query a tick. It returns by how
// much the share done is off in the second half, on the mean and at most.
func shareDone(keys []key.Key, page int) (mean, most float64) {
	type worker struct {
		strand *steal.Strand
		step   scan.Step
	}
	const workers = 64
	model, query := steal.New(page), bench.Pages(keys, page)
	busy := []worker{{strand: steal.NewStrand(key.Range{})}}
	rows, off := 0, []float64{}
	for len(busy) > 0 {
		next := busy[min(workers, len(busy)):]
		var strands []*steal.Strand
		left := 0.0
		for _, w := range busy[:min(workers, len(busy))] {
			p := query(w.step)
			yield, more := model.Page(w.strand, p)
			rows += yield
			if !more {
				continue
			}
			w.step = w.step.Continue(*p.Next)
			next = append(next, w)
			strands = append(strands, w.strand)
		}
		for _, w := range next {
			believed, _ := model.Left(w.strand)
			left += believed
		}
		done := float64(rows)
		off = append(off, math.Abs(done/(done+left)-done/float64(len(keys))))
		for _, theft := range model.Steal(strands, workers-len(next)) {
			for _, s := range theft.Thieves {
				next = append(next, worker{s, scan.Step{Range: s.Range()}})
			}
		}
		busy = next
	}
	half := off[len(off)/2:]
	for _, x := range half {
		mean += x / float64(len(half))
		most = max(most, x)
	}
	return mean, most
}
