package catalog_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/check"
	"tablesweep/internal/catalog/migrate"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

func (w *world) write(table string, op storage.Op) {
	w.Helper()
	proof.Must(w, w.account.Table(table+w.suffix).Write(w.Context(), op))
}

// repair runs check with repairs, and then without. The second run must not find any problems.
func (w *world) repair(c *catalog.Catalog) (check.Result, []string) {
	w.Helper()
	var problems []string
	sum, err := check.Run(w.Context(), c, true, func(f catalog.Finding) {
		problems = append(problems, f.Problem)
		if !f.Repaired {
			w.Errorf("after the repair, check still finds %+v", f)
		}
	})
	proof.Must(w, err)
	w.check(c)
	return sum, problems
}

// TestCheckRepairs damages index rows in many ways. Package check must find and repair each damage.
func TestCheckRepairs(t *testing.T) {
	t.Parallel()
	r := `{"eid":"F314","lastname":"Faux","npi":"7","ssn":"123-45-6789","wage":41.5}`
	at := key.Key{Partition: "3_npi7", Row: ""}
	tests := []struct {
		name   string
		damage func(w *world, c *catalog.Catalog, row storage.Entity)
		want   string
	}{
		{"a row is missing", func(w *world, _ *catalog.Catalog, row storage.Entity) {
			w.write("People", storage.Op{Kind: storage.Delete, Row: row.Row()})
		}, "missing"},
		{"a row was changed", func(w *world, _ *catalog.Catalog, row storage.Entity) {
			w.write("People", storage.Op{Kind: storage.Merge, Row: storage.Entity{Key: row.Key, Properties: []storage.Property{storage.StringProperty("wage", "more")}}.Row()})
		}, "differs"},
		{"a row has an older version", func(w *world, _ *catalog.Catalog, row storage.Entity) {
			w.write("People", storage.Op{Kind: storage.Merge, Row: storage.Entity{Key: row.Key, Properties: []storage.Property{storage.Int64Property("tsw_version", 1)}}.Row()})
		}, "differs"},
		{"a row was replaced by another program", func(w *world, _ *catalog.Catalog, row storage.Entity) {
			row.Properties = slices.DeleteFunc(row.Properties, func(p storage.Property) bool { return strings.HasPrefix(p.Name, "tsw_") })
			w.write("People", storage.Op{Kind: storage.Replace, Row: row.Row()})
		}, "differs"},
		{"another record's row was copied over it", func(w *world, _ *catalog.Catalog, row storage.Entity) {
			other := w.rows("People", "other:")[0]
			other.Key = row.Key
			w.write("People", storage.Op{Kind: storage.Replace, Row: other.Row()})
		}, "another record's"},
		{"two records' rows have exchanged their places", func(w *world, _ *catalog.Catalog, row storage.Entity) {
			other := w.rows("People", "other:")[0]
			other.Key, row.Key = row.Key, other.Key
			w.write("People", storage.Op{Kind: storage.Replace, Row: other.Row()})
			w.write("People", storage.Op{Kind: storage.Replace, Row: row.Row()})
		}, "another record's"},
		{"there is a row under a wrong value", func(w *world, _ *catalog.Catalog, row storage.Entity) {
			row.Key.Partition = "3_npi8"
			w.write("People", storage.Op{Kind: storage.Insert, Row: row.Row()})
		}, "the row's key does not match the values of its record"},
		{"all rows are missing", func(w *world, _ *catalog.Catalog, _ storage.Entity) {
			for _, row := range w.rows("People", "") {
				w.write("People", storage.Op{Kind: storage.Delete, Row: row.Row()})
			}
		}, "missing"},
		{"a row has a deleted record again", func(w *world, c *catalog.Catalog, _ storage.Entity) {
			w.insertAll(c, map[string]any{"eid": "gone", "lastname": "gone"})
			before := w.rows("People", "gone:")
			w.delete(c, by("eid", "gone"), 1)
			c.Close()
			w.write("People", storage.Op{Kind: storage.Replace, Row: before[0].Row()})
		}, "a deleted record"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, c := newCatalog(t, people, "lastname")
			w.wantOutcome(catalog.Created)(c.Insert(t.Context(), rec(t, r), ""))
			w.wantOutcome(catalog.Created)(c.Insert(t.Context(), rec(t, `{"eid":"other","lastname":"Other"}`), ""))
			c.Close()
			i := slices.IndexFunc(w.rows("People", ""), func(e storage.Entity) bool { return e.Key.Partition == at.Partition })
			tt.damage(w, c, w.rows("People", "")[i])
			var found []catalog.Finding
			sum, err := check.Run(t.Context(), c, false, func(f catalog.Finding) { found = append(found, f) })
			if err != nil || sum.Problems == 0 || len(found) == 0 || !strings.Contains(found[0].Problem, tt.want) {
				t.Errorf("check returns %+v, findings %+v, error %v", sum, found, err)
			}
			if sum, _ := w.repair(c); sum.Repaired != sum.Problems || sum.Repaired == 0 {
				t.Errorf("the repair returns %+v, want all problems repaired", sum)
			}
			for _, q := range []catalog.Lookup{by("eid", "f314"), by("npi", "7"), by("ssn", "123456789")} {
				w.wantFound(c, q, rec(t, r))
			}
			w.wantFound(c, by("npi", "8"))
			w.wantFound(c, by("eid", "gone"))
		})
	}
}

// fill inserts records with consecutive numbers, a thousand in each call. The first number is from, and the last is before to.
func fill(b testing.TB, c *catalog.Catalog, from, to int) {
	b.Helper()
	for ; from < to; from += 1000 {
		var all []record.Record
		for i := range min(1000, to-from) {
			all = append(all, person(b, from+i))
		}
		for _, one := range c.InsertAll(b.Context(), record.Decoded(all), nil) {
			if one.Err != nil {
				b.Fatal(one.Err)
			}
		}
	}
	c.Close()
}

// TestQueriesOfACheck counts the queries of a check: one for each page. If records are damaged, check makes two queries for
// each page, and a few for each damaged record.
func TestQueriesOfACheck(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	w, c := newCatalog(t, people, "lastname")
	n := testsize.Of(150, 1500)
	fill(t, c, 0, n)
	w.delete(c, by("eid", "F7"), 1)
	c.Close()
	pages := int64(3*n/1000 + 1 + shards) // pages of the index, and of the shards' heads
	count := func() int64 {
		c.Close()
		w.emulator.ResetCounts()
		sum, err := check.Run(t.Context(), c, false, func(catalog.Finding) {})
		if err != nil || sum.Records != n-1 || sum.Rows != 3*n {
			t.Errorf("check returns %+v, error %v", sum, err)
		}
		return w.emulator.Counts().TableTransactions()
	}
	if n := count(); n > 2*pages {
		t.Errorf("check makes %d requests for %d pages", n, pages)
	}
	row := w.rows("People", "")[0]
	w.write("People", storage.Op{Kind: storage.Merge, Row: storage.Entity{Key: row.Key, Properties: []storage.Property{storage.StringProperty("lastname", "X")}}.Row()})
	if n := count(); n > 3*pages+20 {
		t.Errorf("check makes %d requests for %d pages and one damaged row", n, pages)
	}
	if sum, _ := w.repair(c); sum.Repaired != 1 {
		t.Errorf("the repair returns %+v", sum)
	}
}

// TestRowsChangedManually changes all rows of a record. While the log still has the record's last change, a repair restores the
// rows. After that, check advises to write the record again.
func TestRowsChangedManually(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Hour, 40 * 24 * time.Hour} {
		inBubble(t, "eid,npi,ssn", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			want := w.insertAll(c, map[string]any{"eid": "1", "lastname": "a", "npi": "7", "ssn": "8"})[0]
			c.Close()
			time.Sleep(after)
			w.maintain(c)
			rows := w.rows("People", "")
			for i, of := range []string{"npi", "note", "eid"} { // one row is now under another record's value, and one no longer contains a record
				time.Sleep(time.Second)
				row := rows[[]int{0, 2, 1}[i]]
				row.Properties = slices.DeleteFunc(row.Properties, func(p storage.Property) bool { return p.Name == of })
				if of != "eid" {
					row.Properties = append(row.Properties, storage.StringProperty(of, "by hand"))
				}
				w.write("People", storage.Op{Kind: storage.Replace, Row: row.Row()})
			}
			if after > 30*24*time.Hour {
				if findings := w.findings(c, true); len(findings) != 1 || findings[0].Repaired || !strings.Contains(findings[0].Problem, "write the record again") {
					t.Errorf("check finds %+v", findings)
				}
				want = rec(t, `{"eid":"1","lastname":"a","npi":"7","ssn":"8","note":"anew"}`)
				w.wantOutcome(catalog.Replaced)(c.Put(t.Context(), want, always))
				c.Close()
				w.check(c)
			} else {
				if findings := w.findings(c, false); len(findings) != 3 {
					t.Errorf("check finds %+v", findings)
				}
				w.repair(c)
			}
			for _, q := range []catalog.Lookup{by("eid", "1"), by("npi", "7"), by("ssn", "8")} {
				w.wantFound(c, q, want)
			}
		})
	}
}

// findings runs check, and returns its findings.
func (w *world) findings(c *catalog.Catalog, repair bool) (all []catalog.Finding) {
	w.Helper()
	if _, err := check.Run(w.Context(), c, repair, func(f catalog.Finding) { all = append(all, f) }); err != nil {
		w.Error(err)
	}
	return all
}

// TestLostLog deletes the log's table before a replacement and a deletion are written to all index rows. A repair does not change the
// index, and reports each row.
func TestLostLog(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, old *catalog.Catalog) {
		r := w.insertAll(old, map[string]any{"eid": "1", "lastname": "a", "npi": "7"}, map[string]any{"eid": "2", "lastname": "b", "npi": "7"}, map[string]any{"eid": "3", "lastname": "c", "npi": "7"})
		old.Close()
		before := w.rows("People", "")
		r[1] = rec(t, `{"eid":"2","lastname":"b","npi":"7","note":"later"}`)
		w.wantOutcome(catalog.Replaced)(old.Put(t.Context(), r[1], always))
		w.delete(old, by("eid", "3"), 1)
		old.Close()
		for _, row := range before {
			if row.Key.Partition != "3_npi7" {
				w.write("People", storage.Op{Kind: storage.Replace, Row: row.Row()})
			}
		}
		log := w.account.Table("PeopleWAL" + w.suffix)
		proof.Must(t, log.Delete(t.Context()))
		c := w.openOn(w.account, nil)
		w.prepare(c)
		_, err := check.Run(t.Context(), c, true, func(f catalog.Finding) { t.Error(f) })
		wantKind(t, err, problem.Conflict)
		if _, err := migrate.Run(t.Context(), c, false, func(f catalog.Finding) { t.Error(f) }); err != nil {
			t.Error(err)
		}
		w.leaves(c, 6, "is not in the log", "should have been deleted")
		w.wantFound(c, by("npi", "7"), r[0], r[1])
	})
}

// TestLogFromABackup restores a backup of the log that does not contain the latest replacement and insertion. A repair does not
// revert these writes.
func TestLogFromABackup(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		r := w.insertAll(c, map[string]any{"eid": "1", "lastname": "a", "npi": "7"}, map[string]any{"eid": "2", "lastname": "b", "npi": "7"})
		w.delete(c, by("eid", "2"), 1)
		c.Close()
		backup := w.rows("PeopleWAL", "")
		later := rec(t, `{"eid":"1","lastname":"a","npi":"7","note":"later"}`)
		w.wantOutcome(catalog.Replaced)(c.Put(t.Context(), later, always))
		w.wantOutcome(catalog.Created)(c.Insert(t.Context(), r[1], ""))
		c.Close()
		for _, row := range w.rows("PeopleWAL", "") {
			w.write("PeopleWAL", storage.Op{Kind: storage.Delete, Row: row.Row()})
		}
		for _, row := range backup {
			w.write("PeopleWAL", storage.Op{Kind: storage.Insert, Row: row.Row()})
		}
		w.leaves(c, 3, "newer")
		w.wantFound(c, by("npi", "7"), later, r[1])
	})
}

// TestRepairKeepsUnknownRows checks that a repair reports rows whose contents are not in the log, and does not delete them.
func TestRepairKeepsUnknownRows(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		damage   func(w *world, c *catalog.Catalog, row storage.Entity)
		want     string
		findings int
	}{
		{"a tombstone should have been deleted", func(w *world, _ *catalog.Catalog, row storage.Entity) {
			row.Key.Row = "gone:00000000"
			row.Properties = []storage.Property{{Name: "tsw_gone", Type: storage.Boolean, Value: []byte("true")}, storage.StringProperty("tsw_first", "f"), storage.StringProperty("tsw_identity", "i"), storage.Int64Property("tsw_version", 5)}
			w.write("People", storage.Op{Kind: storage.Insert, Row: row.Row()})
		}, "should have been deleted", 1},
		{"a changed row of another record was copied over it", func(w *world, _ *catalog.Catalog, row storage.Entity) {
			other := w.rows("People", "other:")[0]
			other.Key = row.Key
			other.Properties = append(other.Properties, storage.StringProperty("new", "x"))
			w.write("People", storage.Op{Kind: storage.Replace, Row: other.Row()})
		}, "another record's", 2}, // check finds the row under both records
		{"another program wrote a row over it", func(w *world, _ *catalog.Catalog, row storage.Entity) {
			w.published(row.Key.Partition, row.Key.Row, rec(w, `{"eid":"3","lastname":"Faux","npi":"7"}`))
		}, "another", 2},
		{"another program wrote a row in a wrong place", func(w *world, _ *catalog.Catalog, row storage.Entity) {
			w.published("3_npi8", "faux:00000000", rec(w, `{"eid":"F314","lastname":"Faux","npi":"7","note":"only here"}`))
		}, "its contents differ", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, c := newCatalog(t, people, "lastname")
			w.wantOutcome(catalog.Created)(c.Insert(t.Context(), rec(t, `{"eid":"F314","lastname":"Faux","npi":"7"}`), ""))
			w.wantOutcome(catalog.Created)(c.Insert(t.Context(), rec(t, `{"eid":"other","lastname":"Other"}`), ""))
			c.Close()
			i := slices.IndexFunc(w.rows("People", ""), func(e storage.Entity) bool { return e.Key.Partition == "3_npi7" })
			tt.damage(w, c, w.rows("People", "")[i])
			w.leaves(c, tt.findings, tt.want, "its contents differ")
		})
	}
}

// leaves checks that a repair finds n problems and does not change any index row. Each problem must contain one of the texts.
func (w *world) leaves(c *catalog.Catalog, n int, texts ...string) {
	w.Helper()
	before := w.rows("People", "")
	findings := w.findings(c, true)
	for _, f := range findings {
		if f.Repaired || !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(f.Problem, text) }) {
			w.Errorf("unexpected problem %+v", f)
		}
	}
	if len(findings) != n {
		w.Errorf("check finds %d problems, want %d: %+v", len(findings), n, findings)
	}
	if diff := cmp.Diff(before, w.rows("People", "")); diff != "" {
		w.Errorf("the repair has changed the index (-before +after):\n%s", diff)
	}
}

// TestRowsOfLaterSchemas checks that a repair does not change the rows of a record that was written with another schema, or
// whose head a later version of this program wrote.
func TestRowsOfLaterSchemas(t *testing.T) {
	t.Parallel()
	for _, format := range []bool{true, false} {
		w, c := newCatalog(t, "eid,npi", "lastname")
		w.insertAll(c, map[string]any{"eid": "1", "lastname": "a", "npi": "7"})
		c.Close() // waits until all rows of the record are written
		now := w.schema
		w.schema = parsed(t, "eid,npi,phone", "lastname")
		later := w.openOn(w.account, nil)
		w.write("PeopleWAL", storage.Op{Kind: storage.Replace, Row: later.SchemaRow("ready").Row()})
		r := w.insertAll(later, map[string]any{"eid": "2", "lastname": "b", "npi": "7", "phone": "5"})
		later.Close()
		w.write("PeopleWAL", storage.Op{Kind: storage.Replace, Row: c.SchemaRow("ready").Row()})
		w.schema = now
		if format {
			for _, head := range w.rows("PeopleWAL", "h|") {
				w.write("PeopleWAL", storage.Op{Kind: storage.Merge, Row: storage.Entity{Key: head.Key, Properties: []storage.Property{storage.Int64Property("Format", 9)}}.Row()})
			}
		}
		before := w.rows("People", "")
		for _, repair := range []bool{false, true} {
			findings := w.findings(c, repair)
			if len(findings) == 0 {
				t.Error("check does not find any problem")
			}
			for _, f := range findings {
				if f.Repaired || !strings.Contains(f.Problem, "another schema") && !strings.Contains(f.Problem, "a later version") {
					t.Errorf("unexpected problem %+v", f)
				}
			}
			if diff := cmp.Diff(before, w.rows("People", "")); diff != "" {
				t.Errorf("check with repair %v has changed the index (-before +after):\n%s", repair, diff)
			}
		}
		w.wantFound(c, by("eid", "2"), r...)
	}
}
