package catalog_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/emulator"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

func (w *world) write(table string, op storage.Op) {
	w.Helper()
	if err := w.account.Table(table).Write(w.Context(), op); err != nil {
		w.Fatal(err)
	}
}

// repair runs check with repair, and then again without: nothing may be left.
func (w *world) repair(c *catalog.Catalog) (catalog.Checked, []string) {
	w.Helper()
	var problems []string
	sum, err := c.Check(w.Context(), true, func(f catalog.Finding) {
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
	r := `{"eid":"F314","lastname":"Faux","npi":"7","ssn":"123-45-6789","wage":41.50}`
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
		{"a row was replaced by another program", func(w *world, row storage.Entity) {
			row.Properties = slices.DeleteFunc(row.Properties, func(p storage.Property) bool { return strings.HasPrefix(p.Name, "tsw_") })
			w.write("People", storage.Op{Kind: storage.Replace, Entity: row})
		}, "differs"},
		{"a row too many", func(w *world, row storage.Entity) {
			row.Key.Partition = "3_npi8"
			w.write("People", storage.Op{Kind: storage.Insert, Entity: row})
		}, "stands where its record has none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, emulator.Options{}, people, "lastname")
			c := w.catalog()
			if _, err := c.Insert(t.Context(), rec(t, r), ""); err != nil {
				t.Fatal(err)
			}
			c.Close()
			i := slices.IndexFunc(w.rows("People", ""), func(e storage.Entity) bool { return e.Key.Partition == at.Partition })
			tt.damage(w, w.rows("People", "")[i])
			var found []catalog.Finding
			sum, err := c.Check(t.Context(), false, func(f catalog.Finding) { found = append(found, f) })
			if err != nil || sum.Problems == 0 || len(found) == 0 || !strings.Contains(found[0].Problem, tt.want) {
				t.Errorf("check finds %+v, %+v, %v", sum, found, err)
			}
			if sum, _ := w.repair(c); sum.Repaired != sum.Problems || sum.Repaired == 0 {
				t.Errorf("repaired %+v", sum)
			}
			for _, q := range []catalog.Query{by("eid", "f314"), by("npi", "7"), by("ssn", "123456789")} {
				w.wantFound(c, q, rec(t, r))
			}
			w.wantFound(c, by("npi", "8"))
		})
	}
}

// TestRecoverSince brings back index rows that were lost, from the changes.
func TestRecoverSince(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{}, people, "lastname")
		c := w.catalog()
		r := w.insertAll(c, map[string]any{"eid": "1", "lastname": "a", "npi": "7"}, map[string]any{"eid": "2", "lastname": "b", "npi": "7"})
		time.Sleep(time.Hour)
		since := time.Now()
		changed := rec(t, `{"eid":"1","lastname":"z","npi":"7"}`)
		if _, err := c.Replace(t.Context(), changed, by("eid", "1"), always); err != nil {
			t.Fatal(err)
		}
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

// published writes a record in the published form, by its own formulas.
func (w *world) published(partition, row string, r record.Record) {
	w.write("People", storage.Op{Kind: storage.Replace, Entity: storage.Entity{Key: key.Key{Partition: partition, Row: row}, Properties: r.Properties()}})
}

// TestTakeOver reads, queries and takes over a table that another program wrote.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{}, "eid,npi,ssn", "lastname")
		if err := w.account.Table("People").Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := rec(t, `{"eid":"F314","lastname":"Faux","npi":"1414213562","ssn":"123-45-6789"}`)
		for _, p := range []string{"3_eidf314", "3_npi1414213562", "3_ssn123-45-6789"} {
			w.published(p, "faux:56a9e459", r)
		}
		// Its program died before the third row: md5("g2|2|3") begins with 8480c7ca.
		half := rec(t, `{"eid":"G2","lastname":"Half","npi":"2","ssn":"3"}`)
		for _, p := range []string{"3_eidg2", "3_npi2"} {
			w.published(p, rowOf(t, w.schema, half), half)
		}
		c := w.catalog()
		w.wantFound(c, by("ssn", "123-45-6789"), r)
		w.wantFound(c, catalog.Query{Keys: map[string]string{"eid": "f314", "npi": "1414213562"}, RowTo: "fau"}, r)
		_, err := c.Insert(t.Context(), rec(t, faux), "")
		wantKind(t, err, problem.Conflict)

		sum, _ := w.repair(c)
		if sum.Untracked == 0 {
			t.Errorf("%+v", sum)
		}
		for field, value := range map[string]string{"eid": "g2", "npi": "2", "ssn": "3"} {
			w.wantFound(c, by(field, value), half)
		}
		if done, err := c.Insert(t.Context(), r, ""); done.Outcome != catalog.Unchanged || err != nil {
			t.Errorf("inserted again: %v, %v", done, err)
		}
		smith := rec(t, `{"eid":"F314","lastname":"Smith","npi":"1414213562","ssn":"123-45-6789"}`)
		if _, err := c.Replace(t.Context(), smith, by("eid", "F314"), always); err != nil {
			t.Error(err)
		}
		w.wantFound(c, by("npi", "1414213562"), smith)
		w.check(c)
	})
}

func rowOf(t *testing.T, s index.Schema, r record.Record) string {
	t.Helper()
	id, err := s.Identity(r.Get)
	if err != nil {
		t.Fatal(err)
	}
	return id.Row
}

// TestAnotherSchema is refused, until check has moved every record to it.
func TestAnotherSchema(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, keys, row string }{
		{"a new index key", "eid,npi,phone", "lastname"},
		{"another normaliser", "eid,npi:digits", "lastname"},
		{"another sort value", "eid,npi", "since:newest"},
		{"another first key", "npi,eid", "lastname"},
		{"an index key less", "eid", "lastname"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, emulator.Options{}, "eid,npi", "lastname")
				old := w.catalog()
				var all []map[string]any
				for i := range 5 {
					all = append(all, map[string]any{"eid": i, "npi": []int{i % 2, i}, "lastname": "x", "phone": "555", "since": "2026-01-01"})
					all[i]["npi"] = []string{"0-0", "1"}[i%2]
				}
				r := w.insertAll(old, all...)
				old.Close()
				var err error
				if w.schema, err = index.Parse(tt.keys, tt.row); err != nil {
					t.Fatal(err)
				}
				c := w.on(w.account, nil)
				wantKind(t, c.Prepare(t.Context()), problem.Conflict)
				sum, err := c.Check(t.Context(), false, func(catalog.Finding) {})
				if err != nil || sum.Moved != 5 || sum.Problems != 5 {
					t.Errorf("%+v, %v", sum, err)
				}
				sum, _ = w.repair(c)
				if sum.Moved != 5 {
					t.Errorf("%+v", sum)
				}
				if err := c.Prepare(t.Context()); err != nil {
					t.Error(err)
				}
				wantKind(t, old.Prepare(t.Context()), problem.Conflict)
				_, err = old.Insert(t.Context(), rec(t, `{"eid":"9","npi":"1","lastname":"x"}`), "")
				wantKind(t, err, problem.Conflict)
				for _, k := range w.schema.Keys {
					n := 0
					for _, value := range []string{"0", "1", "2", "3", "4", "0-0", "00", "555"} {
						if _, normalised, err := w.schema.Partition(k.Field, value); err == nil && (value != "00" || k.Normaliser == index.Digits) && !(value == "0-0" && k.Normaliser == index.Digits) && normalised != "" {
							n += len(w.find(c, by(k.Field, value)))
						}
					}
					if n != len(r) {
						t.Errorf("index %s finds %d records, want %d", k.Field, n, len(r))
					}
				}
				time.Sleep(25 * time.Hour)
				w.maintain(c)
				if rows := len(w.rows("People", "")); rows != len(r)*len(w.schema.Keys) {
					t.Errorf("%d index rows", rows)
				}
				w.check(c)
			})
		})
	}
}

// TestMovingIsGoneOnWith breaks a change of schema off, at every tenth request.
func TestMovingIsGoneOnWith(t *testing.T) {
	t.Parallel()
	for n := 2; ; n += 10 {
		died := false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, emulator.Options{}, "eid,npi", "lastname")
			old := w.catalog()
			w.insertAll(old, map[string]any{"eid": "1", "npi": "1", "lastname": "x"}, map[string]any{"eid": "2", "npi": "1", "lastname": "y"})
			old.Close()
			var err error
			if w.schema, err = index.Parse("npi,eid,lastname", "eid"); err != nil {
				t.Fatal(err)
			}
			victim, p := w.mortal(n, n%20 < 10, nil)
			_, _ = victim.Check(t.Context(), true, func(catalog.Finding) {}) // it most likely dies
			victim.Close()
			if died = p.Dead(); died {
				c := w.on(w.account, nil)
				if c.Prepare(t.Context()) == nil && old.Prepare(t.Context()) == nil {
					t.Error("both schemas are let in")
				}
				w.repair(c)
				for _, q := range []catalog.Query{by("lastname", "x"), by("eid", "1"), by("lastname", "y")} {
					if len(w.find(c, q)) != 1 {
						t.Errorf("%v finds %v", q, w.find(c, q))
					}
				}
			}
		})
		if t.Failed() {
			t.Fatalf("died at request %d", n)
		}
		if !died {
			return
		}
	}
}

// TestRepairBringsNothingBack finds the row of a deleted record.
func TestRepairBringsNothingBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{}, people, "lastname")
	c := w.catalog()
	w.insertAll(c, map[string]any{"eid": "1", "lastname": "a", "npi": "7"})
	before := w.rows("People", "")
	if n, err := c.Delete(t.Context(), by("eid", "1"), always); n != 1 || err != nil {
		t.Fatal(n, err)
	}
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

// TestNewestRowCounts repairs a record whose rows were all changed, each in another way.
func TestNewestRowCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{}, people, "lastname")
		c := w.catalog()
		w.insertAll(c, map[string]any{"eid": "1", "lastname": "a", "npi": "7", "ssn": "8"})
		c.Close()
		rows := w.rows("People", "")
		for _, i := range []int{0, 2, 1} {
			time.Sleep(time.Second)
			w.write("People", storage.Op{Kind: storage.Merge, Entity: storage.Entity{Key: rows[i].Key, Properties: []storage.Property{storage.StringProperty("note", rows[i].Key.Partition)}}})
		}
		w.repair(c)
		want := rec(t, `{"eid":"1","lastname":"a","npi":"7","ssn":"8","note":"`+rows[1].Key.Partition+`"}`)
		for _, q := range []catalog.Query{by("eid", "1"), by("npi", "7"), by("ssn", "8")} {
			w.wantFound(c, q, want)
		}
	})
}

// TestRepairKeepsWhatItCanNotDecide leaves a row too many that holds what its record does not.
func TestRepairKeepsWhatItCanNotDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{}, people, "lastname")
	c := w.catalog()
	w.insertAll(c, map[string]any{"eid": "1", "lastname": "a"}, map[string]any{"eid": "2", "lastname": "b", "npi": "7"})
	c.Close()
	w.published("3_npi8", "a:00000000", rec(t, `{"eid":"1","lastname":"a","note":"only here"}`))
	// And another program's row where a record's own should be.
	foreign := rec(t, `{"eid":"3","lastname":"b","npi":"7"}`)
	w.published("3_npi7", rowOf(t, w.schema, rec(t, `{"eid":"2","lastname":"b","npi":"7"}`)), foreign)
	kept := 0
	sum, err := c.Check(t.Context(), true, func(f catalog.Finding) {
		if !f.Repaired {
			kept++
		}
	})
	if err != nil || kept != 2 {
		t.Errorf("%d findings are left, %+v, %v", kept, sum, err)
	}
	for _, note := range []string{"3_npi8", "3_npi7"} {
		left := slices.DeleteFunc(w.rows("People", ""), func(e storage.Entity) bool { return e.Key.Partition != note })
		if note == "3_npi8" && (len(left) != 1 || left[0].Get("note") != "only here") {
			t.Errorf("%s holds %v", note, left)
		}
	}
}
