package catalog_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
)

// TestChangesAreFollowed runs writers whose clocks are wrong by minutes. One writer dies, and others complete its entry minutes later.
// Followers store only their position. Each follower must get every change once.
func TestChangesAreFollowed(t *testing.T) {
	t.Parallel()
	inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		w.wantOutcome(catalog.Created)(c.Insert(t.Context(), rec(t, `{"eid":"before","lastname":"Faux"}`), ""))
		c.Close()
		_, now, _, err := changesAfter(t, c, "now", 50)
		proof.Must(t, err)
		type follower struct {
			next   string
			got    []string
			missed int // number of changes before the follower started
		}
		followers := []*follower{{next: now, missed: 1}, {next: "1h"}, {next: time.Now().Add(-time.Minute).Format(time.RFC3339)}}
		w.orphan(faux)
		for i := range 60 {
			writer := w.openOn(w.account, func() time.Time { return time.Now().Add(time.Duration(i%4-2) * 3 * time.Minute) })
			w.wantOutcome(catalog.Created)(writer.Insert(t.Context(), rec(t, fmt.Sprintf(`{"eid":"%d","lastname":"Faux"}`, i)), ""))
			writer.Close()
			if i == 50 {
				w.maintain(c)
			}
			time.Sleep(7 * time.Second)
			for n, f := range followers {
				for more := i%(n+1) == 0 || i > 55; more; {
					var some []catalog.Change
					some, f.next, more, err = changesAfter(t, c, f.next, 1+n)
					proof.Must(t, err)
					for _, ch := range some {
						f.got = append(f.got, ch.ID)
					}
				}
			}
		}
		all, _, err := changes(t, c, "")
		if err != nil || len(all) != 62 {
			t.Fatalf("there are %d changes, error %v; want 62", len(all), err)
		}
		for n, f := range followers {
			slices.Sort(f.got)
			if got := slices.Compact(slices.Clone(f.got)); len(got) != len(f.got) || len(got) != len(all)-f.missed {
				t.Errorf("follower %d got %d of %d changes, %d of them twice", n, len(got), len(all), len(f.got)-len(got))
			}
		}
	})
}

// TestChangesNameTheirRecord checks that each change has the record's ID and ETag, and after a move the old ID.
func TestChangesNameTheirRecord(t *testing.T) {
	t.Parallel()
	inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		var want []catalog.Change
		first, err := c.Insert(t.Context(), rec(t, faux), "")
		proof.Must(t, err)
		want = append(want, catalog.Change{RecordID: first.ID, ETag: first.ETag})
		moved, err := c.Patch(t.Context(), []byte(`{"lastname":"Smith"}`), catalog.Lookup{ID: first.ID}, always)
		if err != nil || moved.ID == first.ID {
			t.Fatal(moved, err)
		}
		want = append(want, catalog.Change{RecordID: moved.ID, ETag: moved.ETag, OldID: first.ID})
		same, err := c.Patch(t.Context(), []byte(`{"n":1}`), catalog.Lookup{ID: moved.ID}, always)
		if err != nil || same.ID != moved.ID {
			t.Fatal(same, err)
		}
		want = append(want, catalog.Change{RecordID: same.ID, ETag: same.ETag})
		w.delete(c, catalog.Lookup{ID: same.ID}, 1)
		c.Close()
		all, next, more, err := changesAfter(t, c, "1h", 10)
		if err != nil || more || len(all) != 4 {
			t.Fatal(all, more, err)
		}
		for i, ch := range want {
			if got := all[i]; got.RecordID != ch.RecordID || got.ETag != ch.ETag || got.OldID != ch.OldID {
				t.Errorf("change %d is %+v, want %+v", i, all[i], ch)
			}
		}
		if gone := all[3]; gone.RecordID != same.ID || gone.ETag <= same.ETag || gone.OldID != "" {
			t.Errorf("the change of the deletion is %+v", gone)
		}
		w.emulator.ResetCounts()
		for range 60 { // a minute of calls
			time.Sleep(time.Second)
			if all, next, _, err = changesAfter(t, c, next, 10); err != nil || len(all) > 0 {
				t.Fatal(all, err)
			}
		}
		if n := w.emulator.Counts().TableTransactions(); n > 61*shards {
			t.Errorf("a follower makes %d requests in a minute", n)
		}
		for _, after := range []string{"", "yesterday", "f1.x"} {
			_, _, _, err := changesAfter(t, c, after, 10)
			wantKind(t, err, problem.Invalid)
		}
	})
}

// TestNowIsTheServicesTime checks that Now returns the service's time, even if the process's clock is wrong.
func TestNowIsTheServicesTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{}, people, "lastname")
		w.prepare(w.catalog())
		for _, off := range []time.Duration{-time.Hour, time.Hour} {
			c := w.openOn(emulatortest.Open(w, w.emulator, nil), func() time.Time { return time.Now().Add(off) })
			if now, err := c.Now(t.Context()); err != nil || time.Until(now).Abs() > time.Second {
				t.Errorf("with a clock that is wrong by %v, Now returns %v, %v", off, now, err)
			}
		}
	})
}
