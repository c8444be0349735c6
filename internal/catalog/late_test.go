package catalog_test

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/proof"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// minutes is the time for which a tombstone stays after it is no longer needed.
const minutes = 3 * time.Minute

// pass lets the duration d pass, and runs Maintain each minute.
func (w *world) pass(c *catalog.Catalog, d time.Duration) {
	w.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Minute)
		if err := c.Maintain(w.Context()); err != nil {
			w.Errorf("Maintain fails: %v", err)
		}
	}
}

// nextDay lets more than a day pass.
func (w *world) nextDay(c *catalog.Catalog) {
	w.Helper()
	time.Sleep(25 * time.Hour)
	w.maintain(c)
}

// countTombstones returns the number of tombstones.
func (w *world) countTombstones() (n int) {
	w.Helper()
	for _, row := range w.rows("People", "") {
		if row.Get("tsw_gone") != "" {
			n++
		}
	}
	return n
}

const latecomer = `{"eid":"1","lastname":"x","npi":"7"}`

// wantGone checks that no index key finds the record of these tests.
func (w *world) wantGone(c *catalog.Catalog) {
	w.Helper()
	w.wantFound(c, by("eid", "1"))
	w.wantFound(c, by("npi", "7"))
	w.check(c)
}

// TestSuspendedWriter suspends a writer. The writer stops for an hour after its commit, or before it writes an index row, for
// as long as the service accepts a signed request. Meanwhile, others complete the insertion or its entry stays in the log, the
// record is deleted, and Maintain runs.
func TestSuspendedWriter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		at            []string
		after, parked bool
		frozen        time.Duration
	}{
		{[]string{"/PeopleWAL HTTP", "e|"}, true, false, time.Hour},
		{[]string{"/People HTTP", "3_npi7"}, false, false, 12 * time.Minute},
		{[]string{"/People HTTP", "3_npi7"}, false, true, 12 * time.Minute},
	} {
		inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			hold, reached, release := holdOnce(tt.at...)
			writer := w.held(tt.after, hold)
			var waking sync.WaitGroup
			waking.Go(func() {
				_, _ = writer.Insert(t.Context(), rec(t, latecomer), "")
				writer.Close()
			})
			<-reached
			synctest.Wait() // the other row is written
			if tt.parked {
				row := w.rows("PeopleWAL", "e|")[0]
				w.write("PeopleWAL", storage.Op{Kind: storage.Merge, Row: storage.Entity{Key: row.Key, Properties: []storage.Property{storage.StringProperty("tsw_parked", "refused by the test")}}.Row()})
			} else {
				w.pass(c, time.Minute)
				w.wantFound(c, by("npi", "7"), rec(t, latecomer))
			}
			w.delete(c, by("eid", "1"), 1)
			c.Close()
			w.pass(c, tt.frozen)
			close(release)
			waking.Wait()
			w.wantFound(c, by("npi", "7"))
			w.wantFound(c, by("eid", "1"))
			if tt.parked {
				w.recover(c)
			}
			w.nextDay(c)
			w.wantGone(c)
			if n := w.countTombstones(); n > 0 {
				t.Errorf("%d rows remain", n)
			}
		})
	}
}

// TestLateRequest carries out requests long after their sender has repeated them because of a broken connection, and after the
// record was deleted.
func TestLateRequest(t *testing.T) {
	t.Parallel()
	for _, texts := range [][]string{{"/People HTTP", "3_npi7"}, {"/PeopleWAL HTTP", "e|"}} {
		inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			next := w.emulator.Transport()
			hold, _, _ := holdOnce(texts...)
			var mu sync.Mutex // guards hold
			var late *http.Request
			writer := w.via(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				if hold(describe(r)) == nil {
					return next.Do(r)
				}
				late = r.Clone(context.WithoutCancel(r.Context()))
				late.Body, _ = r.GetBody()
				return nil, errors.New("connection reset by peer")
			})
			w.wantOutcome(catalog.Created)(writer.Insert(t.Context(), rec(t, latecomer), ""))
			writer.Close()
			w.delete(c, by("npi", "7"), 1)
			c.Close()
			w.pass(c, 10*time.Minute)
			if resp, err := next.Do(late); err == nil {
				resp.Body.Close()
			}
			w.pass(c, 2*time.Minute)
			w.wantGone(c)
		})
	}
}

// TestSuspendedMaintain suspends Maintain before it deletes a tombstone. When Maintain continues, the row contains a new record
// with the same identity, or that record's tombstone.
func TestSuspendedMaintain(t *testing.T) {
	t.Parallel()
	for _, deleted := range []bool{false, true} {
		inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			r := rec(t, latecomer)
			life := func() {
				w.wantOutcome(catalog.Created)(c.Insert(t.Context(), r, ""))
				c.Close()
			}
			end := func() {
				w.delete(c, by("eid", "1"), 1)
				c.Close()
			}
			life()
			end()
			time.Sleep(2 * time.Minute)
			hold, reached, release := holdOnce("DELETE", "/People(", "3_npi7")
			frozen := w.gated(hold)
			var g sync.WaitGroup
			g.Go(func() { _ = frozen.Maintain(t.Context()) })
			<-reached
			life()
			want := []record.Record{r}
			if deleted {
				end()
				want = nil
			}
			before := w.countTombstones()
			close(release)
			g.Wait()
			w.wantFound(c, by("npi", "7"), want...)
			if n := w.countTombstones(); n != before {
				t.Errorf("there are %d tombstones after the late request, and %d before it", n, before)
			}
			w.pass(c, minutes)
			w.wantFound(c, by("npi", "7"), want...)
			w.check(c)
		})
	}
}

// TestHeadsOfOneMoment lets a selector read heads in two pages. After the first page was read, and before its answer is dated,
// a record moves from the first page to the second. The record must not count as two records.
func TestHeadsOfOneMoment(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		w.insertAll(c, map[string]any{"eid": "1", "lastname": "a"})
		move := func(c *catalog.Catalog, to string) {
			w.wantOutcome(catalog.Replaced)(c.Patch(t.Context(), []byte(`{"lastname":"`+to+`"}`), by("eid", "1"), always))
			c.Close()
		}
		move(c, "b")
		move(c, "c")
		var names []string // in the order of their heads
		for _, h := range w.rows("PeopleWAL", "h|") {
			names = append(names, regexp.MustCompile(`"row":"(.)`).FindStringSubmatch(h.Get("Write"))[1])
		}
		if names[0] != "c" {
			move(c, names[0])
		}
		time.Sleep(2 * time.Second)
		proof.Must(t, w.emulator.SetFaults("short-page p=1"))
		next, slow := w.emulator.Transport(), false
		writer := w.via(func(r *http.Request) (*http.Response, error) {
			first := !slow && strings.Contains(describe(r), "RowKey ge 'h|")
			resp, err := next.Do(r)
			if first && err == nil {
				slow = true
				move(c, names[2])
				time.Sleep(1500 * time.Millisecond)
				resp.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
			}
			return resp, err
		})
		w.wantOutcome(catalog.Replaced)(writer.Patch(t.Context(), []byte(`{"n":1}`), by("eid", "1"), always))
		if !slow {
			t.Error("no request was delayed")
		}
		writer.Close()
	})
}
