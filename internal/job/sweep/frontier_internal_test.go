package sweep

import (
	"fmt"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// TestSearchesSkipWaitingSteps does the rows of a frontier of many steps, such as --rows makes, and counts the steps that searches visit.
func TestSearchesSkipWaitingSteps(t *testing.T) {
	t.Parallel()
	const steps, workers = 20_000, 8
	f := &frontier{}
	for range steps {
		f.add(savedStep{Depth: 1})
	}
	allowed := func(string) bool { return true }
	done := 0
	for f.first() != nil {
		if s, _ := f.nextUnit(false, allowed); s != nil {
			t.Fatal("a unit was found before any row was read")
		}
		var under []*step
		for range workers {
			s, _ := f.nextRead(func(scan.Step) bool { return true })
			if s == nil {
				break
			}
			f.startRead(s)
			under = append(under, s)
		}
		for i, s := range under {
			unit := []storage.Row{{Key: key.Key{Partition: fmt.Sprint(i)}}}
			f.read(s, 1, [][]storage.Row{unit}, 1, nil)
		}
		for s, i := f.nextUnit(false, allowed); s != nil; s, i = f.nextUnit(false, allowed) {
			f.take(s, i)
			f.finish(s, 1)
			f.drop(s)
			done++
		}
	}
	if done != steps {
		t.Fatalf("%d of %d units were done", done, steps)
	}
	if limit := 2 * workers * steps; f.walked > limit {
		t.Errorf("the searches visited %d steps, want at most %d", f.walked, limit)
	}
}
