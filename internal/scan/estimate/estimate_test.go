package estimate_test

import (
	"fmt"
	"slices"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/bench"
	"tablesweep/internal/scan/estimate"
)

// sampled is a table, or a key range of one.
type sampled struct {
	name string
	keys []key.Key
	page int
}

// tables returns a hundred: the made-up kinds, samples of real tables, and parts of both.
func tables(t testing.TB, rows int) []sampled {
	t.Helper()
	made, err := bench.Sets()
	if err != nil {
		t.Fatal(err)
	}
	var all []sampled
	add := func(s bench.Set, page int, parts ...int) {
		keys, err := s.Rows(rows)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sampled{s.Name, keys, page})
		n := len(keys) / 4
		for _, part := range parts {
			all = append(all, sampled{fmt.Sprintf("%s, part %d", s.Name, part), keys[part*n : (part+2)*n], page})
		}
	}
	for i, s := range made {
		if i < 15 {
			add(s, 10, 0, 2)
		} else {
			add(s, 10, 1)
		}
	}
	for _, s := range bench.RealSets("") {
		add(s, 2, 0, 1, 2)
	}
	return all
}

func read(s *estimate.Sample, table sampled) (rounds int) {
	return ask(s, bench.Pages(table.keys, table.page))
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

// TestRangesAreHonest samples a hundred tables by a query for each 20 of their pages, each
// 10 and each 5: 90 of 100 have as many rows as the estimate says.
func TestRangesAreHonest(t *testing.T) {
	t.Parallel()
	all := tables(t, 24_000)
	for _, each := range []int{20, 10, 5} {
		inside := 0
		for _, table := range all {
			pages := len(table.keys) / table.page
			s := estimate.New(key.Range{}, table.page, pages/each)
			read(s, table)
			e, n := s.Estimate(), float64(len(table.keys))
			honest := e.Rows.Low <= n && n <= e.Rows.High
			if honest {
				inside++
			}
			t.Logf("1 of %d, %-24s %6d pages, %5d queries: %.2f to %.2f of the rows %v", each, table.name, pages, e.Queries, e.Rows.Low/n, e.Rows.High/n, honest)
			if e.Queries > 2*pages/each+100 {
				t.Errorf("%s: %d queries for %d pages", table.name, e.Queries, pages)
			}
		}
		t.Logf("a query for each %d pages: %d of %d estimates are right", each, inside, len(all))
		if len(all) < 90 || 10*inside < 9*len(all) {
			t.Errorf("a query for each %d pages: %d of %d estimates are right, want 9 of 10", each, inside, len(all))
		}
	}
}

// BenchmarkPrecision reports within which factor 9 of 10 tables have their rows, by how
// many pages a query there is.
func BenchmarkPrecision(b *testing.B) {
	all := tables(b, 24_000)
	for b.Loop() {
		for _, each := range []int{20, 5, 1} {
			var times []float64 // the middle of the range, that the table has
			for i, table := range all {
				if i%2 == 0 {
					continue
				}
				s := estimate.New(key.Range{}, table.page, len(table.keys)/table.page/each)
				read(s, table)
				times = append(times, float64(len(table.keys))/s.Estimate().Rows.Middle())
			}
			slices.Sort(times)
			n := len(times)
			b.ReportMetric(times[n*95/100]/times[n*5/100], fmt.Sprintf("factor/1_of_%d", each))
		}
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
		query := bench.Pages(table.keys, table.page)
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
		rest := sampled{table.name, ends, table.page}
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
		t.Errorf("only %d of %d tables have as many rows where no query was made as to be off by a factor of 3; say so in DESIGN.md", wide, len(all))
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
