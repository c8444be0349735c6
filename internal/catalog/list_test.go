package catalog_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tablesweep/internal/catalog"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/record"
)

// list returns all pages of a list, as JSON.
func (w *world) list(c *catalog.Catalog, q catalog.Lookup) []string {
	w.Helper()
	var all []string
	for {
		r, err := c.List(w.Context(), q)
		proof.Must(w, err)
		if len(slices.Collect(r.Records())) != len(r.Meta) || len(slices.Collect(r.Records())) > q.Top {
			w.Fatalf("a page has %d records and %d elements of Meta; at most %d are expected", len(slices.Collect(r.Records())), len(r.Meta), q.Top)
		}
		for _, r := range slices.Collect(r.Records()) {
			all = append(all, string(r.AppendJSON(nil)))
		}
		if q.Cursor = r.Cursor; q.Cursor == "" {
			return all
		}
	}
}

// TestListAndOr lists records in pages of several sizes, and queries for records with any of several values. Each record must
// be returned once. The results are compared with a list in memory.
func TestListAndOr(t *testing.T) {
	t.Parallel()
	w, c := newCatalog(t, "eid,npi", "lastname")
	random := rand.New(rand.NewPCG(1, 2))
	byNPI := map[string][]string{}
	var want []string
	for i := range 60 {
		npi := fmt.Sprint(random.IntN(5))
		eid := []string{"", "/", "~", "é"}[i%4] + fmt.Sprint(i/2) // some values are escaped, and some belong to several records
		r := rec(t, fmt.Sprintf(`{"eid":%q,"lastname":"%c%02d","npi":%q}`, eid, 'a'+rune(i%3), i, npi))
		w.wantOutcome(catalog.Created)(c.Insert(t.Context(), r, ""))
		text := string(r.AppendJSON(nil))
		if i%10 == 9 {
			w.delete(c, catalog.Lookup{Keys: map[string]string{"eid": eid}, RowFrom: fmt.Sprintf("%c%02d", 'a'+i%3, i)}, 1)
			continue
		}
		want, byNPI[npi] = append(want, text), append(byNPI[npi], text)
	}
	slices.Sort(want)
	each := func(q catalog.Lookup) (all []string) {
		t.Helper()
		err := c.Each(t.Context(), q, func(r record.Record) error {
			all = append(all, string(r.AppendJSON(nil)))
			return nil
		})
		proof.Must(t, err)
		slices.Sort(all)
		return all
	}
	if got := each(catalog.Lookup{}); !slices.Equal(got, want) {
		t.Errorf("Each returns %d records, want %d", len(got), len(want))
	}
	if got, want := each(by("npi", "1")), slices.Sorted(slices.Values(byNPI["1"])); !slices.Equal(got, want) {
		t.Errorf("Each with one npi returns %q, want %q", got, want)
	}
	for _, top := range []int{1, 2, 7, 54, 1000} {
		before := w.emulator.Counts().Query
		got := w.list(c, catalog.Lookup{Top: top})
		if n := w.emulator.Counts().Query - before; top == 1000 && n != 2 { // one query for each prefix of keys
			t.Errorf("a list of one page takes %d queries, want 2", n)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("top %d: the list has %d records, want %d", top, len(got), len(want))
		}
		got = w.find(c, catalog.Lookup{Keys: map[string]string{"npi": "1"}, Or: map[string][]string{"npi": {"3", "1", "none"}}, Top: top})
		slices.Sort(got)
		both := slices.Concat(byNPI["1"], byNPI["3"])
		slices.Sort(both)
		if !slices.Equal(got, both) {
			t.Errorf("top %d: npi 1 or 3 finds %d records, want %d", top, len(got), len(both))
		}
	}
	if got := w.list(c, catalog.Lookup{Top: 5, RowFrom: "b", RowTo: "b"}); len(got) != 18 {
		t.Errorf("a query for sort values that start with b finds %d records", len(got))
	}
	if n, err := c.Count(t.Context(), catalog.Lookup{}); n.Count != len(want) || err != nil {
		t.Errorf("Count returns %+v, error %v", n, err)
	}
	if n, err := c.Count(t.Context(), catalog.Lookup{Keys: map[string]string{"npi": "1"}, Or: map[string][]string{"npi": {"3"}}}); n.Count != len(byNPI["1"])+len(byNPI["3"]) || err != nil {
		t.Errorf("Count returns %+v, error %v", n, err)
	}
	_, err := c.List(t.Context(), catalog.Lookup{Cursor: "x"})
	wantKind(t, err, problem.Invalid)
}
