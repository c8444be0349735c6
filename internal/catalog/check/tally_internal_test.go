package check

import (
	"testing"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// The tally names the records whose rows differ from their heads, whatever the order of reading,
// and no others.
func TestTally(t *testing.T) {
	t.Parallel()
	schema, err := index.Parse("eid,npi", "lastname")
	if err != nil {
		t.Fatal(err)
	}
	c := catalog.New(catalog.Options{Schema: schema})
	parse := func(text string) record.Record {
		t.Helper()
		r, err := record.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	good, bad := parse(`{"eid":"1","npi":"7","lastname":"Ash"}`), parse(`{"eid":"2","npi":"8","lastname":"Birch"}`)
	write := func(r record.Record, version int64) (w wal.Write, rows []storage.Entity) {
		t.Helper()
		id, err := c.Identify(r)
		if err != nil {
			t.Fatal(err)
		}
		w = store.WriteFor(id)
		w.Version = version
		for _, p := range w.Partitions {
			rows = append(rows, store.IndexRow(w, p, r))
		}
		return w, rows
	}
	w, whole := write(good, 5)
	v, two := write(bad, 5)
	_, older := write(bad, 4)
	removed := v
	removed.Gone = true
	elsewhere := two[1]
	elsewhere.Key.Partition = "3_npi9"
	for name, tt := range map[string]struct {
		rows    []storage.Entity
		head    *wal.Write
		suspect bool
	}{
		"as it is":        {two, &v, false},
		"a missing row":   {two[:1], &v, true},
		"an older row":    {[]storage.Entity{two[0], older[1]}, &v, true},
		"no head":         {two, nil, true},
		"no rows":         {nil, &v, true},
		"a row elsewhere": {[]storage.Entity{two[0], elsewhere}, &v, true},
		"a tombstone":     {[]storage.Entity{store.IndexRow(removed, v.Partitions[0], bad)}, &removed, false},
		"one left behind": {[]storage.Entity{store.IndexRow(removed, v.Partitions[0], bad)}, nil, true},
	} {
		tl := newTally()
		tl.head(&store.Head{Head: wal.Head{Write: w, Content: good.Hash()}})
		for _, row := range append(whole[:len(whole):len(whole)], tt.rows...) {
			if err := tl.row(c, row); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if tt.head != nil {
			content := bad.Hash()
			if tt.head.Gone {
				content = ""
			}
			tl.head(&store.Head{Head: wal.Head{Write: *tt.head, Content: content}})
		}
		suspect := tl.close()
		if got := suspect != nil && suspect(v.Identity); got != tt.suspect {
			t.Errorf("%s: suspect %v, want %v", name, got, tt.suspect)
		}
		if suspect != nil && suspect(w.Identity) {
			t.Errorf("%s: the other record is suspect", name)
		}
	}
}
