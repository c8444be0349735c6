package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/migrate"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// TestRemainingEntries migrates a published log with entries that cannot be carried out. Each run must report these entries
// until they are carried out, settled by a later deletion, or deleted.
func TestRemainingEntries(t *testing.T) {
	t.Parallel()
	w, c := newCatalog(t, "eid,npi", "lastname")
	w.insertAll(c, map[string]any{"eid": "A", "npi": "1", "lastname": "Ash", "v": "a"})
	twin, gone := rec(t, `{"eid":"A","npi":"1","lastname":"ASH","v":"twin"}`), rec(t, `{"eid":"A","npi":"1","lastname":"aSH","v":"gone"}`)
	w.publishedEntry("1", "insert", twin)
	w.publishedEntry("2", "rename", twin)
	w.publishedEntry("3", "insert", gone)
	w.publishedEntry("4", "delete", gone)
	w.publishedEntry("5", "insert", rec(t, `{"eid":"B","npi":"1","lastname":"Bly"}`))
	w.publishedEntry("6", "insert", rec(t, `{"npi":"1","lastname":"nobody"}`))
	run := func(dry bool, entries int, want ...string) {
		t.Helper()
		var left []string
		sum, err := migrate.Run(t.Context(), c, dry, func(f catalog.Finding) { left = append(left, f.Row) })
		c.Close()
		if err != nil || !slices.Equal(left, want) || sum.Left != len(left) || sum.Entries != entries {
			t.Errorf("the migration returns %+v, leaves %q, error %v; want %q", sum, left, err, want)
		}
	}
	run(true, 1, "1", "2", "3", "6") // a later entry settles the third
	run(false, 1, "1", "2", "3", "6")
	run(false, 0, "1", "2", "6")
	_, err := c.Patch(t.Context(), []byte(`{"lastname":"Ashe"}`), by("eid", "A"), always)
	proof.Must(t, err)
	w.write("PeopleWAL", storage.Op{Kind: storage.Delete, Row: storage.Row{Key: key.Key{Partition: "wal", Row: "2"}}})
	run(true, 1, "6")
	run(false, 1, "6")
	run(false, 0, "6")
	w.wantFound(c, by("eid", "A"), twin, rec(t, `{"eid":"A","npi":"1","lastname":"Ashe","v":"a"}`))
	w.publishedEntry("7", "insert", rec(t, `{"eid":"A","npi":"1","lastname":"ASHE","v":"late"}`))
	run(false, 0, "6", "7")
	w.check(c)
}

// TestTakeOverWithAConcurrentWriter takes over tables while the published program inserts and deletes records. The program
// makes one request before each request of the migration, and dies at any of its requests. In the end, the index must contain
// the records that the program's log inserts, and not those that it deletes.
func TestTakeOverWithAConcurrentWriter(t *testing.T) {
	t.Parallel()
	deaths(t, 1, testsize.Slow(29, 9, 3), func(t *testing.T, n int) bool {
		w := newWorld(t, emulator.Options{}, "eid,npi", "lastname")
		x := newTakeOver(w)
		e, f := rec(t, `{"eid":"E","npi":"1","lastname":"Elm","v":"e"}`), rec(t, `{"eid":"F","npi":"1","lastname":"Fir","v":"f"}`)
		ops := slices.Concat(w.publishedWrites("2026-01-03_x", "insert", x.records["b"])[1:], w.publishedWrites("2026-01-04_x", "insert", x.records["c"])[1:],
			w.publishedWrites("2026-01-05_x", "delete", x.records["d"])[1:], w.publishedWrites("2026-01-07_x", "insert", f), w.publishedWrites("2026-01-08_x", "insert", e),
			w.publishedWrites("2026-01-09_x", "delete", f), w.publishedWrites("2026-01-10_x", "delete", x.records["a"]))
		x.records["f"], x.records["e"], x.places["a"] = f, e, nil
		x.places["e"] = []key.Key{{Partition: "3_eide", Row: rowOf(t, w.schema, e)}, {Partition: "3_npi1", Row: rowOf(t, w.schema, e)}}
		dies := len(ops) - n%4 // the log always contains the last deletion
		requests, done := 0, 0
		victim := w.gated(func(string) chan struct{} {
			if requests++; requests >= n && done < dies {
				ops[done]()
				done++
			}
			return nil
		})
		if _, err := migrate.Run(t.Context(), victim, false, func(catalog.Finding) {}); err != nil {
			t.Fatal(err)
		}
		victim.Close()
		for ; done < dies; done++ {
			ops[done]()
		}
		c := w.openOn(w.account, nil)
		for range 2 { // restores our rows that the program has replaced
			if _, err := migrate.Run(t.Context(), c, false, func(catalog.Finding) {}); err != nil {
				t.Fatal(err)
			}
			w.findings(c, true)
		}
		sum, err := migrate.Run(t.Context(), c, false, func(catalog.Finding) {})
		if err != nil || sum.Left != 4 && sum.Left != 5 || sum.Taken+sum.Removed+sum.Entries > 0 { // the program may have moved its checkpoint behind the invalid entry
			t.Errorf("the last migration returns %+v, error %v", sum, err)
		}
		c.Close()
		w.nextDay(c)
		x.wantRight(w)
		return requests >= n
	})
}

// publishedWrites returns the requests of an insertion or deletion by the published program.
func (w *world) publishedWrites(entry, operation string, r record.Record) []func() {
	eid, _ := r.Get("eid")
	npi, _ := r.Get("npi")
	row := func(partition string) func() {
		return func() {
			if operation == "insert" {
				w.publishedAs(r, partition)
				return
			}
			err := w.account.Table("People"+w.suffix).Write(w.Context(), storage.Op{Kind: storage.Delete, IfMatch: "*", Row: storage.Row{Key: key.Key{Partition: partition, Row: publishedRow(w.TB, w.schema, r)}}})
			if err != nil && !storage.NotFound(err) {
				w.Error(err)
			}
		}
	}
	return []func(){
		func() { w.publishedEntry(entry, operation, r) }, row("3_eid" + strings.ToLower(eid)), row("3_npi" + npi),
		func() {
			w.write("PeopleWAL", storage.Op{Kind: storage.Replace, Row: storage.Entity{
				Key: key.Key{Partition: "metadata", Row: "checkpoint"}, Properties: []storage.Property{storage.StringProperty("datetime", entry)},
			}.Row()})
		},
	}
}
