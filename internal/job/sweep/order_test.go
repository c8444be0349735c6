package sweep_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/job/sweep"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// slowdown is the divisor of the number of rows in tests.
var slowdown = testsize.Slow(10, 3, 1)

// TestOrderedSweepReadsAhead reads rows in order, 20 a partition. The mean of five runs must be at least five concurrent queries. A single run depends on
// the order in which queries end: 40 runs had 3.2 to 11.9 concurrent queries. Pages and their memory are a tenth of the default.
func TestOrderedSweepReadsAhead(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	const wait = 100 * time.Millisecond
	rows := someRows(1500/min(2, slowdown), 20)
	var queries, took float64
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			_, a := emulatortest.NewAccount(t, emulator.Options{Latency: wait})
			s := sweep.Spec{Source: emulatortest.Table(t, a, "table", rows), PageRows: 100, Steal: true}
			began, next := time.Now(), 0
			totals, err := sweep.Each(t.Context(), s, sweep.Options{Memory: memory.NewBudget(memory.Command / 10 / int64(min(2, slowdown)))}, func(page []storage.Row) error {
				for _, e := range page {
					if !storage.Equal(e.Entity(), rows[next]) {
						t.Fatalf("row %d is %v, want %v", next, e, rows[next])
					}
					next++
				}
				return nil
			})
			if err != nil || next != len(rows) {
				t.Fatalf("read %d rows of %d: %v", next, len(rows), err)
			}
			queries, took = queries+float64(totals.Queries), took+time.Since(began).Seconds()
		})
	}
	if mean := queries * wait.Seconds() / took; mean < 5 {
		t.Errorf("the mean is %.1f concurrent queries, want at least 5", mean)
	}
}

// TestOrderedSweepOfNumberedKeys reads partitions in order. The last key of their first page ends in a 9, so the page suggests that no keys follow.
func TestOrderedSweepOfNumberedKeys(t *testing.T) {
	t.Parallel()
	const wait = 100 * time.Millisecond
	var rows []storage.Entity
	for i := range 500 {
		for j := range 20 {
			rows = append(rows, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("dev-%05d", i), Row: fmt.Sprintf("%03d", j)}})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		_, a := emulatortest.NewAccount(t, emulator.Options{Latency: wait})
		s := sweep.Spec{Source: emulatortest.Table(t, a, "table", rows), PageRows: 200, Steal: true}
		began := time.Now()
		totals, err := sweep.Each(t.Context(), s, sweep.Options{}, func([]storage.Row) error { return nil })
		mean := float64(totals.Queries) * wait.Seconds() / time.Since(began).Seconds()
		t.Logf("the mean is %.1f concurrent queries; %d queries for %d pages", mean, totals.Queries, len(rows)/200)
		if err != nil || totals.Rows != int64(len(rows)) || mean < 8 {
			t.Errorf("got %d rows, error %v, a mean of %.1f concurrent queries; want %d rows and at least 8 queries", totals.Rows, err, mean, len(rows))
		}
	})
}
