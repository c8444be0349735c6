package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// slowdown is the divisor of the number of rows in tests.
var slowdown = testsize.Slow(10, 4, 1)

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

// withProperty returns a copy of a row with the property changed.
func withProperty(row storage.Entity, p storage.Property) storage.Entity {
	row.Properties = slices.Clone(row.Properties)
	row.Properties[slices.IndexFunc(row.Properties, func(q storage.Property) bool { return q.Name == p.Name })] = p
	return row
}

// TestCompareFindsEachDifference compares tables of 100,000 rows. Four rows differ, each in another way. The sweep starts with 24 concurrent queries, so
// many thieves find no rows in a table of this size. Compared with a start of 8 queries, this takes half the time and 1.5 times the queries.
func TestCompareFindsEachDifference(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	n := 100_000 / slowdown
	rows := someRows(n)
	missing, added, changed, retyped := rows[n/9], rows[n/3], rows[n/2], rows[n*61/100]
	extra := storage.Entity{Key: key.Key{Partition: added.Key.Partition, Row: added.Key.Row + "x"}}
	want := []sweep.Difference{
		{Kind: sweep.Missing, Key: missing.Key},
		{Kind: sweep.Extra, Key: extra.Key},
		{Kind: sweep.Different, Key: changed.Key, Detail: `S is Edm.String "valve", but the source has Edm.String "value"`},
		{Kind: sweep.Different, Key: retyped.Key, Detail: "D is Edm.Int32 3, but the source has Edm.Double 3.0"},
	}
	synctest.Test(t, func(t *testing.T) {
		e, a := emulatortest.NewAccount(t, emulator.Options{Latency: 10 * time.Millisecond})
		source, destination := emulatortest.Table(t, a, "source", rows), emulatortest.Table(t, a, "destination", rows)
		for _, op := range []storage.Op{
			{Kind: storage.Delete, Row: missing.Row()},
			{Kind: storage.Insert, Row: extra.Row()},
			{Kind: storage.Replace, Row: withProperty(changed, storage.StringProperty("S", "valve")).Row()},
			{Kind: storage.Replace, Row: withProperty(retyped, storage.Property{Name: "D", Type: storage.Int32, Value: jsontext.Value("3")}).Row()},
		} {
			proof.Must(t, destination.Write(t.Context(), op))
		}
		e.ResetCounts()
		r, err := verify.Compare(t.Context(), sweep.Spec{Source: source, Steal: true}, destination, verify.Options{})
		proof.Must(t, err)
		if diff := cmp.Diff(want, r.List); diff != "" || r.Rows != int64(n) || r.Missing != 1 || r.Extra != 1 || r.Different != 2 {
			t.Errorf("%+v (-want +got)\n%s", r, diff)
		}
		most := testsize.Of[int64](200, 500)
		if q := e.Counts().Query; q > most || q != r.Queries {
			t.Errorf("made %d queries for 2 × %d pages, counted %d, want at most %d", q, n/1000, r.Queries, most)
		}
	})
}

// TestComparisonIsAsFastAsACopy compares a copy with its source, in virtual time, with 20 rows a partition and 100 ms a request. The comparison must
// take at most 1.3 times as long as the copy, and must have a mean of at least eight concurrent queries.
func TestComparisonIsAsFastAsACopy(t *testing.T) {
	t.Parallel()
	rows := someRows(20_000 / slowdown)
	for i := range rows {
		rows[i].Key = key.Key{Partition: fmt.Sprintf("p%05d", i/20), Row: fmt.Sprintf("r%02d", i%20)}
	}
	synctest.Test(t, func(t *testing.T) {
		_, a := emulatortest.NewAccount(t, emulator.Options{Latency: 100 * time.Millisecond})
		s := sweep.Spec{Source: emulatortest.Table(t, a, "source", rows), PageRows: 100, Steal: true}
		destination := emulatortest.Table(t, a, "destination", nil)
		began := time.Now()
		_, err := sweep.Do(t.Context(), s, sweep.Options{}, action.Copy{Destination: destination})
		proof.Must(t, err)
		copied := time.Since(began)
		r, err := verify.Compare(t.Context(), s, destination, verify.Options{})
		if err != nil || r.Differences() > 0 || int(r.Rows) != len(rows) {
			t.Fatalf("got the result %+v, error %v; want %d equal rows", r, err, len(rows))
		}
		compared := time.Since(began) - copied
		t.Logf("the copy took %v, and the comparison took %v", copied, compared)
		mean := float64(r.Queries) * 0.1 / compared.Seconds()
		if t.Logf("the mean is %.1f concurrent queries", mean); mean < 8 && slowdown == 1 {
			t.Errorf("the mean is %.1f concurrent queries, want at least 8", mean)
		}
		if compared.Seconds() > 1.3*copied.Seconds() {
			t.Errorf("the comparison took %v, and the copy took %v", compared, copied)
		}
	})
}

// TestTablesWithDifferentPages compares tables whose pages end at different rows. The rest of a page is held for the next query, so each table costs little more
// than one query a page.
func TestTablesWithDifferentPages(t *testing.T) {
	t.Parallel()
	const page = 100
	n := 10_000 / slowdown
	rows := someRows(n)
	thinned := func(every int) []storage.Entity {
		var few []storage.Entity
		for i := 0; i < n; i += every {
			few = append(few, rows[i])
		}
		return few
	}
	for _, tt := range []struct {
		name                string
		source, destination []storage.Entity
	}{
		{"one row less in front", rows, rows[1:]},
		{"one row more in front", rows[1:], rows},
		{"every third missing", rows, slices.DeleteFunc(slices.Clone(rows), func(e storage.Entity) bool { return e.Key.Row[1]%3 == 0 })},
		{"a tenth of the rows", rows, thinned(10)},
		{"ten times as many", thinned(10), rows},
		{"an empty destination", rows, nil},
		{"an empty source", nil, rows},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, a := emulatortest.NewAccount(t, emulator.Options{Latency: 10 * time.Millisecond})
			source, destination := emulatortest.Table(t, a, "source", tt.source), emulatortest.Table(t, a, "destination", tt.destination)
			r, err := verify.Compare(t.Context(), sweep.Spec{Source: source, PageRows: page}, destination, verify.Options{})
			if err != nil || int(r.Rows) != len(tt.source) || int(r.Rows-r.Missing+r.Extra) != len(tt.destination) {
				t.Errorf("%s: got the result %+v, error %v", tt.name, r, err)
			}
			pages := int64(len(tt.source)+page-1)/page + int64(len(tt.destination)+page-1)/page
			t.Logf("%s: %d queries for %d pages", tt.name, r.Queries, pages)
			if r.Queries > pages+3 {
				t.Errorf("%s: %d queries for %d pages", tt.name, r.Queries, pages)
			}
		})
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
			source, destination := emulatortest.Table(t, a, "source", tt.source), emulatortest.Table(t, a, "destination", tt.destination)
			for depth, want := range map[verify.Depth]int64{verify.Exact: tt.exact, verify.Contains: tt.contains, verify.Keys: 0} {
				r, err := verify.Compare(t.Context(), sweep.Spec{Source: source}, destination, verify.Options{Depth: depth})
				if err != nil || r.Different != want {
					t.Errorf("depth %d: got %d different rows, want %d; error %v", depth, r.Different, want, err)
				}
			}
		})
	}
}

// The description of a row with many large properties is short.
func TestDetailsAreShort(t *testing.T) {
	t.Parallel()
	var row [2]storage.Entity
	for i := range 200 {
		for j := range row {
			row[j].Properties = append(row[j].Properties, storage.StringProperty(fmt.Sprintf("Property%03d", i), fmt.Sprint(j)+strings.Repeat("é", 100)))
		}
	}
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	source, destination := emulatortest.Table(t, a, "source", row[:1]), emulatortest.Table(t, a, "destination", row[1:])
	r, err := verify.Compare(t.Context(), sweep.Spec{Source: source}, destination, verify.Options{})
	if err != nil || len(r.List) != 1 {
		t.Fatalf("got the result %+v, error %v; want one difference", r, err)
	}
	if d := r.List[0].Detail; len(d) > 1003 || !utf8.ValidString(d) || !strings.HasPrefix(d, `Property000 is Edm.String "1ééé`) || !strings.HasSuffix(d, "…") {
		t.Errorf("the description has %d bytes: %s", len(d), d)
	}
}

// A comparison after a copy requires only the equality that the copy's mode ensures.
func TestDepthOf(t *testing.T) {
	t.Parallel()
	for mode, want := range map[action.Mode]verify.Depth{action.Replace: verify.Exact, action.Merge: verify.Contains, action.Skip: verify.Keys, action.Fail: verify.Keys} {
		if got := verify.DepthOf(mode); got != want {
			t.Errorf("%s: depth %d, want %d", mode, got, want)
		}
	}
}
