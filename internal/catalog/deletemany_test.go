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

// sharing returns n records with three index keys. All records have the same value in the field.
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

// insertMany inserts the records in one call.
func (w *world) insertMany(c *catalog.Catalog, all []record.Record) {
	w.Helper()
	for _, one := range c.InsertAll(w.Context(), record.Decoded(all), nil) {
		if one.Err != nil || one.Outcome != catalog.Created {
			w.Fatalf("inserted %+v", one)
		}
	}
}

// manyRequests is the maximum number of requests for each record if many records are deleted, by the key of the query. It does
// not include the requests for each page: the query, and the heads.
var manyRequests = map[string]float64{"eid": 5.1, "ssn": 6.4}

// TestDeletionOfManyIsFast inserts many records in one call, which must be at least 16 times as fast as single insertions. Then it deletes
// the records by the first index key, or by another key. A deletion must take at most twice the time and the requests of the insertion. A
// request takes 10 ms of virtual time.
func TestDeletionOfManyIsFast(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	n := testsize.Slow(100, 400, 1100)
	for field, most := range manyRequests {
		inBubble(t, "eid,npi,ssn", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			proof.Must(t, w.emulator.SetFaults("latency=10ms"))
			costs := func(do func()) (took time.Duration, requests float64) { // requests for each record
				w.emulator.ResetCounts()
				start := time.Now()
				do()
				took = time.Since(start)
				c.Close() // waits for the background work
				return took, float64(w.emulator.Counts().TableTransactions()) / float64(n)
			}
			single, _ := costs(func() { w.insertAll(c, map[string]any{"eid": "one", "npi": "one", "ssn": "1", "lastname": "x"}) })
			w.delete(c, by("eid", "one"), 1)
			inserting, inserts := costs(func() { w.insertMany(c, sharing(w, field, n)) })
			if inserting*16 > single*time.Duration(n) {
				t.Errorf("by %s: the insertion took %v, want at most a sixteenth of %d times %v", field, inserting, n, single)
			}
			deleting, deletes := costs(func() { w.delete(c, by(field, "7"), n) })
			w.wantFound(c, by(field, "7"))
			t.Logf("by %s: %.2f requests for each insertion and %.2f for each deletion, in %v and %v", field, inserts, deletes, inserting, deleting)
			pages := float64(2*(n/catalog.MaxTop+1)+1) / float64(n)
			if deletes > most+pages || deletes > 2*inserts {
				t.Errorf("by %s: %.2f requests for each deletion, want at most %.2f, and at most twice the %.2f of an insertion", field, deletes, most+pages, inserts)
			}
			if deleting > 2*inserting {
				t.Errorf("by %s: the deletion took %v, want at most twice the %v of the insertion", field, deleting, inserting)
			}
			_, later := costs(func() {
				time.Sleep(3 * time.Minute)
				w.maintain(c)
				time.Sleep(25 * time.Hour)
				w.maintain(c)
			})
			const idle = 2 * (3*shards + 1)
			if later -= idle / float64(n); later > 5 {
				t.Errorf("by %s: Maintain makes %.2f requests for each record later, want at most 5", field, later)
			}
			if left := append(w.rows("People", ""), w.rows("PeopleWAL", "h|")...); len(left) > 0 {
				t.Errorf("by %s: %d rows remain after the deletion", field, len(left))
			}
		})
	}
}

var summaryForm = regexp.MustCompile(`^of (\d+) records found, (\d+) were deleted(?:, the deletion of (\d+) is committed and will be completed)?(?:, the deletion of (\d+) may be committed)?(?:, the deletion of (\d+) was not started)?; repeat the call to continue$`)

// TestDeletionSummary lets a process die during a deletion of many records. The summary must contain the right numbers of
// deleted, committed, perhaps committed, and not started records. The same call then deletes the other records.
func TestDeletionSummary(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	const n = 150
	// The requests of the first 90 records: 2 before them, then 3 reads for each record, 12 commits, and 3 writes for each
	// record.
	for dies, sees := range map[int][]string{100: {"waiting"}, 450: {"deleted", "committed", "waiting"}, 600: {"deleted", "unknown", "waiting"}} {
		inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			w.insertMany(c, sharing(t, "npi", n))
			c.Close()
			proof.Must(t, w.emulator.SetFaults("latency=10ms")) // so that all records are in the same step
			victim, _ := w.mortal(dies, true, nil)
			noted := 0
			done, err := victim.Delete(t.Context(), by("npi", "7"), always, func(n int) { noted = n })
			victim.Close()
			if err == nil {
				t.Fatal("the process did not die")
			}
			parts := summaryForm.FindStringSubmatch(done.Summary())
			if parts == nil {
				t.Fatalf("the summary after the error %v has an unexpected form: %q", done.Summary(), err)
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
				t.Errorf("%d records are deleted, but the summary is: %s", gone, done.Summary())
			}
			for _, what := range sees {
				if counts[what] == 0 {
					t.Errorf("no record was %s: %s", what, done.Summary())
				}
			}
			w.delete(c, by("npi", "7"), n-gone)
			w.wantFound(c, by("npi", "7"))
			w.recover(c)
			w.check(c)
		})
	}
}

// TestDeletionFindsCommittedRecords deletes by the first index key. The deletion must also find a committed record without
// index rows, if the record is in the query's window.
func TestDeletionFindsCommittedRecords(t *testing.T) {
	t.Parallel()
	inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		w.orphan(faux)
		w.wantFound(c, by("eid", "F314"))
		outside := by("eid", "F314")
		outside.RowFrom = "g"
		w.delete(c, outside, 0)
		w.delete(c, by("eid", "F314"), 1)
		w.recover(c)
		w.wantFound(c, by("eid", "F314"))
		w.check(c)
	})
}
