package estimate_test

import (
	"fmt"
	"slices"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/estimate"
	"tablesweep/internal/scan/keysets"
)

// sampled is a table, or a key range of one.
type sampled struct {
	name   string
	keys   []key.Key
	page   int
	fitted bool // constants were chosen by its kind
}

// tables returns a hundred: the made-up kinds, samples of real tables, and parts of both.
// Every second kind is fitted.
func tables(t testing.TB, rows int) []sampled {
	t.Helper()
	made, err := keysets.MadeUp()
	if err != nil {
		t.Fatal(err)
	}
	var all []sampled
	kinds := 0
	add := func(s keysets.Set, page int, parts ...int) {
		keys, err := s.Rows(rows)
		if err != nil {
			t.Fatal(err)
		}
		fitted := kinds%2 == 0
		kinds++
		all = append(all, sampled{s.Name, keys, page, fitted})
		n := len(keys) / 4
		for _, part := range parts {
			all = append(all, sampled{fmt.Sprintf("%s, part %d", s.Name, part), keys[part*n : (part+2)*n], page, fitted})
		}
	}
	for i, s := range made {
		if i < 20 {
			add(s, 10, 0, 2)
		} else {
			add(s, 10, 1)
		}
	}
	for _, s := range keysets.Real("") {
		add(s, 2, 0, 1, 2)
	}
	return all
}

func read(s *estimate.Sample, table sampled) (rounds int) {
	return ask(s, keysets.Table{Keys: table.keys, Page: table.page}.Query)
}

func ask(s *estimate.Sample, query func(scan.Step) scan.Page) (rounds int) {
	for ; ; rounds++ {
		steps := s.Queries()
		if len(steps) == 0 {
			return rounds
		}
		var pages []scan.Page
		for _, step := range steps {
			pages = append(pages, query(step))
		}
		s.Answer(pages)
	}
}

// TestRangesAreHonest samples a hundred tables by a query for each 20, 10, 5 and 2 of their
// pages: 9 of 10 have as many rows as the estimate says, among those that its constants were
// chosen by as among the others.
func TestRangesAreHonest(t *testing.T) {
	t.Parallel()
	all := tables(t, 24_000)
	if len(all) < 100 {
		t.Fatalf("only %d tables", len(all))
	}
	for _, each := range []int{20, 10, 5, 2} {
		found := map[bool]*precision{true: {}, false: {}}
		for _, table := range all {
			pages := len(table.keys) / table.page
			s := estimate.New(key.Range{}, table.page, pages/each)
			read(s, table)
			e, n := s.Estimate(), float64(len(table.keys))
			found[table.fitted].add(e.Rows, n)
			t.Logf("1 of %d, %-24s %6d pages, %5d queries: %.2f to %.2f of the rows", each, table.name, pages, e.Queries, e.Rows.Low/n, e.Rows.High/n)
			if e.Queries > 2*pages/each+100 {
				t.Errorf("%s: %d queries for %d pages", table.name, e.Queries, pages)
			}
		}
		right := 0
		for fitted, least := range map[bool]int{true: 90, false: 85} {
			f := found[fitted]
			right += f.right
			t.Logf("a query for each %d pages, fitted %v: %d of %d ranges are right; the median one is a factor of %.1f wide, the widest %.1f",
				each, fitted, f.right, len(f.widths), at(f.widths, 0.5), at(f.widths, 1))
			if 100*f.right < least*len(f.widths) {
				t.Errorf("a query for each %d pages, fitted %v: %d of %d ranges are right, want %d %%", each, fitted, f.right, len(f.widths), least)
			}
			if at(f.widths, 0.5) > 24 {
				t.Errorf("a query for each %d pages, fitted %v: half of the ranges are wider than a factor of %.1f, want 24", each, fitted, at(f.widths, 0.5))
			}
		}
		if 10*right < 9*len(all) {
			t.Errorf("a query for each %d pages: %d of %d ranges are right, want 9 of 10", each, right, len(all))
		}
	}
}

// precision is how good ranges are.
type precision struct {
	right  int
	widths []float64 // factors
}

func (p *precision) add(r estimate.Interval, rows float64) {
	if r.Low <= rows && rows <= r.High {
		p.right++
	}
	p.widths = append(p.widths, r.High/r.Low)
}

// at returns the value that a share of the others lie below.
func at(values []float64, share float64) float64 {
	slices.Sort(values)
	return values[int(share*float64(len(values)-1))]
}

// BenchmarkPrecision reports within which factor 9 of 10 tables have their rows, as a
// multiple of the range's middle. Tables have 2, 5, 10 and 20 pages for each query: with one
// number for all, the queries alone would tell the rows.
func BenchmarkPrecision(b *testing.B) {
	all := tables(b, 24_000)
	for b.Loop() {
		var times []float64
		for i, table := range all {
			for _, each := range []int{20, 10, 5, 2} {
				if i%2 == 0 {
					continue
				}
				s := estimate.New(key.Range{}, table.page, len(table.keys)/table.page/each)
				read(s, table)
				times = append(times, float64(len(table.keys))/s.Estimate().Rows.Middle())
			}
		}
		b.ReportMetric(at(times, 0.95)/at(times, 0.05), "factor")
	}
}

// TestWhatNoSampleSees takes the longest run of keys that a sample of a query for each 20
// pages left unread out of a table. The sample of what remains asks the same, is answered
// the same, and finds the same. So whatever one makes of the answers, no range narrower
// than the factor between both tables holds both.
func TestWhatNoSampleSees(t *testing.T) {
	t.Parallel()
	all, most, wide := tables(t, 24_000), 1.0, 0
	for _, table := range all {
		pages := len(table.keys) / table.page
		whole := estimate.New(key.Range{}, table.page, pages/20)
		met := map[key.Key]bool{}
		query := keysets.Table{Keys: table.keys, Page: table.page}.Query
		ask(whole, func(s scan.Step) scan.Page {
			p := query(s)
			for _, k := range p.Keys {
				met[k] = true
			}
			return p
		})
		from, to := longest(table.keys, func(k key.Key) bool { return !met[k] })
		if to-from < 3 {
			continue
		}
		ends := slices.Concat(table.keys[:from+1], table.keys[to-1:]) // a query sees that there is more, wherever it ends
		rest := sampled{table.name, ends, table.page, table.fitted}
		other := estimate.New(key.Range{}, table.page, pages/20)
		read(other, rest)
		a, b := whole.Estimate(), other.Estimate()
		factor := float64(len(table.keys)) / float64(len(rest.keys))
		most = max(most, factor)
		if factor >= 3 {
			wide++
		}
		t.Logf("%-24s %5d pages, %4d queries: without a run of keys that no query met it has 1/%.2f of the rows", table.name, pages, a.Queries, factor)
		if a != b {
			t.Errorf("%s: a sample tells %+v from %+v, by keys that it did not meet", table.name, a, b)
		}
	}
	t.Logf("a factor of 3 and more for %d of %d tables, %.1f at most", wide, len(all), most)
	if 10*wide <= len(all) {
		t.Errorf("only %d of %d tables have as many rows where no query was made as to be off by a factor of 3; say so in docs/measurements.md", wide, len(all))
	}
}

// longest returns the longest run of keys that are so.
func longest(keys []key.Key, so func(key.Key) bool) (from, to int) {
	start := 0
	for i, k := range keys {
		if !so(k) {
			start = i + 1
		} else if i+1-start > to-from {
			from, to = start, i+1
		}
	}
	return from, to
}

// TestSmallTablesAreCounted reads all of them, and everything once.
func TestSmallTablesAreCounted(t *testing.T) {
	t.Parallel()
	for _, table := range tables(t, 1000) {
		pages := len(table.keys) / table.page
		s := estimate.New(key.Range{}, table.page, 8*pages)
		read(s, table)
		if e := s.Estimate(); !e.Exact || int(e.Rows.Low) != len(table.keys) || e.Queries > 4*pages {
			t.Errorf("%s of %d pages: %+v", table.name, pages, e)
		}
	}
}

// TestNothingFoundIsNotNothing answers with empty pages that have tokens, as a filter may
// bring them: that no row was met is no count.
func TestNothingFoundIsNotNothing(t *testing.T) {
	t.Parallel()
	s := estimate.New(key.Range{}, 1000, 20)
	for steps := s.Queries(); len(steps) > 0; steps = s.Queries() {
		pages := make([]scan.Page, len(steps))
		for i := range pages {
			pages[i].Next = &key.Token{Partition: "p"}
		}
		s.Answer(pages)
	}
	if e := s.Estimate(); e.Exact || e.Rows.Low != 0 || e.Rows.High < 1000 || e.Queries > 50 {
		t.Errorf("%+v, want between none and some pages of rows", e)
	}
}
