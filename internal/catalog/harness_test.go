package catalog_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/check"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// world is the storage of a catalog. Its methods start the processes that use the catalog.
type world struct {
	testing.TB
	emulator *emulator.Emulator
	account  *storage.Account // used by the test itself; never dies
	schema   index.Schema
	suffix   string // end of the tables' names
}

const people = "eid,npi,ssn:digits"

func newWorld(t testing.TB, o emulator.Options, indexKeys, rowKey string) *world {
	t.Helper()
	em := emulatortest.New(t, o)
	return &world{TB: t, emulator: em, account: emulatortest.Open(t, em, nil), schema: parsed(t, indexKeys, rowKey)}
}

func parsed(t testing.TB, indexKeys, rowKey string) index.Schema {
	t.Helper()
	s, err := index.Parse(indexKeys, rowKey)
	proof.Must(t, err)
	return s
}

// newCatalog returns a world, and its catalog in a process that does not die.
func newCatalog(t testing.TB, indexKeys, rowKey string) (*world, *catalog.Catalog) {
	t.Helper()
	w := newWorld(t, emulator.Options{}, indexKeys, rowKey)
	return w, w.catalog()
}

// inBubble runs a test with a new catalog, in virtual time.
func inBubble(t *testing.T, indexKeys, rowKey string, test func(t *testing.T, w *world, c *catalog.Catalog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, c := newCatalog(t, indexKeys, rowKey)
		test(t, w, c)
	})
}

// deaths runs a test several times, each time in a new bubble. The argument n of the test is the number of the request at which
// a process must die. The first run has the number first, and the number grows by apart from run to run. When the process does
// not die, deaths ends and returns the last number.
func deaths(t *testing.T, first, apart int, test func(t *testing.T, n int) (died bool)) int {
	t.Helper()
	for n := first; ; n += testsize.Apart(apart) {
		died := false
		synctest.Test(t, func(t *testing.T) { died = test(t, n) })
		if t.Failed() {
			t.Fatalf("the test failed with a death at request %d", n)
		}
		if !died {
			return n
		}
	}
}

func (w *world) openOn(a *storage.Account, now func() time.Time) *catalog.Catalog {
	return catalog.New(catalog.Options{Name: "people", Index: a.Table("People" + w.suffix), Log: a.Table("PeopleWAL" + w.suffix), Schema: w.schema, Now: now})
}

// catalog returns the catalog in a process that does not die. The catalog is ready to use.
func (w *world) catalog() *catalog.Catalog {
	w.Helper()
	c := w.openOn(w.account, nil)
	w.Cleanup(c.Close)
	w.prepare(c)
	return c
}

func (w *world) prepare(c *catalog.Catalog) {
	w.Helper()
	proof.Must(w, c.Prepare(w.Context()))
}

func (w *world) recover(c *catalog.Catalog) {
	w.Helper()
	if err := c.CompleteAll(w.Context()); err != nil {
		w.Error(err)
	}
}

// mortal returns the catalog in a process that dies at its n-th request, or never if n is 0. If `applied` is true, the storage
// carries out that request. The process never gets the answer.
func (w *world) mortal(n int, applied bool, now func() time.Time) (*catalog.Catalog, *emulatortest.Process) {
	w.Helper()
	p := &emulatortest.Process{Next: w.emulator.Transport()}
	p.DieWith(n, applied)
	c := w.openOn(emulatortest.Open(w, w.emulator, p), now)
	w.Cleanup(c.Close)
	return c, p
}

// requester is a function that serves as a transport.
type requester func(*http.Request) (*http.Response, error)

func (f requester) Do(r *http.Request) (*http.Response, error) { return f(r) }

// via returns the catalog in a process whose transport is the function do.
func (w *world) via(do func(*http.Request) (*http.Response, error)) *catalog.Catalog {
	w.Helper()
	c := w.openOn(emulatortest.Open(w, w.emulator, requester(do)), nil)
	w.Cleanup(c.Close)
	return c
}

// orphan lets a writer die after the commit of an insertion, before it writes the index rows.
func (w *world) orphan(text string) {
	w.Helper()
	victim, _ := w.mortal(2, true, nil) // the second request is the commit
	if _, err := victim.Insert(w.Context(), rec(w, text), ""); err == nil {
		w.Fatal("the writer did not die")
	}
	victim.Close()
}

func rec(t testing.TB, text string) record.Record {
	t.Helper()
	r, err := record.Parse([]byte(text))
	proof.Must(t, err)
	return r
}

// find returns the records that a query finds, as JSON.
func (w *world) find(c *catalog.Catalog, q catalog.Lookup) []string {
	w.Helper()
	var all []string
	for {
		r, err := c.Find(w.Context(), q)
		if err != nil {
			w.Fatalf("the query %v fails: %v", q, err)
		}
		for _, r := range slices.Collect(r.Records()) {
			all = append(all, string(r.AppendJSON(nil)))
		}
		if r.Cursor == "" {
			return all
		}
		q.Cursor = r.Cursor
	}
}

// changes returns the newest changes, as a list.
func changes(t testing.TB, c *catalog.Catalog, cursor string) (all []catalog.Change, next string, err error) {
	next, err = c.Changes(t.Context(), catalog.MaxTop, cursor, time.Time{}, func(one catalog.Change) bool {
		all = append(all, one)
		return true
	})
	return all, next, err
}

// changesAfter returns the changes after a position, as a list.
func changesAfter(t testing.TB, c *catalog.Catalog, after string, top int) (all []catalog.Change, next string, more bool, err error) {
	behind, err := c.ChangesAfter(t.Context(), after, top, func(one catalog.Change) { all = append(all, one) })
	return all, behind.After, behind.More, err
}

// wantOutcome returns a function that takes the result of a write, and fails the test if the result does not have this outcome.
func (w *world) wantOutcome(want catalog.Outcome) func(catalog.Written, error) {
	return func(done catalog.Written, err error) {
		w.Helper()
		if done.Outcome != want || err != nil {
			w.Errorf("the write returns %+v, error %v; want %s", done, err, want)
		}
	}
}

// delete deletes the records that the query finds. There must be want records.
func (w *world) delete(c *catalog.Catalog, q catalog.Lookup, want int) {
	w.Helper()
	if got, err := c.Delete(w.Context(), q, always, nil); got != (catalog.Deleted{Records: want}) || err != nil {
		w.Errorf("the deletion of %v returns %+v, error %v; want %d records", q, got, err, want)
	}
}

func by(key, value string) catalog.Lookup { return catalog.Lookup{Keys: map[string]string{key: value}} }

func (w *world) wantFound(c *catalog.Catalog, q catalog.Lookup, want ...record.Record) {
	w.Helper()
	var texts []string
	for _, r := range want {
		texts = append(texts, string(r.AppendJSON(nil)))
	}
	if got := w.find(c, q); !slices.Equal(got, texts) {
		w.Errorf("%v finds\n%v\nwant\n%v", q, got, texts)
	}
}

// check runs package check, and fails the test if it finds a problem.
func (w *world) check(c *catalog.Catalog) check.Result {
	w.Helper()
	sum, err := check.Run(w.Context(), c, false, func(f catalog.Finding) { w.Errorf("check finds %+v", f) })
	proof.Must(w, err)
	return sum
}

func (w *world) rows(table, prefix string) []storage.Entity {
	w.Helper()
	var rows []storage.Entity
	err := w.account.Table(table+w.suffix).All(w.Context(), storage.Query{}, func(p storage.Page) error {
		for _, e := range p.Entities() {
			if len(e.Key.Row) >= len(prefix) && e.Key.Row[:len(prefix)] == prefix {
				rows = append(rows, e)
			}
		}
		return nil
	})
	proof.Must(w, err)
	return rows
}

func wantKind(t testing.TB, err error, kinds ...problem.Kind) {
	t.Helper()
	if err == nil || !slices.Contains(kinds, problem.Of(err).Kind) {
		t.Errorf("the error is %v, want an error of the kinds %v", err, kinds)
	}
}

// always is the condition of writes without a condition.
var always catalog.Condition
