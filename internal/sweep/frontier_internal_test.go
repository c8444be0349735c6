package sweep

import (
	"fmt"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/storage"
)

// TestLooksDoNotWalkWhatWaits does the rows of a frontier of many steps, as --rows
// makes it, and counts the nodes that its looks pass.
func TestLooksDoNotWalkWhatWaits(t *testing.T) {
	t.Parallel()
	const steps, workers = 20_000, 8
	f := &frontier{}
	for range steps {
		f.add(scan.Step{}, 1)
	}
	allowed := func(string) bool { return true }
	done := 0
	for f.first() != nil {
		if n, _ := f.unit(false, allowed); n != nil {
			t.Fatal("a unit was found before any row was read")
		}
		var under []*node
		for range workers {
			n, _ := f.waits(func(scan.Step) bool { return true })
			if n == nil {
				break
			}
			f.startRead(n)
			under = append(under, n)
		}
		for i, n := range under {
			unit := []storage.Entity{{Key: key.Key{Partition: fmt.Sprint(i)}}}
			f.read(n, 1, [][]storage.Entity{unit}, 1, nil)
		}
		for n, i := f.unit(false, allowed); n != nil; n, i = f.unit(false, allowed) {
			f.take(n, i)
			f.finish(n, 1)
			f.drop(n)
			done++
		}
	}
	if done != steps {
		t.Fatalf("%d of %d units were done", done, steps)
	}
	if limit := 2 * workers * steps; f.walked > limit {
		t.Errorf("the looks passed %d nodes, want at most %d", f.walked, limit)
	}
}
