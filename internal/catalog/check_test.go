package catalog_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/check"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/testsize"
)

func (w *world) write(table string, op storage.Op) {
	w.Helper()
	if err := w.account.Table(table+w.suffix).Write(w.Context(), op); err != nil {
		w.Fatal(err)
	}
}

// repair runs check with repair, and then again without: nothing may be left.
func (w *world) repair(c *catalog.Catalog) (check.Result, []string) {
	w.Helper()
	var problems []string
	sum, err := check.Run(w.Context(), c, true, func(f catalog.Finding) {
		problems = append(problems, f.Problem)
		if !f.Repaired {
			w.Errorf("not repaired: %+v", f)
		}
	})
	if err != nil {
		w.Fatal(err)
	}
	w.check(c)
	return sum, problems
}

// TestCheckRepairs damages index rows in every way.
func TestCheckRepairs(t *testing.T) {
	t.Parallel()
	r := `{"eid":"F314","lastname":"Faux","npi":"7","ssn":"123-45-6789","wage":41.5}`
	at := key.Key{Partition: "3_npi7", Row: ""}
	tests := []struct {
		name   string
		damage func(w *world, row storage.Entity)
		want   string
	}{
		{"a row is missing", func(w *world, row storage.Entity) {
			w.write("People", storage.Op{Kind: storage.Delete, Entity: row})
		}, "missing"},
		{"a row was changed", func(w *world, row storage.Entity) {
			w.write("People", storage.Op{Kind: storage.Merge, Entity: storage.Entity{Key: row.Key, Properties: []storage.Property{storage.StringProperty("wage", "more")}}})
		}, "differs"},
		{"a row has an older version", func(w *world, row storage.Entity) {
			w.write("People", storage.Op{Kind: storage.Merge, Entity: storage.Entity{Key: row.Key, Properties: []storage.Property{storage.Int64Property("tsw_version", 1)}}})
		}, "differs"},
		{"a row was replaced by another program", func(w *world, row storage.Entity) {
			row.Properties = slices.DeleteFunc(row.Properties, func(p storage.Property) bool { return strings.HasPrefix(p.Name, "tsw_") })
			w.write("People", storage.Op{Kind: storage.Replace, Entity: row})
		}, "differs"},
		{"a tombstone was left behind", func(w *world, row storage.Entity) {
			row.Key.Row = "gone:00000000"
			row.Properties = []storage.Property{{Name: "tsw_gone", Type: storage.Boolean, Value: []byte("true")}, storage.StringProperty("tsw_first", "f"), storage.StringProperty("tsw_identity", "i"), storage.Int64Property("tsw_version", 5)}
			w.write("People", storage.Op{Kind: storage.Insert, Entity: row})
		}, "left behind"},
		{"a row too many", func(w *world, row storage.Entity) {
			row.Key.Partition = "3_npi8"
			w.write("People", storage.Op{Kind: storage.Insert, Entity: row})
		}, "in a place where its record has none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, c := newCatalog(t, people, "lastname")
			w.did(catalog.Created)(c.Insert(t.Context(), rec(t, r), ""))
			c.Close()
			i := slices.IndexFunc(w.rows("People", ""), func(e storage.Entity) bool { return e.Key.Partition == at.Partition })
			tt.damage(w, w.rows("People", "")[i])
			var found []catalog.Finding
			sum, err := check.Run(t.Context(), c, false, func(f catalog.Finding) { found = append(found, f) })
			if err != nil || sum.Problems == 0 || len(found) == 0 || !strings.Contains(found[0].Problem, tt.want) {
				t.Errorf("check finds %+v, %+v, %v", sum, found, err)
			}
			if sum, _ := w.repair(c); sum.Repaired != sum.Problems || sum.Repaired == 0 {
				t.Errorf("repaired %+v", sum)
			}
			for _, q := range []catalog.Lookup{by("eid", "f314"), by("npi", "7"), by("ssn", "123456789")} {
				w.wantFound(c, q, rec(t, r))
			}
			w.wantFound(c, by("npi", "8"))
		})
	}
}

// TestRecoverSince brings back index rows that were lost, from the changes.
func TestRecoverSince(t *testing.T) {
	t.Parallel()
	inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		r := w.insertAll(c, map[string]any{"eid": "1", "lastname": "a", "npi": "7"}, map[string]any{"eid": "2", "lastname": "b", "npi": "7"})
		time.Sleep(time.Hour)
		since := time.Now()
		changed := rec(t, `{"eid":"1","lastname":"z","npi":"7"}`)
		w.did(catalog.Replaced)(c.Replace(t.Context(), changed, by("eid", "1"), always))
		c.Close()
		for _, row := range w.rows("People", "") { // as if the table were lost
			w.write("People", storage.Op{Kind: storage.Delete, Entity: row})
		}
		if sum, err := c.Recover(t.Context(), since); err != nil || sum.Applied != 1 {
			t.Errorf("recovered %+v, %v", sum, err)
		}
		w.wantFound(c, by("npi", "7"), changed)
		if sum, err := c.Recover(t.Context(), since.Add(-2*time.Hour)); err != nil || sum.Applied != 3 {
			t.Errorf("recovered %+v, %v", sum, err)
		}
		w.wantFound(c, by("npi", "7"), r[1], changed)
		w.wantFound(c, by("eid", "1"), changed)
		w.check(c)
	})
}

// TestCheckReadsPages counts the queries of a check: one for each page or, with damaged records,
// two for each page and a few for each damaged record.
func TestCheckReadsPages(t *testing.T) {
	t.Parallel()
	w, c := newCatalog(t, people, "lastname")
	n := testsize.Of(500, 1500)
	fill(t, c, 0, n)
	w.delete(c, by("eid", "F7"), 1)
	c.Close()
	pages := int64(3*n/1000 + 1 + shards) // of the index, and of the shards' heads
	count := func() int64 {
		c.Close()
		w.emulator.ResetCounts()
		sum, err := check.Run(t.Context(), c, false, func(catalog.Finding) {})
		if err != nil || sum.Records != n-1 || sum.Rows != 3*n {
			t.Errorf("%+v, %v", sum, err)
		}
		return w.emulator.Counts().TableTransactions()
	}
	if n := count(); n > 2*pages {
		t.Errorf("%d requests for %d pages", n, pages)
	}
	row := w.rows("People", "")[0]
	w.write("People", storage.Op{Kind: storage.Merge, Entity: storage.Entity{Key: row.Key, Properties: []storage.Property{storage.StringProperty("lastname", "X")}}})
	if n := count(); n > 3*pages+20 {
		t.Errorf("%d requests for %d pages and one damaged row", n, pages)
	}
	if sum, _ := w.repair(c); sum.Repaired != 1 {
		t.Errorf("%+v", sum)
	}
}

// TestRepairBringsNothingBack repairs a row that still has a deleted record.
func TestRepairBringsNothingBack(t *testing.T) {
	t.Parallel()
	w, c := newCatalog(t, people, "lastname")
	w.insertAll(c, map[string]any{"eid": "1", "lastname": "a", "npi": "7"})
	before := w.rows("People", "")
	w.delete(c, by("eid", "1"), 1)
	c.Close()
	w.write("People", storage.Op{Kind: storage.Replace, Entity: before[0]})
	if len(w.find(c, by("eid", "1"))) != 1 {
		t.Fatal("the damage has no effect")
	}
	if sum, problems := w.repair(c); sum.Repaired != 1 {
		t.Errorf("%+v: %v", sum, problems)
	}
	w.wantFound(c, by("eid", "1"))
}

// TestNewestRowCounts repairs a record whose rows were all changed in different ways.
func TestNewestRowCounts(t *testing.T) {
	t.Parallel()
	inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		w.insertAll(c, map[string]any{"eid": "1", "lastname": "a", "npi": "7", "ssn": "8"})
		c.Close()
		rows := w.rows("People", "")
		for _, i := range []int{0, 2, 1} {
			time.Sleep(time.Second)
			w.write("People", storage.Op{Kind: storage.Merge, Entity: storage.Entity{Key: rows[i].Key, Properties: []storage.Property{storage.StringProperty("note", rows[i].Key.Partition)}}})
		}
		w.repair(c)
		want := rec(t, `{"eid":"1","lastname":"a","npi":"7","ssn":"8","note":"`+rows[1].Key.Partition+`"}`)
		for _, q := range []catalog.Lookup{by("eid", "1"), by("npi", "7"), by("ssn", "8")} {
			w.wantFound(c, q, want)
		}
	})
}

// TestRepairKeepsWhatItCanNotDecide leaves a surplus row whose contents differ from the record.
func TestRepairKeepsWhatItCanNotDecide(t *testing.T) {
	t.Parallel()
	w, c := newCatalog(t, people, "lastname")
	w.insertAll(c, map[string]any{"eid": "1", "lastname": "a"}, map[string]any{"eid": "2", "lastname": "b", "npi": "7"})
	c.Close()
	w.published("3_npi8", "a:00000000", rec(t, `{"eid":"1","lastname":"a","note":"only here"}`))
	// And another program's row where a record's own should be.
	foreign := rec(t, `{"eid":"3","lastname":"b","npi":"7"}`)
	w.published("3_npi7", rowOf(t, w.schema, rec(t, `{"eid":"2","lastname":"b","npi":"7"}`)), foreign)
	kept := 0
	sum, err := check.Run(t.Context(), c, true, func(f catalog.Finding) {
		if !f.Repaired {
			kept++
		}
	})
	if err != nil || kept != 3 { // the foreign row is found from either side
		t.Errorf("%d findings are left, %+v, %v", kept, sum, err)
	}
	for _, note := range []string{"3_npi8", "3_npi7"} {
		left := slices.DeleteFunc(w.rows("People", ""), func(e storage.Entity) bool { return e.Key.Partition != note })
		if note == "3_npi8" && (len(left) != 1 || left[0].Get("note") != "only here") {
			t.Errorf("%s holds %v", note, left)
		}
	}
}
