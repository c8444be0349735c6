package verify_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/scantest"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// twin is a comparison of two random tables with its expected result.
type twin struct {
	tables  [2]map[key.Key]int // source and destination, with the values of the property V
	scan    sweep.Spec         // does not contain its table
	options verify.Options
	faults  string
	want    verify.Result // does not count queries and requests
}

// randomTwin makes tables that are similar or quite different, or one of which is empty or lacks a part of the rows.
func randomTwin(r *rand.Rand) twin {
	c := scantest.Random(r)
	w := twin{tables: [2]map[key.Key]int{{}, {}}}
	in := [2]float64{1, 1} // the share of the rows that each table has
	switch r.IntN(5) {
	case 0:
		in[r.IntN(2)] = 0
	case 1:
		in[r.IntN(2)] = 0.1
	case 2:
		in = [2]float64{0.5, 0.5}
	case 3:
		in = [2]float64{0.95, 0.95}
	}
	differ := r.IntN(3) * r.IntN(20) // the percentage of rows that differ
	for _, k := range c.Rows {
		if text := k.Partition + k.Row; strings.ContainsFunc(text, unicode.IsControl) || strings.ContainsAny(text, `/\#?`) {
			continue // the service refuses such keys
		}
		v := r.IntN(3)
		for i := range w.tables {
			if r.Float64() < in[i] {
				w.tables[i][k] = v
			}
			if r.IntN(100) < differ {
				v++
			}
		}
	}
	w.scan = sweep.Spec{Bounds: c.Bounds, PageRows: c.Segment, Steal: r.IntN(2) == 0, Strategy: []scan.Strategy{scan.Prefix{}, scan.Serial{}}[r.IntN(2)]}
	if r.IntN(3) == 0 {
		w.scan.Filter = "V lt 2L"
	}
	w.options.Workers = 1 + r.IntN(20)
	if few := r.Int64N(3) * 100; few > 0 {
		w.options.Memory = memory.NewBudget((memory.Small + 2*few) * 64 / 63)
	}
	w.options.List = 1 + r.IntN(10)*r.IntN(10)
	w.options.AllowExtra = r.IntN(4) == 0
	w.options.Depth = []verify.Depth{verify.Exact, verify.Exact, verify.Contains, verify.Keys}[r.IntN(4)]
	if c.Faulty {
		w.faults = fmt.Sprintf("seed=%d; latency=0s..20ms; short-page p=0.3; empty-page p=0.2; busy p=0.05", 1+r.IntN(1000))
	}
	w.compare()
	return w
}

// compare calculates the expected result in a simple way.
func (w *twin) compare() {
	all := map[key.Key]int{}
	maps.Copy(all, w.tables[0])
	maps.Copy(all, w.tables[1])
	w.want = verify.Result{}
	for _, k := range slices.SortedFunc(maps.Keys(all), key.Key.Compare) {
		v, inSource := w.tables[0][k]
		u, inDestination := w.tables[1][k]
		if w.scan.Filter != "" {
			inSource, inDestination = inSource && v < 2, inDestination && u < 2
		}
		if !w.scan.Bounds.Range().Contains(k) {
			continue
		}
		d := sweep.Difference{Key: k}
		switch {
		case inSource && !inDestination:
			d.Kind = sweep.Missing
			w.want.Missing++
		case !inSource && inDestination && !w.options.AllowExtra:
			d.Kind = sweep.Extra
			w.want.Extra++
		case inSource && inDestination && v != u && w.options.Depth != verify.Keys:
			d.Kind, d.Detail = sweep.Different, fmt.Sprintf(`V is Edm.Int64 "%d", but the source has Edm.Int64 "%d"`, u, v)
			w.want.Different++
		}
		if inSource {
			w.want.Rows++
		}
		if d.Kind != "" && len(w.want.List) < w.options.List {
			w.want.List = append(w.want.List, d)
		}
	}
}

// fill makes the tables.
func (w *twin) fill(t *testing.T, a *storage.Account) (source, destination *storage.Table) {
	t.Helper()
	var tables [2]*storage.Table
	for i, rows := range w.tables {
		var entities []storage.Entity
		for _, k := range slices.SortedFunc(maps.Keys(rows), key.Key.Compare) {
			entities = append(entities, storage.Entity{Key: k, Properties: []storage.Property{storage.Int64Property("V", int64(rows[k]))}})
		}
		tables[i] = emulatortest.Table(t, a, fmt.Sprintf("table%d", i), entities)
	}
	return tables[0], tables[1]
}

// found returns a result in the form of the twin's expected result.
func found(r verify.Result) verify.Result {
	r.Queries, r.Requests = 0, 0
	if len(r.List) == 0 {
		r.List = nil
	}
	return r
}

// same compares a result with the expected result.
func (w *twin) same(t *testing.T, r verify.Result) {
	t.Helper()
	if diff := cmp.Diff(w.want, found(r)); diff != "" {
		t.Errorf("(-want +got)\n%s\n%d and %d rows, %+v, %+v", diff, len(w.tables[0]), len(w.tables[1]), w.scan, w.options)
	}
}

// TestCompareAgainstTwin compares random tables, which are read in short and empty pages, and checks the results by a comparison of maps.
func TestCompareAgainstTwin(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400 / slowdown) {
		synctest.Test(t, func(t *testing.T) {
			w := randomTwin(rand.New(rand.NewPCG(seed, 1)))
			_, a := emulatortest.NewAccount(t, emulator.Options{Faults: w.faults})
			source, destination := w.fill(t, a)
			w.scan.Source = source
			r, err := verify.Compare(t.Context(), w.scan, destination, w.options)
			if err != nil {
				t.Fatalf("seed %d: got error %v", seed, err)
			}
			if w.same(t, r); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
}
