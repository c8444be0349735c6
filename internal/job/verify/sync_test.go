package verify_test

import (
	"errors"
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

// values returns the rows of a table that [twin.fill] made.
func values(t *testing.T, table *storage.Table) map[key.Key]int {
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

// synced is what is to come of the twin's destination, by the shortest way: which rows it gets, and which of its
// own are extra.
func (w *twin) synced() (source, extra map[key.Key]int) {
	source, extra = w.within(w.tables[0]), w.within(w.tables[1])
	maps.DeleteFunc(extra, func(k key.Key, _ int) bool { _, has := source[k]; return has })
	return source, extra
}

// TestSyncAgainstTwin syncs random tables, with bounds, filters, limits and faults. The destination must have what two
// maps say, and all that lies outside must be what it was.
func TestSyncAgainstTwin(t *testing.T) {
	t.Parallel()
	deletions, limits, empties := 0, 0, 0
	for seed := range uint64(1000 / slowdown) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 5))
			w := randomTwin(r)
			if r.IntN(2) == 0 { // so that a row may leave the filter, too
				w.tables[0], w.tables[1] = w.tables[1], w.tables[0]
			}
			if w.faults != "" {
				w.faults += "; timeout-after p=0.05 times=1; timeout-before p=0.05 times=1"
			}
			_, a := emulatortest.NewAccount(t, emulator.Options{Faults: w.faults})
			from, to := w.fill(t, a)
			w.scan.Source = from
			source, extra := w.synced()
			o := verify.SyncOptions{Options: w.options, Deletes: int64(len(extra))}
			if r.IntN(3) == 0 {
				o.Deletes = int64(r.IntN(1 + len(extra)))
			}
			got, err := verify.Sync(t.Context(), w.scan, to, o)

			w.options.AllowExtra, w.options.Depth = false, verify.Exact
			w.compare()
			want := maps.Clone(w.tables[1])
			empty := len(source) == 0 && o.Deletes > 0
			if empty != errors.Is(err, verify.ErrEmptySource) || err != nil && !empty {
				t.Fatalf("seed %d: %v", seed, err)
			}
			left := int64(len(extra)) - o.Deletes
			if empty {
				empties++
			} else {
				maps.Copy(want, source)
				for k := range extra {
					if left == 0 {
						delete(want, k)
					}
				}
				if got.Deleted != o.Deletes || got.Kept != 0 || got.Repaired != w.want.Missing+w.want.Different {
					got.List = nil
					t.Errorf("%+v, want %d deleted", got, o.Deletes)
				}
				deletions += int(got.Deleted)
			}
			there := values(t, to)
			if left > 0 && !empty {
				limits++
				gone := 0
				for k := range extra {
					if _, has := there[k]; !has {
						gone++
						delete(want, k)
					}
				}
				if gone != int(got.Deleted) {
					t.Errorf("%d rows are gone, %d were counted", gone, got.Deleted)
				}
			}
			if diff := cmp.Diff(want, there); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(w.tables[0], values(t, from)); diff != "" {
				t.Errorf("the source has changed (-want +got)\n%s", diff)
			}
			if t.Failed() {
				t.Fatalf("seed %d: %+v, %+v", seed, w.scan, o)
			}
		})
	}
	if deletions == 0 || limits == 0 || empties == 0 {
		t.Errorf("%d rows deleted, %d limits, %d empty sources: a kind never came", deletions, limits, empties)
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

// TestSyncMeanwhile: while a sync runs, others write. What they write to the destination stays, whatever the sync would do with the row, and so do
// extra rows that the source has by then.
func TestSyncMeanwhile(t *testing.T) {
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
		put(t, to, row(1), 5) // which is another than the source's
		time.Sleep(time.Second)
		others := emulatortest.Open(t, em, nil)
		change := func() {
			put(t, others.Table("dest"), row(0), 2)   // written, where nothing was
			put(t, others.Table("dest"), row(1), 2)   // changed
			put(t, others.Table("dest"), row(3), 2)   // changed
			put(t, others.Table("dest"), row(7), 1)   // written again
			put(t, others.Table("dest"), row(900), 1) // new
			for _, i := range []int{11, 203, 395} {
				put(t, others.Table("source"), row(i), 1) // as the destination has it
			}
		}
		write.Store(&change)
		r, err := verify.Sync(t.Context(), sweep.Spec{Source: mapped(from), Steal: true}, to, verify.SyncOptions{Deletes: 100})
		if err != nil || r.Missing+r.Different != 2 || r.Repaired != 0 || r.Deleted != 95 || r.Kept != 7 || r.Failed != 0 {
			r.List = nil
			t.Errorf("%+v, %v", r, err)
		}
		want := map[key.Key]int{row(3): 2, row(7): 1, row(11): 1, row(203): 1, row(395): 1, row(900): 1}
		for i := range 400 {
			if i%4 != 3 {
				want[row(i)] = 1
			}
		}
		want[row(0)], want[row(1)] = 2, 2
		if diff := cmp.Diff(want, values(t, to)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestSyncDeletesThePlan: rows that come to the destination between the plan and the sync stay, and so does a planned one that has changed.
func TestSyncDeletesThePlan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, a := emulatortest.NewAccount(t, emulator.Options{})
		from, to := emulatortest.Table(t, a, "source", nil), emulatortest.Table(t, a, "dest", nil)
		row := func(r string) key.Key { return key.Key{Partition: "p", Row: r} }
		put(t, from, row("both"), 1)
		for _, r := range []string{"both", "extra", "edited"} {
			put(t, to, row(r), 1)
		}
		var planned verify.Planned
		spec := sweep.Spec{Source: from}
		if _, err := verify.Compare(t.Context(), spec, to, verify.Options{Depth: verify.Exact, Extra: planned.Add}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		put(t, to, row("a new one"), 2)
		put(t, to, row("edited"), 2)
		r, err := verify.Sync(t.Context(), spec, to, verify.SyncOptions{Deletes: 2, Planned: &planned})
		if err != nil || r.Deleted != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		if diff := cmp.Diff(map[key.Key]int{row("both"): 1, row("a new one"): 2, row("edited"): 2}, values(t, to)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestSyncRefused: if the destination refuses a row, nothing is deleted.
func TestSyncRefused(t *testing.T) {
	t.Parallel()
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	good := storage.Entity{Key: key.Key{Partition: "a", Row: "1"}, Properties: []storage.Property{storage.Int64Property("V", 1)}}
	bad := storage.Entity{Key: key.Key{Partition: "b", Row: "1"}, Properties: []storage.Property{storage.Int64Property(strings.Repeat("V", 300), 1)}}
	extra := storage.Entity{Key: key.Key{Partition: "c", Row: "1"}}
	for _, tt := range []struct {
		name string
		rows place.Rows
		want string // the result
		has  int    // rows of the destination
	}{
		{"refused", place.Rows{good.Row(), bad.Row()}, "1 1 0", 2},
		{"fine", place.Rows{good.Row()}, "1 0 1", 1},
	} {
		to := emulatortest.Table(t, a, tt.name, []storage.Entity{extra})
		r, err := verify.Sync(t.Context(), sweep.Spec{Source: tt.rows}, to, verify.SyncOptions{Deletes: 1})
		if got := fmt.Sprint(r.Repaired, r.Failed, r.Deleted); got != tt.want || err != nil {
			t.Errorf("%s: %s, %v, want %s", tt.name, got, err, tt.want)
		}
		if n := len(values(t, to)); n != tt.has {
			t.Errorf("%s: the destination has %d rows, want %d", tt.name, n, tt.has)
		}
	}
}
