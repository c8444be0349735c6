package catalog_test

import (
	"crypto/rand"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

const faux = `{"eid":"F314","lastname":"Faux","npi":1414213562,"ssn":"123-45-6789","wage":41.5,"active":true}`

func TestInsertAndFind(t *testing.T) {
	t.Parallel()
	insertAndFind(t, newWorld(t, emulator.Options{}, people, "lastname"))
}

// TestOnAzurite runs the life of a record on Azurite, if there is one.
func TestOnAzurite(t *testing.T) {
	t.Parallel()
	const variable = "TABLESWEEP_AZURITE"
	text := os.Getenv(variable)
	if text == "" {
		t.Skipf("set %s to a connection string", variable)
	}
	connection, err := storage.ParseConnection(text)
	if err != nil {
		t.Fatal(err)
	}
	account, err := storage.Open(connection, storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	schema, err := index.Parse(people, "lastname")
	if err != nil {
		t.Fatal(err)
	}
	insertAndFind(t, &world{TB: t, account: account, schema: schema, suffix: rand.Text()})
}

func insertAndFind(t *testing.T, w *world) {
	c := w.catalog()
	r := rec(t, faux)
	created, err := c.Insert(t.Context(), r, "")
	if err != nil || !created {
		t.Fatal(created, err)
	}
	for _, q := range []catalog.Query{by("eid", "f314"), by("EID", "F314"), by("npi", "1414213562"), by("ssn", "123456789"), by("ssn", "123 45 6789")} {
		w.wantFound(c, q, r)
	}
	w.wantFound(c, by("eid", "f3"))
	if created, err = c.Insert(t.Context(), r, ""); created || err != nil {
		t.Errorf("inserted again: %v, %v", created, err)
	}
	_, err = c.Insert(t.Context(), rec(t, `{"eid":"F314","lastname":"FAUX","npi":1414213562,"ssn":"123-45-6789","wage":42.50}`), "")
	wantKind(t, err, problem.Conflict)
	w.wantFound(c, by("eid", "f314"), r)
	w.check(c)
	if n, err := c.Delete(t.Context(), by("ssn", "123-45-6789")); n != 1 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	w.wantFound(c, by("eid", "f314"))
	w.wantFound(c, by("ssn", "123456789"))
	if created, err = c.Insert(t.Context(), r, ""); !created || err != nil {
		t.Errorf("inserted after deletion: %v, %v", created, err)
	}
	w.wantFound(c, by("npi", "1414213562"), r)
	slash := rec(t, `{"eid":"a'b/c%d","lastname":"O'Neil/x","npi":1}`)
	if _, err := c.Insert(t.Context(), slash, ""); err != nil {
		t.Error(err)
	}
	w.wantFound(c, by("eid", "A'B/c%D"), slash)
	smith := rec(t, `{"eid":"F314","lastname":"Smith","ssn":"123-45-6789"}`)
	if changed, err := c.Replace(t.Context(), smith, nil); err != nil || !changed {
		t.Error(changed, err)
	}
	w.wantFound(c, by("ssn", "123456789"), smith)
	w.wantFound(c, by("npi", "1414213562"))
	c.Close()
	changes, _, err := c.Changes(t.Context(), 10, "")
	if err != nil || len(changes) != 5 || !record.Equal(changes[0].Record, smith) {
		t.Errorf("changes %v, %v", changes, err)
	}
	w.check(c)
	if err := c.Maintain(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestReplace moves index rows whose keys change.
func TestReplace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{}, "eid,email", "lastname")
	c := w.catalog()
	old := rec(t, `{"eid":"1","email":"a@x","lastname":"Faux"}`)
	if _, err := c.Insert(t.Context(), old, ""); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, record string }{
		{"contents", `{"eid":"1","email":"a@x","lastname":"faux","wage":2}`},
		{"an index value", `{"eid":"1","email":"b@x","lastname":"Faux"}`},
		{"the sort value", `{"eid":"1","email":"b@x","lastname":"Smith"}`},
		{"an index value goes", `{"eid":"1","lastname":"Smith"}`},
		{"and comes back", `{"eid":"1","email":"a@x","lastname":"Faux"}`},
	}
	for _, tt := range tests {
		r := rec(t, tt.record)
		if changed, err := c.Replace(t.Context(), r, nil); err != nil || !changed {
			t.Fatalf("%s: %v, %v", tt.name, changed, err)
		}
		w.wantFound(c, by("eid", "1"), r)
		for _, email := range []string{"a@x", "b@x"} {
			if v, _ := r.Get("email"); v == email {
				w.wantFound(c, by("email", email), r)
			} else {
				w.wantFound(c, by("email", email))
			}
		}
	}
	_, err := c.Replace(t.Context(), rec(t, `{"eid":"2","lastname":"Faux"}`), nil)
	wantKind(t, err, problem.NotFound)
	q := by("email", "a@x")
	_, err = c.Replace(t.Context(), rec(t, `{"eid":"2","lastname":"Faux"}`), &q)
	wantKind(t, err, problem.Invalid)
	second := rec(t, `{"eid":"1","email":"c@x","lastname":"Faux"}`)
	if _, err := c.Insert(t.Context(), second, ""); err != nil {
		t.Fatal(err)
	}
	third := rec(t, `{"eid":"1","email":"d@x","lastname":"Faux"}`)
	_, err = c.Replace(t.Context(), third, nil)
	wantKind(t, err, problem.Conflict)
	_, err = c.Replace(t.Context(), second, &q)
	wantKind(t, err, problem.Conflict)
	if changed, err := c.Replace(t.Context(), third, &q); err != nil || !changed {
		t.Errorf("replace by selector: %v, %v", changed, err)
	}
	w.wantFound(c, by("email", "a@x"))
	w.wantFound(c, by("email", "c@x"), second)
	w.wantFound(c, by("email", "d@x"), third)
	w.check(c)
}

// TestIdempotencyKey repeats insertions whose answer was lost.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{}, people, "lastname")
		c := w.catalog()
		r := rec(t, faux)
		insert := func(want bool) {
			t.Helper()
			if created, err := c.Insert(t.Context(), r, "key-1"); created != want || err != nil {
				t.Errorf("inserted %v, %v", created, err)
			}
		}
		insert(true)
		insert(true)
		if n, err := c.Delete(t.Context(), by("eid", "F314")); n != 1 || err != nil {
			t.Errorf("deleted %d, %v", n, err)
		}
		insert(true)
		w.wantFound(c, by("eid", "F314"))
		_, err := c.Insert(t.Context(), rec(t, `{"eid":"F314","lastname":"Smith"}`), "key-1")
		wantKind(t, err, problem.Conflict)

		time.Sleep(25 * time.Hour)
		w.maintain(c)
		insert(true)
		w.wantFound(c, by("eid", "F314"), r)
		w.check(c)
	})
}

// maintain runs Maintain, and checks what must hold when nobody else is at work.
func (w *world) maintain(c *catalog.Catalog) {
	w.Helper()
	if err := c.Maintain(w.Context()); err != nil {
		w.Errorf("Maintain: %v", err)
	}
	if left := w.rows("PeopleWAL", "e|"); len(left) > 0 {
		w.Errorf("entries left in the log: %v", left)
	}
}

// TestNothingStays checks that deleted records leave nothing behind but changes.
func TestNothingStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{}, people, "lastname")
		c := w.catalog()
		if _, err := c.Insert(t.Context(), rec(t, faux), "once"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Replace(t.Context(), rec(t, `{"eid":"F314","lastname":"Smith"}`), nil); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Delete(t.Context(), by("eid", "F314")); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		c.Close()
		if n := len(w.rows("People", "")); n != 4 {
			t.Errorf("%d rows say that the record is gone, want 4", n)
		}
		time.Sleep(25 * time.Hour)
		w.maintain(c)
		if left := w.rows("People", ""); len(left) > 0 {
			t.Errorf("left in the index: %v", left)
		}
		for _, prefix := range []string{"h|", "i|", "t|"} {
			if left := w.rows("PeopleWAL", prefix); len(left) > 0 {
				t.Errorf("left in the log: %v", left)
			}
		}
		if n := len(w.rows("PeopleWAL", "c|")); n != 3 {
			t.Errorf("%d changes, want 3", n)
		}
	})
}
