package verify_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/place"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/record/rowmap"
	"tablesweep/internal/storage"
)

// rowsOf returns the rows of a table that [twin.fill] made.
func rowsOf(t *testing.T, table *storage.Table) map[key.Key]int {
	t.Helper()
	all := map[key.Key]int{}
	for _, e := range emulatortest.Rows(t, table) {
		all[e.Key] = int(e.Int("V"))
	}
	return all
}

// within returns the rows that the twin's scan finds.
func (w *twin) within(rows map[key.Key]int) map[key.Key]int {
	rows = maps.Clone(rows)
	maps.DeleteFunc(rows, func(k key.Key, v int) bool {
		return !w.scan.Bounds.Range().Contains(k) || w.scan.Filter != "" && v >= 2
	})
	return rows
}

// synced calculates in a simple way which rows a sync must copy to the twin's destination, and which rows of the destination are extra. A row whose
// key is in the source is not extra, even if the filter leaves out the source's row.
func (w *twin) synced() (source, extra map[key.Key]int) {
	source, extra = w.within(w.tables[0]), w.within(w.tables[1])
	maps.DeleteFunc(extra, func(k key.Key, _ int) bool { _, has := w.tables[0][k]; return has })
	return source, extra
}

// planOf returns the plan of a sync.
func planOf(ctx context.Context, t *testing.T, s sweep.Spec, to storage.Source, o verify.Options, deletes bool) (*verify.Plan, error) {
	f, err := verify.NewPlanFile()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	o.Depth, o.AllowExtra, o.Plan = verify.Exact, false, verify.NewPlan(f, deletes)
	_, err = verify.Compare(ctx, s, to, o)
	return o.Plan, err
}

// TestSyncAgainstTwin syncs random tables, with bounds, filters, limits and faults. The destination must get the rows that a comparison of two maps
// expects, and rows outside the bounds must not change.
func TestSyncAgainstTwin(t *testing.T) {
	t.Parallel()
	deletions, hidden, left := 0, 0, 0
	for seed := range uint64(1000 / slowdown) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 5))
			w := randomTwin(r)
			if r.IntN(2) == 0 { // makes some changed rows no longer match the filter
				w.tables[0], w.tables[1] = w.tables[1], w.tables[0]
			}
			if w.faults != "" {
				w.faults += "; timeout-after p=0.05 times=1; timeout-before p=0.05 times=1"
			}
			_, a := emulatortest.NewAccount(t, emulator.Options{Faults: w.faults})
			from, to := w.fill(t, a)
			w.scan.Source = from
			source, extra := w.synced()
			deletes := r.IntN(3) > 0
			plan, err := planOf(t.Context(), t, w.scan, to, w.options, deletes)
			if err != nil {
				t.Fatalf("seed %d: got error %v", seed, err)
			}

			w.options.AllowExtra, w.options.Depth = false, verify.Exact
			w.compare()
			unseen := int64(0) // the number of rows of the destination that the filter leaves out and a row of the source overwrites
			for k, v := range w.tables[1] {
				if _, has := source[k]; has && w.scan.Filter != "" && v >= 2 {
					unseen++
				}
			}
			counts := verify.PlanCounts{Copy: w.want.Missing - unseen, Change: w.want.Different + unseen, Leave: w.want.Extra}
			if deletes {
				counts.Delete = int64(len(extra))
				counts.Leave -= counts.Delete
				left += int(counts.Leave)
			}
			if got := plan.Counts(); got != counts {
				t.Errorf("planned %+v, want %+v", got, counts)
			}
			got, err := plan.Apply(t.Context(), w.scan, to, w.options.Options, false)
			if expected := (verify.Applied{Written: counts.Copy + counts.Change, Deleted: counts.Delete}); got != expected || err != nil {
				t.Errorf("got %+v, error %v, want %+v", got, err, expected)
			}
			hidden += int(unseen)
			deletions += int(got.Deleted)
			want := maps.Clone(w.tables[1])
			maps.Copy(want, source)
			maps.DeleteFunc(want, func(k key.Key, _ int) bool { _, is := extra[k]; return is && deletes })
			if diff := cmp.Diff(want, rowsOf(t, to)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(w.tables[0], rowsOf(t, from)); diff != "" {
				t.Errorf("the source has changed (-want +got)\n%s", diff)
			}
			if t.Failed() {
				t.Fatalf("seed %d failed with %+v", seed, w.scan)
			}
		})
	}
	if deletions == 0 || hidden == 0 || left == 0 {
		t.Errorf("%d rows were deleted, %d were hidden by the filter, and %d were left; want some of each kind", deletions, hidden, left)
	}
}

// put writes a row with a value.
func put(t *testing.T, to *storage.Table, k key.Key, v int64) {
	t.Helper()
	op := storage.Op{Kind: storage.Replace, Row: storage.Entity{Key: k, Properties: []storage.Property{storage.Int64Property("V", v)}}.Row()}
	if err := to.Write(t.Context(), op); err != nil {
		t.Error(err)
	}
}

// TestSyncKeepsConcurrentChanges checks a sync while other programs write. Rows that they write to the destination must stay, whatever the sync would do with
// these rows. Extra rows that they add to the source must stay in the destination.
func TestSyncKeepsConcurrentChanges(t *testing.T) {
	t.Parallel()
	t.Run("as they are", func(t *testing.T) { syncMeanwhile(t, func(s storage.Source) storage.Source { return s }) })
	t.Run("mapped", func(t *testing.T) {
		m, err := rowmap.New(rowmap.Options{Program: "select(.V > 0)"})
		if err != nil {
			t.Fatal(err)
		}
		syncMeanwhile(t, func(s storage.Source) storage.Source { return rowmap.Kept{Source: s, Map: m} })
	})
}

func syncMeanwhile(t *testing.T, mapped func(storage.Source) storage.Source) {
	row := func(i int) key.Key { return key.Key{Partition: "p", Row: fmt.Sprintf("r%04d", i)} }
	synctest.Test(t, func(t *testing.T) {
		var write atomic.Pointer[func()]
		em, a := emulatortest.NewAccount(t, emulator.Options{Latency: time.Millisecond, Faults: "short-page p=1 rows=7 table=source", OnRequest: func(e emulator.Event) {
			if f := write.Load(); f != nil && !e.Applied && (e.Kind == fault.Batch || e.Kind == fault.Delete) && write.CompareAndSwap(f, nil) {
				(*f)()
			}
		}})
		from, to := emulatortest.Table(t, a, "source", nil), emulatortest.Table(t, a, "dest", nil)
		for i := range 400 {
			if i%4 != 3 {
				put(t, from, row(i), 1)
			}
			if i != 0 {
				put(t, to, row(i), 1)
			}
		}
		put(t, to, row(1), 5) // a value that differs from that of the source
		time.Sleep(time.Second)
		others := emulatortest.Open(t, em, nil)
		spec := sweep.Spec{Source: mapped(from), Steal: true}
		plan, err := planOf(t.Context(), t, spec, to, verify.Options{}, true)
		if want := (verify.PlanCounts{Copy: 1, Change: 1, Delete: 100}); err != nil || plan.Counts() != want {
			t.Fatalf("got %+v, error %v, want %+v", plan.Counts(), err, want)
		}
		change := func() {
			put(t, others.Table("dest"), row(0), 2)   // a row that did not exist
			put(t, others.Table("dest"), row(1), 2)   // a different row, changed
			put(t, others.Table("dest"), row(3), 2)   // an extra row, changed
			put(t, others.Table("dest"), row(7), 1)   // a row that is written again with the same value
			put(t, others.Table("dest"), row(900), 1) // a new row
			for _, i := range []int{11, 203, 395} {
				put(t, others.Table("source"), row(i), 1) // the same value as in the destination
			}
		}
		write.Store(&change)
		r, err := plan.Apply(t.Context(), spec, to, sweep.Options{}, false)
		if want := (verify.Applied{Deleted: 95, Kept: 7}); err != nil || r != want {
			t.Errorf("got %+v, error %v, want %+v", r, err, want)
		}
		want := map[key.Key]int{row(3): 2, row(7): 1, row(11): 1, row(203): 1, row(395): 1, row(900): 1}
		for i := range 400 {
			if i%4 != 3 {
				want[row(i)] = 1
			}
		}
		want[row(0)], want[row(1)] = 2, 2
		if diff := cmp.Diff(want, rowsOf(t, to)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestSyncKeepsChangesSinceThePlan checks that changes of the destination between the plan and the sync stay, whatever the plan would do with these rows. The sync
// must copy the source's rows as they are at the time of the sync.
func TestSyncKeepsChangesSinceThePlan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, a := emulatortest.NewAccount(t, emulator.Options{})
		from, to := emulatortest.Table(t, a, "source", nil), emulatortest.Table(t, a, "dest", nil)
		row := func(r string) key.Key { return key.Key{Partition: "p", Row: r} }
		for _, r := range []string{"both", "edited", "equal, then edited", "equal, then removed", "missing", "missing, then there", "removed", "removed there", "updated"} {
			put(t, from, row(r), 1)
		}
		for _, r := range []string{"both", "equal, then edited", "equal, then removed"} {
			put(t, to, row(r), 1)
		}
		for _, r := range []string{"edited", "extra", "extra, then edited", "removed", "removed there", "updated"} {
			put(t, to, row(r), 2)
		}
		spec := sweep.Spec{Source: from}
		plan, err := planOf(t.Context(), t, spec, to, verify.Options{}, true)
		if want := (verify.PlanCounts{Copy: 2, Change: 4, Delete: 2}); err != nil || plan.Counts() != want {
			t.Fatalf("got %+v, error %v, want %+v", plan.Counts(), err, want)
		}
		time.Sleep(time.Second)
		for _, r := range []string{"a new one", "edited", "equal, then edited", "extra, then edited", "missing, then there"} {
			put(t, to, row(r), 3)
		}
		put(t, from, row("updated"), 4)
		for _, k := range []string{"equal, then removed", "removed there"} {
			if err := to.Write(t.Context(), storage.Op{Kind: storage.Delete, Row: storage.Row{Key: row(k)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := from.Write(t.Context(), storage.Op{Kind: storage.Delete, Row: storage.Row{Key: row("removed")}}); err != nil {
			t.Fatal(err)
		}
		r, err := plan.Apply(t.Context(), spec, to, sweep.Options{}, false)
		if want := (verify.Applied{Written: 2, Deleted: 1, Kept: 5}); err != nil || r != want {
			t.Errorf("got %+v, error %v, want %+v", r, err, want)
		}
		want := map[key.Key]int{
			row("both"): 1, row("a new one"): 3, row("edited"): 3, row("equal, then edited"): 3, row("extra, then edited"): 3, row("missing"): 1,
			row("missing, then there"): 3, row("removed"): 2, row("updated"): 4,
		}
		if diff := cmp.Diff(want, rowsOf(t, to)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestRefusedRowPreventsDeletions checks that a sync deletes no rows if the destination refuses a row.
func TestRefusedRowPreventsDeletions(t *testing.T) {
	t.Parallel()
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	good := storage.Entity{Key: key.Key{Partition: "a", Row: "1"}, Properties: []storage.Property{storage.Int64Property("V", 1)}}
	bad := storage.Entity{Key: key.Key{Partition: "b", Row: "1"}, Properties: []storage.Property{storage.Int64Property(strings.Repeat("V", 300), 1)}}
	extra := storage.Entity{Key: key.Key{Partition: "c", Row: "1"}}
	for _, tt := range []struct {
		name string
		rows place.Rows
		want string // the expected result
		has  int    // the expected number of rows in the destination
	}{
		{"refused", place.Rows{good.Row(), bad.Row()}, "1 1 0", 2},
		{"fine", place.Rows{good.Row()}, "1 0 1", 1},
	} {
		to := emulatortest.Table(t, a, tt.name, []storage.Entity{extra})
		spec := sweep.Spec{Source: tt.rows}
		plan, err := planOf(t.Context(), t, spec, to, verify.Options{}, true)
		if err != nil {
			t.Fatal(err)
		}
		r, err := plan.Apply(t.Context(), spec, to, sweep.Options{}, false)
		if got := fmt.Sprint(r.Written, r.Failed, r.Deleted); got != tt.want || err != nil {
			t.Errorf("%s: %s, %v, want %s", tt.name, got, err, tt.want)
		}
		if n := len(rowsOf(t, to)); n != tt.has {
			t.Errorf("%s: the destination has %d rows, want %d", tt.name, n, tt.has)
		}
	}
}
