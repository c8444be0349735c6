package verify_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/action"
	"tablesweep/internal/emulator"
	"tablesweep/internal/emulator/emulatortest"
	"tablesweep/internal/key"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/verify"
)

func fill(t testing.TB, a *storage.Account, name string, rows []storage.Entity) *storage.Table {
	t.Helper()
	table := a.Table(name)
	if err := table.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := (action.Copy{Destination: table}).Copy(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	return table
}

func someRows(n int) []storage.Entity {
	rows := make([]storage.Entity, n)
	for i := range rows {
		rows[i] = storage.Entity{
			Key: key.Key{Partition: fmt.Sprintf("p%05d", i/10), Row: fmt.Sprintf("r%d", i%10)},
			Properties: []storage.Property{
				{Name: "D", Type: storage.Double, Value: jsontext.Value("3.0")},
				storage.StringProperty("S", "value"),
			},
		}
	}
	return rows
}

// with returns a row with the property changed.
func with(row storage.Entity, p storage.Property) storage.Entity {
	row.Properties = slices.Clone(row.Properties)
	row.Properties[slices.IndexFunc(row.Properties, func(q storage.Property) bool { return q.Name == p.Name })] = p
	return row
}

// TestFindsEachDifference compares tables of 100,000 rows that differ in one.
func TestFindsEachDifference(t *testing.T) {
	t.Parallel()
	const n, i = 100_000 / slowdown, 61_803 / slowdown
	rows := someRows(n)
	e, a := emulatortest.NewAccount(t, emulator.Options{})
	source, destination := fill(t, a, "source", rows), fill(t, a, "destination", rows)
	row := rows[i]
	extra := storage.Entity{Key: key.Key{Partition: row.Key.Partition, Row: row.Key.Row + "x"}}
	put := func(e storage.Entity) storage.Op { return storage.Op{Kind: storage.Replace, Entity: e} }
	remove := func(e storage.Entity) storage.Op { return storage.Op{Kind: storage.Delete, Entity: e} }
	for _, tt := range []struct {
		name         string
		change, undo storage.Op
		want         verify.Difference
	}{
		{"missing row", remove(row), put(row), verify.Difference{Kind: verify.Missing, Key: row.Key}},
		{"extra row", put(extra), remove(extra), verify.Difference{Kind: verify.Extra, Key: extra.Key}},
		{"changed value", put(with(row, storage.StringProperty("S", "valve"))), put(row),
			verify.Difference{Kind: verify.Different, Key: row.Key, Detail: `S is Edm.String "valve", want Edm.String "value"`}},
		{"Double turned Int32", put(with(row, storage.Property{Name: "D", Type: storage.Int32, Value: jsontext.Value("3")})), put(row),
			verify.Difference{Kind: verify.Different, Key: row.Key, Detail: "D is Edm.Int32 3, want Edm.Double 3.0"}},
	} {
		if err := destination.Write(t.Context(), tt.change); err != nil {
			t.Fatal(err)
		}
		e.ResetCounts()
		var got []verify.Difference
		r, err := verify.Tables(t.Context(),
			sweep.Spec{Table: source, Strategy: adaptive.Strategy{}}, sweep.Spec{Table: destination, Strategy: adaptive.Strategy{}}, verify.Options{},
			func(d verify.Difference) error {
				d.Source = storage.Entity{}
				got = append(got, d)
				return nil
			})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff([]verify.Difference{tt.want}, got); diff != "" || r.Rows != n || r.Missing+r.Extra+r.Different != 1 {
			t.Errorf("%s: %+v (-want +got)\n%s", tt.name, r, diff)
		}
		if q := e.Counts().Query; q > 300 {
			t.Errorf("%s: %d queries for 2 × 100 pages", tt.name, q)
		}
		if err := destination.Write(t.Context(), tt.undo); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTakesNoLongerThanACopy compares a copy with its source, 20 rows a partition, with
// 100 ms a request in virtual time: that takes at most 1.3 times what the copy took.
func TestTakesNoLongerThanACopy(t *testing.T) {
	t.Parallel()
	rows := someRows(20_000 / slowdown)
	for i := range rows {
		rows[i].Key = key.Key{Partition: fmt.Sprintf("p%05d", i/20), Row: fmt.Sprintf("r%02d", i%20)}
	}
	synctest.Test(t, func(t *testing.T) {
		_, a := emulatortest.NewAccount(t, emulator.Options{Latency: 100 * time.Millisecond})
		s := sweep.Spec{Table: fill(t, a, "source", rows), Segment: 100, Strategy: adaptive.Strategy{}}
		d := s
		d.Table = fill(t, a, "destination", nil)
		began := time.Now()
		if _, err := sweep.Do(t.Context(), s, sweep.Options{}, action.Copy{Destination: d.Table}); err != nil {
			t.Fatal(err)
		}
		copied := time.Since(began)
		r, err := verify.Tables(t.Context(), s, d, verify.Options{}, func(verify.Difference) error { return nil })
		if err != nil || !r.Same() || int(r.Rows) != len(rows) {
			t.Fatalf("%+v, %v", r, err)
		}
		compared := time.Since(began) - copied
		t.Logf("copy %v, verify %v", copied, compared)
		if compared.Seconds() > 1.3*copied.Seconds() {
			t.Errorf("verify takes %v, the copy took %v", compared, copied)
		}
	})
}

// TestAgainstTwin compares random tables, read in short and empty pages, with a
// comparison of maps.
func TestAgainstTwin(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { againstTwin(t, seed) })
		})
	}
}

func againstTwin(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	tables := [2]map[key.Key]int{{}, {}}
	for range r.IntN(300) {
		k := key.Key{Partition: string(rune('a' + r.IntN(6))), Row: fmt.Sprint(r.IntN(80))}
		for i := range tables {
			if r.IntN(5) > 0 {
				tables[i][k] = r.IntN(20) / 19
			}
		}
	}
	want := map[key.Key]verify.Kind{}
	for k, v := range tables[0] {
		if w, ok := tables[1][k]; !ok {
			want[k] = verify.Missing
		} else if v != w {
			want[k] = verify.Different
		}
	}
	for k := range tables[1] {
		if _, ok := tables[0][k]; !ok {
			want[k] = verify.Extra
		}
	}
	_, a := emulatortest.NewAccount(t, emulator.Options{Faults: fmt.Sprintf("seed=%d; latency=0s..20ms; short-page p=0.3; empty-page p=0.2; busy p=0.05", seed+1)})
	var scans [2]sweep.Spec
	for i, rows := range tables {
		var entities []storage.Entity
		for k, v := range rows {
			entities = append(entities, storage.Entity{Key: k, Properties: []storage.Property{storage.Int64Property("V", int64(v))}})
		}
		slices.SortFunc(entities, func(a, b storage.Entity) int { return a.Key.Compare(b.Key) })
		scans[i] = sweep.Spec{Table: fill(t, a, fmt.Sprintf("table%d", i), entities), Segment: 10, Strategy: adaptive.Strategy{}}
	}
	got := map[key.Key]verify.Kind{}
	var last *key.Key
	result, err := verify.Tables(t.Context(), scans[0], scans[1], verify.Options{}, func(d verify.Difference) error {
		if last != nil && last.Compare(d.Key) >= 0 {
			t.Errorf("%v comes after %v", d.Key, *last)
		}
		last = &d.Key
		got[d.Key] = d.Kind
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || int(result.Rows) != len(tables[0]) {
		t.Errorf("%+v (-want +got)\n%s", result, diff)
	}
}

func TestDepths(t *testing.T) {
	t.Parallel()
	row := func(properties ...storage.Property) []storage.Entity {
		return []storage.Entity{{Key: key.Key{Partition: "p"}, Properties: properties}}
	}
	v1, v2, w := storage.Int64Property("V", 1), storage.Int64Property("V", 2), storage.Int64Property("W", 1)
	for _, tt := range []struct {
		name                string
		source, destination []storage.Entity
		exact, contains     int64
	}{
		{"same", row(v1), row(v1), 0, 0},
		{"other order", row(v1, w), row(w, v1), 0, 0},
		{"more properties", row(v1), row(v1, w), 1, 0},
		{"fewer properties", row(v1, w), row(v1), 1, 1},
		{"other value", row(v1), row(v2), 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, a := emulatortest.NewAccount(t, emulator.Options{})
			source, destination := fill(t, a, "source", tt.source), fill(t, a, "destination", tt.destination)
			for depth, want := range map[verify.Depth]int64{verify.Exact: tt.exact, verify.Contains: tt.contains, verify.Keys: 0} {
				r, err := verify.Tables(t.Context(), sweep.Spec{Table: source}, sweep.Spec{Table: destination}, verify.Options{Depth: depth},
					func(verify.Difference) error { return nil })
				if err != nil || r.Different != want {
					t.Errorf("depth %d: %d different, want %d; %v", depth, r.Different, want, err)
				}
			}
		})
	}
}

// TestErrorsAreNoDifferences makes one table fail half-way: what is not read must
// not count as missing.
func TestErrorsAreNoDifferences(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, a := emulatortest.NewAccount(t, emulator.Options{Latency: time.Millisecond})
		source := fill(t, a, "source", someRows(100))
		r, err := verify.Tables(t.Context(), sweep.Spec{Table: source}, sweep.Spec{Table: a.Table("nothere")}, verify.Options{},
			func(d verify.Difference) error { t.Errorf("%+v", d); return nil })
		if !storage.NotFound(err) || !r.Same() {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
