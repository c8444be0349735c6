package catalog_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// insertAll inserts records with the fields in the maps.
func (w *world) insertAll(c *catalog.Catalog, all ...map[string]any) []record.Record {
	w.Helper()
	var records []record.Record
	for _, fields := range all {
		r := rec(w, mustJSON(fields))
		w.wantOutcome(catalog.Created)(c.Insert(w.Context(), r, ""))
		records = append(records, r)
	}
	return records
}

// TestQueryAll reads a partition in pages while rows are inserted and deleted, and filters the rows by further keys.
func TestQueryAll(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	w, c := newCatalog(t, "id,city,kind", "id")
	var all []map[string]any
	for i := range 250 {
		all = append(all, map[string]any{"id": fmt.Sprintf("%03d", i), "city": "Sankt O'Hara/Ost", "kind": []string{"Ä", "b"}[i%2]})
	}
	r := w.insertAll(c, all...)
	var even []record.Record
	for i := 0; i < 250; i += 2 {
		even = append(even, r[i])
	}
	city := "SANKT O'HARA/OST"
	w.wantFound(c, catalog.Lookup{Keys: map[string]string{"city": city}, Top: 7}, r...)
	w.wantFound(c, catalog.Lookup{Keys: map[string]string{"city": city, "kind": "ä"}, Top: 7}, even...)
	w.wantFound(c, catalog.Lookup{Keys: map[string]string{"city": city, "kind": "ä", "id": "007"}})
	c.Close() // requests after an answer must not count
	w.emulator.ResetCounts()
	w.wantFound(c, catalog.Lookup{Keys: map[string]string{"city": city, "kind": "ä"}, Top: 1000}, even...)
	c.Close()
	if n := w.emulator.Counts().TableTransactions(); n > 3 {
		t.Errorf("a query by two keys takes %d requests; want the first rows of each key, and a page of one key", n)
	}

	q := catalog.Lookup{Keys: map[string]string{"city": city}, Top: 100}
	page, err := c.Find(t.Context(), q)
	proof.Must(t, err)
	for _, id := range []string{"000", "099", "100"} { // the rows read, the row at the cursor, and the next row
		w.delete(c, by("id", id), 1)
	}
	w.insertAll(c, map[string]any{"id": "099a", "city": city, "kind": "b"})
	q.Cursor = page.Cursor
	rest := w.find(c, q)
	if len(rest) != 150 { // one record was deleted, one was inserted
		t.Errorf("the remaining pages have %d records, want 150", len(rest))
	}

	bad := []catalog.Lookup{
		{},
		{Keys: map[string]string{"town": "x"}},
		{Keys: map[string]string{"city": ""}},
		{Keys: map[string]string{"city": "x"}, Top: 1001},
		{Keys: map[string]string{"city": "x"}, Top: -1},
		{Keys: map[string]string{"city": "x"}, Cursor: "x"},
		{Keys: map[string]string{"city": "x"}, Cursor: page.Cursor},
	}
	for _, q := range bad {
		_, err := c.Find(t.Context(), q)
		wantKind(t, err, problem.Invalid)
	}
}

// TestQueryBySeveralKeys reads the partitions of all keys concurrently. A partition with few rows must give the answer, even if
// the others have many rows or do not answer. The query must find, and a deletion must delete, more records than a page can
// contain.
func TestQueryBySeveralKeys(t *testing.T) {
	t.Parallel()
	inBubble(t, "id,npi,email", "id", func(t *testing.T, w *world, c *catalog.Catalog) {
		n := testsize.Of(300, 1100)
		r := make([]record.Record, n)
		for i := range r {
			r[i] = rec(t, fmt.Sprintf(`{"id":"%04d","npi":"shared","email":"e%d"}`, i, i/5))
		}
		w.insertMany(c, r)
		c.Close()
		w.emulator.ResetCounts()
		last := r[n-5:] // records with a different email
		q := catalog.Lookup{Keys: map[string]string{"npi": "shared", "email": fmt.Sprint("e", (n-1)/5)}}
		w.wantFound(c, q, last...)
		c.Close()
		if n := w.emulator.Counts(); n.TableTransactions() > 2 || n.QueryRows > 5+64 {
			t.Errorf("the query takes %d requests for %d rows; want at most 2 requests, for 5 rows of one key and 64 of the other", n.TableTransactions(), n.QueryRows)
		}
		// A cursor is valid for each of the keys.
		q.Top = 2
		w.wantFound(c, q, last...)
		// The shared partition does not answer.
		held := make(chan struct{})
		hold := func(what string) chan struct{} {
			if strings.Contains(what, "3_npishared") {
				return held
			}
			return nil
		}
		w.wantFound(w.gated(hold), q, last...)
		close(held)
		// No partition's first rows are enough, so the query continues with the partition whose rows end at the greatest
		// RowKey.
		both := catalog.Lookup{Keys: map[string]string{"npi": "SHARED", "id": fmt.Sprintf("%04d", n-50)}}
		w.wantFound(c, both, r[n-50])
		start := time.Now()
		w.wantFound(c, catalog.Lookup{Keys: map[string]string{"npi": "shared", "email": "nobody"}})
		if d := time.Since(start); d > time.Second {
			t.Errorf("a query without a match took %v", d)
		}
		shared := catalog.Lookup{Keys: map[string]string{"npi": "shared"}, Top: 1000}
		w.wantFound(c, shared, r...)
		kept := testsize.Of(200, 0)
		w.delete(c, catalog.Lookup{Keys: shared.Keys, RowFrom: fmt.Sprintf("%04d", kept)}, len(r)-kept)
		w.wantFound(c, shared, r[:kept]...)
	})
}

// TestPagesAreFilled finds a record after more tombstones than a page can contain.
func TestPagesAreFilled(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{Latency: latency}, "id,city", "id")
		c := w.catalog()
		r := w.insertAll(c, map[string]any{"id": "z", "city": "Bern"})
		c.Close()
		// The tombstones of thousands of deletions.
		deletions := testsize.Of(4000, 21_000)
		tombstone := w.rows("People", "")[0].Properties
		tombstone = slices.DeleteFunc(slices.Clone(tombstone), func(p storage.Property) bool { return !strings.HasPrefix(p.Name, "tsw_") })
		tombstone = append(tombstone, storage.Property{Name: "tsw_gone", Type: storage.Boolean, Value: []byte("true")})
		for from := 0; from < deletions; from += storage.MaxBatchRows {
			b := w.account.Table("People").Batch()
			for i := range storage.MaxBatchRows {
				b.Add(storage.Op{Kind: storage.Insert, Row: storage.Entity{Key: key.Key{Partition: "4_citybern", Row: fmt.Sprintf("a%05d:00000000", from+i)}, Properties: tombstone}.Row()})
			}
			proof.Must(t, b.Do(t.Context()))
		}
		w.emulator.ResetCounts()
		got, err := c.Find(t.Context(), catalog.Lookup{Keys: by("city", "bern").Keys, Top: 1})
		if err != nil || len(slices.Collect(got.Records())) != 1 || got.Cursor != "" || !record.Equal(slices.Collect(got.Records())[0], r[0]) {
			t.Errorf("the query finds %v, cursor %q, error %v", slices.Collect(got.Records()), got.Cursor, err)
		}
		if n := w.emulator.Counts().Query; n > int64(deletions/storage.PageRows+2) {
			t.Errorf("the query takes %d requests for %d rows", n, deletions+1)
		}
		// The time for the page ends before the page is full. The cursor continues.
		next := w.emulator.Transport()
		slow := w.via(func(r *http.Request) (*http.Response, error) {
			time.Sleep(4 * time.Second)
			return next.Do(r)
		})
		start := time.Now()
		got, err = slow.Find(t.Context(), by("city", "bern"))
		if d := time.Since(start); err != nil || got.Cursor == "" || d > 13*time.Second {
			t.Errorf("the query finds %v, cursor %q, error %v after %v", slices.Collect(got.Records()), got.Cursor, err, d)
		}
		w.wantFound(slow, by("city", "bern"), r...)
		// The time of a write's selector is not limited.
		w.wantOutcome(catalog.Replaced)(slow.Patch(t.Context(), []byte(`{"n":1}`), by("city", "bern"), always))
		slow.Close()
	})
}

// TestInvalidRecordsAreNotWritten checks that invalid records are refused before any row is written.
func TestInvalidRecordsAreNotWritten(t *testing.T) {
	t.Parallel()
	w, c := newCatalog(t, people, "lastname")
	for _, text := range []string{
		`{"lastname":"x"}`,
		`{"eid":"1","EID":"2","lastname":"x"}`,
		`{"eid":"` + strings.Repeat("x", 600) + `","lastname":"x"}`,
	} {
		_, err := c.Insert(t.Context(), rec(t, text), "")
		wantKind(t, err, problem.Invalid)
	}
	for _, q := range []catalog.Lookup{by("eid", "\xff"), {Keys: map[string]string{"eid": "1"}, RowFrom: "\xff"}} {
		_, err := c.Replace(t.Context(), rec(t, `{"eid":"1","lastname":"x"}`), q, always)
		wantKind(t, err, problem.Invalid)
		_, err = c.Patch(t.Context(), []byte("{\"wage\":\"\xff\"}"), q, always)
		wantKind(t, err, problem.Invalid)
	}
	for _, table := range []string{"People", "PeopleWAL"} {
		for _, row := range w.rows(table, "") {
			if row.Key.Partition != "schema" {
				t.Errorf("the table %s contains %v", table, row)
			}
		}
	}
}

// TestAnyFieldAndValue writes fields whose names have a meaning elsewhere, and values of all types. Queries must return the
// same fields and types.
func TestAnyFieldAndValue(t *testing.T) {
	t.Parallel()
	w, c := newCatalog(t, people, "lastname")
	r := rec(t, `{"eid":"a'b/c\\d#e?","lastname":"O'Neil / \"x\"","operation":"delete","PartitionKey":"p","RowKey":"r","Timestamp":"t",
		"tsw_version":9,"etag":"e","first name":"x","deep":{"a":[1,2]},"n":3,"big":9007199254740993,"double":3.0,"yes":true,
		"when":"2026-02-01T10:00:00.1234567Z","when@odata.type":"Edm.DateTime","id":"00000000-0000-0000-0000-000000000001","id@odata.type":"Edm.Guid"}`)
	w.wantOutcome(catalog.Created)(c.Insert(t.Context(), r, ""))
	w.wantFound(c, by("eid", "A'B/C\\D#E?"), r)
	w.check(c)
	c.Close()
	if changes, next, err := changes(t, c, ""); err != nil || len(changes) != 1 || next != "" || !record.Equal(changes[0].Record, r) {
		t.Errorf("Changes returns %v, cursor %q, error %v", changes, next, err)
	}
}
