package catalog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
)

// TestChangesAreFollowed: four processes write with clocks that are 30 s apart, or minutes; one of them dies with entries that others complete minutes
// later, and followers keep nothing but their position. Each gets every change once.
func TestChangesAreFollowed(t *testing.T) {
	t.Parallel()
	all := []string{"latency=1ms..2s; busy p=0.05; timeout-after p=0.02 on=batch,insert times=1", "latency=1ms..40ms"}
	for _, faults := range all[:testsize.Of(1, len(all))] {
		synctest.Test(t, func(t *testing.T) { followChanges(t, faults) })
	}
}

// listed returns the IDs of all changes, as the list has them.
func (w *world) listed(c *catalog.Catalog) map[string]bool {
	w.Helper()
	want := map[string]bool{}
	for cursor, first := "", true; first || cursor != ""; first = false {
		all, next, err := c.Changes(w.Context(), catalog.MaxTop, cursor, time.Time{})
		proof.Must(w, err)
		for _, ch := range all {
			want[ch.ID] = true
		}
		cursor = next
	}
	return want
}

// changesFollower keeps nothing but the position; got is for the test.
type changesFollower struct {
	testing.TB
	next  string
	got   map[string]int // how often, by the change's ID
	calls int
}

// read reads on until there is no more, or storage fails.
func (f *changesFollower) read(c *catalog.Catalog) {
	for more := true; more; {
		all, next, again, err := c.ChangesAfter(f.Context(), f.next, 20)
		if err != nil {
			if problem.Of(err).Kind == problem.Invalid {
				f.Error(err)
			}
			return
		}
		f.calls++
		f.next, more = next, again
		if !slices.IsSortedFunc(all, func(a, b catalog.Change) int { return strings.Compare(b.ID, a.ID) }) {
			f.Error("an answer is not sorted by ids")
		}
		for _, ch := range all {
			f.got[ch.ID]++
		}
	}
}

// compare counts the changes that the follower has missed, and those that it got twice.
func (f *changesFollower) compare(want map[string]bool) (missed, twice int) {
	for id := range want {
		if f.got[id] == 0 {
			missed++
		}
		if f.got[id] > 1 {
			twice++
		}
	}
	return missed, twice
}

func followChanges(t *testing.T, faults string) {
	w, c := newCatalog(t, people, "lastname")
	w.did(catalog.Created)(c.Insert(t.Context(), rec(t, faux), ""))
	c.Close()
	if err := w.emulator.SetFaults("seed=7; " + faults); err != nil {
		t.Fatal(err)
	}
	_, now, _, err := c.ChangesAfter(t.Context(), "now", 50)
	proof.Must(t, err)
	var followers []*changesFollower
	for _, after := range []string{now, "1h", time.Now().Add(-time.Minute).Format(time.RFC3339)} {
		followers = append(followers, &changesFollower{TB: t, next: after, got: map[string]int{}})
	}
	writes := testsize.Slow(120, 600, 2000) / 4
	var writing, following sync.WaitGroup
	for n := range 4 {
		off := []time.Duration{0, -30 * time.Second, -5 * time.Minute, 30 * time.Second}[n]
		a := emulatortest.Open(w, w.emulator, nil)
		process := &emulatortest.Process{Next: w.emulator.Transport()}
		if n == 3 {
			process.DieWith(writes*4, true)
			a = emulatortest.Open(w, w.emulator, process)
		}
		own := w.on(a, func() time.Time { return time.Now().Add(off) })
		t.Cleanup(own.Close)
		writing.Go(func() {
			rnd := rand.New(rand.NewPCG(7, uint64(n)))
			for i := 0; i < writes && !process.Dead(); i++ {
				eid := rnd.IntN(40)
				var err error
				switch rnd.IntN(4) {
				case 0:
					_, err = own.Delete(t.Context(), by("eid", fmt.Sprint(eid)), always, nil)
				case 1:
					_, err = own.Patch(t.Context(), fmt.Appendf(nil, `{"npi":%d}`, i), by("eid", fmt.Sprint(eid)), always)
				default:
					_, err = own.Put(t.Context(), rec(t, fmt.Sprintf(`{"eid":"%d","npi":"%d","lastname":"Faux","n":%d}`, eid, eid, i)), always)
				}
				if err != nil && problem.Of(err).Kind == problem.Failed && !process.Dead() && !errors.Is(err, t.Context().Err()) {
					t.Errorf("writer %d: %v", n, err)
				}
				time.Sleep(time.Duration(rnd.Int64N(int64(400 * time.Millisecond))))
			}
		})
	}
	done := make(chan struct{})
	var calm atomic.Bool // nobody writes any more
	for i, f := range followers {
		following.Go(func() {
			for over := false; !over; {
				pause := time.Duration(i+1) * 700 * time.Millisecond
				if calm.Load() {
					pause *= testsize.Of[time.Duration](10, 1)
				}
				select {
				case <-done:
					over = true
				case <-time.After(pause):
				}
				f.read(c)
			}
		})
	}
	writing.Wait()
	calm.Store(true)
	proof.Must(t, w.emulator.SetFaults("latency=1ms..40ms"))
	for range 5 { // others complete what is left
		time.Sleep(time.Minute)
		w.maintain(c)
	}
	close(done)
	following.Wait()
	want := w.listed(c)
	for i, f := range followers {
		missed, twice := f.compare(want)
		if i == 0 {
			missed-- // what was there before
		}
		if missed != 0 || twice != 0 || len(f.got) > len(want) {
			t.Errorf("%s: follower %d, %d calls: of %d changes %d missed, %d twice", faults, i, f.calls, len(want), missed, twice)
		}
	}
	t.Logf("%d changes", len(want))
}

// TestChangesTellTheRecord: each change has the record's ID and ETag, and the old ID after a move.
func TestChangesTellTheRecord(t *testing.T) {
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
		all, next, more, err := c.ChangesAfter(t.Context(), "1h", 10)
		if err != nil || more || len(all) != 4 {
			t.Fatal(all, more, err)
		}
		for i, ch := range want {
			if got := all[i]; got.RecordID != ch.RecordID || got.ETag != ch.ETag || got.OldID != ch.OldID {
				t.Errorf("change %d: %+v, want %+v", i, all[i], ch)
			}
		}
		if gone := all[3]; gone.RecordID != same.ID || gone.ETag <= same.ETag || gone.OldID != "" {
			t.Errorf("the deletion: %+v", gone)
		}
		w.emulator.ResetCounts()
		for range 60 { // a minute of calls
			time.Sleep(time.Second)
			if all, next, _, err = c.ChangesAfter(t.Context(), next, 10); err != nil || len(all) > 0 {
				t.Fatal(all, err)
			}
		}
		if n := w.emulator.Counts().TableTransactions(); n > 61*shards {
			t.Errorf("%d requests in a minute", n)
		}
		for _, after := range []string{"", "yesterday", "f1.x"} {
			_, _, _, err := c.ChangesAfter(t.Context(), after, 10)
			wantKind(t, err, problem.Invalid)
		}
	})
}

// TestSinceIsTheServicesTime: how long ago is by the service's clock, whatever the process's is.
func TestSinceIsTheServicesTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{}, people, "lastname")
		w.prepare(w.catalog())
		for _, off := range []time.Duration{-time.Hour, time.Hour} {
			c := w.on(emulatortest.Open(w, w.emulator, nil), func() time.Time { return time.Now().Add(off) })
			if now, err := c.Now(t.Context()); err != nil || time.Until(now).Abs() > time.Second {
				t.Errorf("a clock that is off by %v: %v, %v", off, now, err)
			}
		}
	})
}
