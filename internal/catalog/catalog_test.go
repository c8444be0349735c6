package catalog_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

const faux = `{"eid":"F314","lastname":"Faux","npi":1414213562,"ssn":"123-45-6789","wage":41.5,"active":true}`

func TestInsertAndFind(t *testing.T) {
	t.Parallel()
	insertAndFind(t, newWorld(t, emulator.Options{}, people, "lastname"))
}

// TestOnAzurite writes, moves and deletes records on Azurite, if Azurite is available.
func TestOnAzurite(t *testing.T) {
	t.Parallel()
	t.Run("text", func(t *testing.T) { t.Parallel(); insertAndFind(t, onAzurite(t, people, "lastname")) })
	t.Run("published records", func(t *testing.T) { t.Parallel(); takeOverRecords(t, onAzurite(t, "eid,npi,ssn", "lastname")) })
	t.Run("published records that collide", func(t *testing.T) { t.Parallel(); takeOverAll(t, onAzurite(t, "eid,npi", "lastname")) })
	for _, sort := range []string{"wage", "wage:number", "wage:number:desc"} {
		t.Run(sort, func(t *testing.T) { t.Parallel(); livesByNumbers(t, onAzurite(t, "eid,score", sort)) })
	}
}

// onAzurite returns a world with empty tables on Azurite.
func onAzurite(t *testing.T, keys, sort string) *world {
	t.Helper()
	const variable = "TABLESWEEP_AZURITE"
	text := os.Getenv(variable)
	if text == "" {
		t.Skipf("the variable %s is not set; set it to a connection string of Azurite", variable)
	}
	connection, err := storage.ParseConnection(text)
	proof.Must(t, err)
	account, err := storage.Open(connection, storage.Options{})
	proof.Must(t, err)
	return &world{TB: t, account: account, schema: parsed(t, keys, sort), suffix: rand.Text()}
}

// TestNumbersAsKeys writes records whose keys are numbers. The service changes the spelling of these numbers.
func TestNumbersAsKeys(t *testing.T) {
	t.Parallel()
	for _, sort := range []string{"wage", "wage:number", "wage:number:desc"} {
		t.Run(sort, func(t *testing.T) {
			t.Parallel()
			livesByNumbers(t, newWorld(t, emulator.Options{}, "eid,score", sort))
		})
	}
}

func livesByNumbers(t *testing.T, w *world) {
	c := w.catalog()
	numbers := []string{"-1e21", "-3.10", "0.0", "5e-324", "1.50e-7", "3.10", "9.50", "1e3", "9007199254740993", "1e21", "1.7976931348623157e308"}
	for _, n := range numbers {
		r := rec(t, `{"eid":"all","score":`+n+`,"wage":`+n+`}`)
		if done, err := c.Insert(t.Context(), r, ""); err != nil || done.Outcome != catalog.Created {
			t.Fatalf("the insertion of %s returns %v, %v", n, done, err)
		}
		w.wantOutcome(catalog.Unchanged)(c.Insert(t.Context(), r, ""))
		f, err := strconv.ParseFloat(n, 64)
		proof.Must(t, err)
		spelling := strconv.FormatFloat(f, 'e', -1, 64)
		if n == "9007199254740993" {
			spelling = n
		}
		for _, value := range []string{n, spelling} {
			found, err := c.Find(t.Context(), by("score", value))
			if err != nil || len(slices.Collect(found.Records())) != 1 {
				t.Errorf("a query for the score %s finds %v, error %v", value, slices.Collect(found.Records()), err)
			}
		}
		raised := fmt.Sprintf(`{"note":%q}`, n)
		w.wantOutcome(catalog.Replaced)(c.Patch(t.Context(), []byte(raised), by("score", spelling), always))
	}
	c.Close()
	if sum := w.check(c); sum.Records != len(numbers) || sum.Rows != 2*len(numbers) {
		t.Errorf("check returns %+v, want no problems", sum)
	}
	found, err := c.Find(t.Context(), by("eid", "all"))
	proof.Must(t, err)
	var order []string
	for _, r := range slices.Collect(found.Records()) {
		n, _ := r.Get("note")
		order = append(order, n)
	}
	want := slices.Clone(numbers)
	if w.schema.Sort.Order == index.Descending {
		slices.Reverse(want)
	}
	if w.schema.Sort.Order != index.Text && !slices.Equal(order, want) {
		t.Errorf("the records have the order %v, want %v", order, want)
	}
	if w.schema.Sort.Order != index.Text {
		few, err := c.Find(t.Context(), catalog.Lookup{Keys: map[string]string{"eid": "all"}, RowFrom: "3.1", RowTo: "1000.0"})
		if err != nil || len(slices.Collect(few.Records())) != 3 {
			t.Errorf("a query from 3.1 to 1000 finds %v, error %v", slices.Collect(few.Records()), err)
		}
	}
	for _, n := range numbers {
		w.delete(c, by("score", n), 1)
	}
	w.wantFound(c, by("eid", "all"))
	c.Close()
	w.check(c)
}

func insertAndFind(t *testing.T, w *world) {
	c := w.catalog()
	r := rec(t, faux)
	done, err := c.Insert(t.Context(), r, "")
	if err != nil || done.Outcome != catalog.Created {
		t.Fatal(done, err)
	}
	for _, q := range []catalog.Lookup{by("eid", "f314"), by("EID", "F314"), by("npi", "1414213562"), by("ssn", "123456789"), by("ssn", "123 45 6789")} {
		w.wantFound(c, q, r)
	}
	w.wantFound(c, by("eid", "f3"))
	if done, err = c.Insert(t.Context(), r, ""); done.Outcome != catalog.Unchanged || err != nil {
		t.Errorf("the repeated insertion returns %v, %v", done, err)
	}
	_, err = c.Insert(t.Context(), rec(t, `{"eid":"F314","lastname":"FAUX","npi":1414213562,"ssn":"123-45-6789","wage":42.50}`), "")
	wantKind(t, err, problem.Conflict)
	w.wantFound(c, by("eid", "f314"), r)
	w.check(c)
	w.delete(c, by("ssn", "123-45-6789"), 1)
	w.wantFound(c, by("eid", "f314"))
	w.wantFound(c, by("ssn", "123456789"))
	if done, err = c.Insert(t.Context(), r, ""); done.Outcome != catalog.Created || err != nil {
		t.Errorf("the insertion after the deletion returns %v, %v", done, err)
	}
	w.wantFound(c, by("npi", "1414213562"), r)
	slash := rec(t, `{"eid":"a'b/c%d","lastname":"O'Neil/x","npi":1}`)
	w.wantOutcome(catalog.Created)(c.Insert(t.Context(), slash, ""))
	w.wantFound(c, by("eid", "A'B/c%D"), slash)
	smith := rec(t, `{"eid":"F314","lastname":"Smith","ssn":"123-45-6789"}`)
	w.wantOutcome(catalog.Replaced)(c.Replace(t.Context(), smith, by("eid", "F314"), always))
	w.wantFound(c, by("ssn", "123456789"), smith)
	w.wantFound(c, by("npi", "1414213562"))
	c.Close()
	changes, _, err := changes(t, c, "")
	if err != nil || len(changes) != 5 || !record.Equal(changes[0].Record, smith) {
		t.Errorf("the changes are %v, error %v", changes, err)
	}
	w.wantOutcome(catalog.Replaced)(c.Patch(t.Context(), []byte(`{"wage":1}`), by("eid", "F314"), always)) // after a move
	w.check(c)
	if err := c.Maintain(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestReplace moves index rows whose keys change.
func TestReplace(t *testing.T) {
	t.Parallel()
	w, c := newCatalog(t, "eid,email", "lastname")
	old := rec(t, `{"eid":"1","email":"a@x","lastname":"Faux"}`)
	w.wantOutcome(catalog.Created)(c.Insert(t.Context(), old, ""))
	tests := []struct{ name, record string }{
		{"contents", `{"eid":"1","email":"a@x","lastname":"faux","wage":2}`},
		{"an index value", `{"eid":"1","email":"b@x","lastname":"Faux"}`},
		{"the sort value", `{"eid":"1","email":"b@x","lastname":"Smith"}`},
		{"an index value is removed", `{"eid":"1","lastname":"Smith"}`},
		{"the index value is added again", `{"eid":"1","email":"a@x","lastname":"Faux"}`},
	}
	for _, tt := range tests {
		r := rec(t, tt.record)
		if done, err := c.Replace(t.Context(), r, by("eid", "1"), always); err != nil || done.Outcome != catalog.Replaced {
			t.Fatalf("%s: Replace returns %v, %v", tt.name, done, err)
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
	_, err := c.Replace(t.Context(), rec(t, `{"eid":"2","lastname":"Faux"}`), by("eid", "2"), always)
	wantKind(t, err, problem.NotFound)
	q := by("email", "a@x")
	_, err = c.Replace(t.Context(), rec(t, `{"eid":"2","lastname":"Faux"}`), q, always)
	wantKind(t, err, problem.Invalid)
	second := rec(t, `{"eid":"1","email":"c@x","lastname":"Faux"}`)
	w.wantOutcome(catalog.Created)(c.Insert(t.Context(), second, ""))
	third := rec(t, `{"eid":"1","email":"d@x","lastname":"Faux"}`)
	_, err = c.Replace(t.Context(), third, by("eid", "1"), always)
	wantKind(t, err, problem.Conflict)
	_, err = c.Replace(t.Context(), second, q, always)
	wantKind(t, err, problem.Conflict)
	w.wantOutcome(catalog.Replaced)(c.Replace(t.Context(), third, q, always))
	w.wantFound(c, by("email", "a@x"))
	w.wantFound(c, by("email", "c@x"), second)
	w.wantFound(c, by("email", "d@x"), third)
	// The same request is sent again, as after a lost answer.
	w.wantOutcome(catalog.Unchanged)(c.Replace(t.Context(), third, q, always))
	// A repeated request counts as a retry only if its selector finds the record's former place.
	for _, unmatched := range []catalog.Lookup{by("eid", "unmatched"), {Keys: map[string]string{"eid": "1"}, RowFrom: "zzz"}} {
		_, err = c.Replace(t.Context(), third, unmatched, always)
		wantKind(t, err, problem.NotFound)
	}
	w.check(c)
}

// TestCopiedTablesWork copies the two tables of a catalog to tables with other names. The catalog works with the copies, so it can
// be restored from a backup.
func TestCopiedTablesWork(t *testing.T) {
	t.Parallel()
	w, c := newCatalog(t, people, "lastname")
	smith, jones := rec(t, `{"eid":"F1","npi":"1","lastname":"Smith"}`), rec(t, `{"eid":"F2","lastname":"Jones"}`)
	for _, r := range []record.Record{smith, jones} {
		w.wantOutcome(catalog.Created)(c.Insert(t.Context(), r, ""))
	}
	c.Close() // otherwise the copy may contain a pending entry, which Maintain leaves to the entry's writer
	for _, table := range []string{"People", "PeopleWAL"} {
		emulatortest.Table(t, w.account, table+"2", w.rows(table, ""))
	}
	w.delete(c, by("eid", "F1"), 1)
	w.suffix = "2"
	restored := w.catalog()
	w.wantFound(restored, by("npi", "1"), smith)
	w.wantOutcome(catalog.Replaced)(restored.Replace(t.Context(), rec(t, `{"eid":"F2","npi":"2","lastname":"Jones"}`), by("eid", "F2"), always))
	w.wantFound(restored, by("npi", "2"), rec(t, `{"eid":"F2","npi":"2","lastname":"Jones"}`))
	restored.Close() // otherwise Maintain leaves the entry to the entry's writer
	restored = w.catalog()
	w.maintain(restored)
	w.check(restored)
}

// maintain runs Maintain while no other process works, and checks that the log then has no pending entries.
func (w *world) maintain(c *catalog.Catalog) {
	w.Helper()
	if err := c.Maintain(w.Context()); err != nil {
		w.Errorf("Maintain fails: %v", err)
	}
	if left := w.rows("PeopleWAL", "e|"); len(left) > 0 {
		w.Errorf("after Maintain, the log has pending entries: %v", left)
	}
}
