package catalog_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
)

// sharing returns records with three index keys, of which the field has one value.
func sharing(t testing.TB, field string, n int) []record.Record {
	t.Helper()
	all := make([]record.Record, n)
	for i := range all {
		values := map[string]int{"eid": i, "npi": i, "ssn": i}
		values[field] = 7
		all[i] = rec(t, fmt.Sprintf(`{"eid":"%d","npi":"%d","ssn":"%d","lastname":"Faux"}`, values["eid"], values["npi"], values["ssn"]))
	}
	return all
}

// insertMany inserts the records, all at once.
func (w *world) insertMany(c *catalog.Catalog, all []record.Record) {
	w.Helper()
	for _, one := range c.InsertAll(w.Context(), record.Decoded(all), nil) {
		if one.Err != nil || one.Outcome != catalog.Created {
			w.Fatalf("inserted %+v", one)
		}
	}
}

// manyRequests are the most requests a record of a deletion of many, by the key that finds them: the query
// and the heads, by the page, come on top.
var manyRequests = map[string]float64{"eid": 5.1, "ssn": 6.4}

// TestDeletionOfManyIsFast inserts many records at least 16 times as fast as one after the other, and deletes them by the first index key,
// and by another one, in at most twice the time and the requests of their insertion, on storage that takes 10 ms a request. The time is
// virtual.
func TestDeletionOfManyIsFast(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	n := testsize.Slow(100, 400, 1100)
	for field, most := range manyRequests {
		inBubble(t, "eid,npi,ssn", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			proof.Must(t, w.emulator.SetFaults("latency=10ms"))
			costs := func(do func()) (took time.Duration, requests float64) { // requests a record
				w.emulator.ResetCounts()
				start := time.Now()
				do()
				took = time.Since(start)
				c.Close() // waits for what goes on behind the answers
				return took, float64(w.emulator.Counts().TableTransactions()) / float64(n)
			}
			single, _ := costs(func() { w.insertAll(c, map[string]any{"eid": "one", "npi": "one", "ssn": "1", "lastname": "x"}) })
			w.delete(c, by("eid", "one"), 1)
			inserting, inserts := costs(func() { w.insertMany(c, sharing(w, field, n)) })
			if inserting*16 > single*time.Duration(n) {
				t.Errorf("by %s: inserted in %v, want a sixteenth of %d times %v", field, inserting, n, single)
			}
			deleting, deletes := costs(func() { w.delete(c, by(field, "7"), n) })
			w.wantFound(c, by(field, "7"))
			t.Logf("by %s: %.2f requests an insertion, %.2f a deletion, in %v and %v", field, inserts, deletes, inserting, deleting)
			pages := float64(2*(n/catalog.MaxTop+1)+1) / float64(n)
			if deletes > most+pages || deletes > 2*inserts {
				t.Errorf("by %s: %.2f requests a deletion, want at most %.2f, and twice the %.2f of an insertion", field, deletes, most+pages, inserts)
			}
			if deleting > 2*inserting {
				t.Errorf("by %s: deleted in %v, want at most twice the %v of their insertion", field, deleting, inserting)
			}
			_, later := costs(func() {
				time.Sleep(3 * time.Minute)
				w.maintain(c)
				time.Sleep(25 * time.Hour)
				w.maintain(c)
			})
			const idle = 2 * (3*shards + 1)
			if later -= idle / float64(n); later > 5 {
				t.Errorf("by %s: %.2f requests a record later, want at most 5", field, later)
			}
			if left := append(w.rows("People", ""), w.rows("PeopleWAL", "h|")...); len(left) > 0 {
				t.Errorf("by %s: %d rows are left", field, len(left))
			}
		})
	}
}

var toldOfDeletion = regexp.MustCompile(`^of (\d+) records found, (\d+) were deleted(?:, the deletion of (\d+) is committed and will be completed)?(?:, the deletion of (\d+) may be committed)?(?:, the deletion of (\d+) was not started)?; repeat the call to continue$`)

// TestDeletionTellsWhatItDid lets a process die in the middle of a deletion of many records. Its error tells how many are
// deleted, committed, perhaps committed, and not started: that is so, and the same call deletes the others.
func TestDeletionTellsWhatItDid(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	const n = 150
	// Requests of the 90 records that are under way at first: 2 ahead of them, then 3 reads each, 12 commits, 3 writes each.
	for dies, sees := range map[int][]string{100: {"waiting"}, 450: {"deleted", "committed", "waiting"}, 600: {"deleted", "unknown", "waiting"}} {
		inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			w.insertMany(c, sharing(t, "npi", n))
			c.Close()
			proof.Must(t, w.emulator.SetFaults("latency=10ms")) // so that all come step by step
			victim, _ := w.mortal(dies, true, nil)
			noted := 0
			done, err := victim.Delete(t.Context(), by("npi", "7"), always, func(n int) { noted = n })
			victim.Close()
			if err == nil {
				t.Fatal("the process lives")
			}
			parts := toldOfDeletion.FindStringSubmatch(done.Summary())
			if parts == nil {
				t.Fatalf("the summary is %q, after %v", done.Summary(), err)
			}
			counts := map[string]int{}
			for i, what := range []string{"", "all", "deleted", "committed", "unknown", "waiting"} {
				counts[what], _ = strconv.Atoi(parts[i])
			}
			gone := 0
			for _, row := range w.rows("PeopleWAL", "h|") {
				if strings.Contains(row.Get("Write"), `"gone":true`) {
					gone++
				}
			}
			if counts["all"] != n || done.Records != counts["deleted"] || noted != done.Records || gone < counts["deleted"]+counts["committed"] || gone > n-counts["waiting"] {
				t.Errorf("%d are gone: %s", gone, done.Summary())
			}
			for _, what := range sees {
				if counts[what] == 0 {
					t.Errorf("nothing was %s: %s", what, done.Summary())
				}
			}
			w.delete(c, by("npi", "7"), n-gone)
			w.wantFound(c, by("npi", "7"))
			w.recover(c)
			w.check(c)
		})
	}
}

// TestDeletionSeesWhatIsCommitted deletes by the first index key a record that no index row has yet, if it is in the window.
func TestDeletionSeesWhatIsCommitted(t *testing.T) {
	t.Parallel()
	inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		w.orphan(faux)
		w.wantFound(c, by("eid", "F314"))
		beside := by("eid", "F314")
		beside.RowFrom = "g"
		w.delete(c, beside, 0)
		w.delete(c, by("eid", "F314"), 1)
		w.recover(c)
		w.wantFound(c, by("eid", "F314"))
		w.check(c)
	})
}
