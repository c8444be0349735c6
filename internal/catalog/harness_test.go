package catalog_test

import (
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// world is a catalog's storage, and the processes that use it.
type world struct {
	testing.TB
	emulator *emulator.Emulator
	account  *storage.Account // of the test, which never dies
	schema   index.Schema
	suffix   string // of the tables' names
}

// process is the transport of one process. It can die.
type process struct {
	next policy.Transporter
	left atomic.Int64 // requests until it dies; negative for never
	dead atomic.Bool
	// applied says whether the last request is carried out before it dies.
	applied bool
}

var errDead = errors.New("the process is dead")

func (p *process) Do(r *http.Request) (*http.Response, error) {
	if p.dead.Load() {
		return nil, errDead
	}
	if p.left.Load() >= 0 && p.left.Add(-1) < 0 {
		p.dead.Store(true)
		if p.applied {
			if resp, err := p.next.Do(r); err == nil {
				resp.Body.Close()
			}
		}
		return nil, errDead
	}
	return p.next.Do(r)
}

const people = "eid,npi,ssn:digits"

func newWorld(t testing.TB, o emulator.Options, indexKeys, rowKey string) *world {
	t.Helper()
	em, err := emulator.New(o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := index.Parse(indexKeys, rowKey)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, emulator: em, schema: s}
	w.account = w.open(em.Transport())
	return w
}

func (w *world) open(transport policy.Transporter) *storage.Account {
	w.Helper()
	c, err := storage.ParseConnection(w.emulator.ConnectionString())
	if err != nil {
		w.Fatal(err)
	}
	a, err := storage.Open(c, storage.Options{Transport: transport})
	if err != nil {
		w.Fatal(err)
	}
	return a
}

func (w *world) on(a *storage.Account, now func() time.Time) *catalog.Catalog {
	return catalog.New(catalog.Options{Name: "people", Index: a.Table("People" + w.suffix), Log: a.Table("PeopleWAL" + w.suffix), Schema: w.schema, Now: now})
}

// catalog returns the catalog in a process that lives, ready to use.
func (w *world) catalog() *catalog.Catalog {
	w.Helper()
	c := w.on(w.account, nil)
	w.Cleanup(c.Close)
	if err := c.Prepare(w.Context()); err != nil {
		w.Fatal(err)
	}
	return c
}

// mortal returns the catalog in a process that dies with its n-th request, which is
// carried out or not, nobody seeing the answer. n 0 means never.
func (w *world) mortal(n int, applied bool, now func() time.Time) (*catalog.Catalog, *process) {
	w.Helper()
	p := &process{next: w.emulator.Transport(), applied: applied}
	p.left.Store(int64(n - 1))
	c := w.on(w.open(p), now)
	w.Cleanup(c.Close)
	return c, p
}

func rec(t testing.TB, text string) record.Record {
	t.Helper()
	r, err := record.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// find returns the records of an index value as JSON.
func (w *world) find(c *catalog.Catalog, q catalog.Query) []string {
	w.Helper()
	var all []string
	for {
		r, err := c.Find(w.Context(), q)
		if err != nil {
			w.Fatalf("find %v: %v", q, err)
		}
		for _, r := range r.Records {
			all = append(all, string(r.AppendJSON(nil)))
		}
		if r.Cursor == "" {
			return all
		}
		q.Cursor = r.Cursor
	}
}

func by(key, value string) catalog.Query { return catalog.Query{Keys: map[string]string{key: value}} }

func (w *world) wantFound(c *catalog.Catalog, q catalog.Query, want ...record.Record) {
	w.Helper()
	var texts []string
	for _, r := range want {
		texts = append(texts, string(r.AppendJSON(nil)))
	}
	if got := w.find(c, q); !slices.Equal(got, texts) {
		w.Errorf("%v finds\n%v\nwant\n%v", q, got, texts)
	}
}

// check runs the catalog's own check, and fails the test if anything is wrong.
func (w *world) check(c *catalog.Catalog) catalog.Checked {
	w.Helper()
	sum, err := c.Check(w.Context(), false, func(f catalog.Finding) { w.Errorf("check: %+v", f) })
	if err != nil {
		w.Fatal(err)
	}
	return sum
}

func (w *world) rows(table, prefix string) []storage.Entity {
	w.Helper()
	var rows []storage.Entity
	err := w.account.Table(table).All(w.Context(), storage.Query{}, func(p storage.Page) error {
		for _, e := range p.Entities {
			if len(e.Key.Row) >= len(prefix) && e.Key.Row[:len(prefix)] == prefix {
				rows = append(rows, e)
			}
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return rows
}

func wantKind(t testing.TB, err error, kind problem.Kind) {
	t.Helper()
	if err == nil || problem.Of(err).Kind != kind {
		t.Errorf("error %v, want one of kind %d", err, kind)
	}
}
