package estimate_test

import (
	"fmt"
	"testing"

	"tablesweep/internal/estimate"
	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/splitbench"
)

// sampled is a table, or a key range of one.
type sampled struct {
	name string
	keys []key.Key
	page int
}

// tables returns a hundred: the made-up kinds, samples of real tables, and parts of both.
func tables(t *testing.T, rows int) []sampled {
	t.Helper()
	made, err := splitbench.Sets()
	if err != nil {
		t.Fatal(err)
	}
	var all []sampled
	add := func(s splitbench.Set, page int, parts ...int) {
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
	for _, s := range splitbench.RealSets("") {
		add(s, 2, 0, 1, 2)
	}
	return all
}

func read(s *estimate.Sample, table sampled) (rounds int) {
	query := splitbench.Pages(table.keys, table.page)
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

// TestRangesAreHonest samples a hundred tables by a query for each five of their pages:
// 90 have as many rows as the estimate says.
func TestRangesAreHonest(t *testing.T) {
	t.Parallel()
	all := tables(t, 24_000)
	inside := 0
	for _, table := range all {
		pages := len(table.keys) / table.page
		s := estimate.New(scan.Range{}, table.page, pages/5)
		rounds := read(s, table)
		e, n := s.Estimate(), float64(len(table.keys))
		honest := e.Rows.Low <= n && n <= e.Rows.High
		if honest {
			inside++
		}
		t.Logf("%-24s %6d pages, %5d queries in %2d rounds: %.2f to %.2f of the rows %v", table.name, pages, e.Queries, rounds, e.Rows.Low/n, e.Rows.High/n, honest)
		if e.Queries > pages*2/5+100 || e.Rows.High > 13*e.Rows.Low {
			t.Errorf("%s: %d queries for %d pages, %+v", table.name, e.Queries, pages, e.Rows)
		}
	}
	if len(all) < 90 || 10*inside < 9*len(all) {
		t.Errorf("%d of %d estimates are right, want 9 of 10", inside, len(all))
	}
}

// TestSmallTablesAreCounted reads all of them, and everything once.
func TestSmallTablesAreCounted(t *testing.T) {
	t.Parallel()
	for _, table := range tables(t, 1000) {
		pages := len(table.keys) / table.page
		s := estimate.New(scan.Range{}, table.page, 8*pages)
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
	s := estimate.New(scan.Range{}, 1000, 20)
	for steps := s.Queries(); len(steps) > 0; steps = s.Queries() {
		pages := make([]scan.Page, len(steps))
		for i := range pages {
			pages[i].Next = &scan.Token{Partition: "p"}
		}
		s.Answer(pages)
	}
	if e := s.Estimate(); e.Exact || e.Rows.Low != 0 || e.Rows.High < 1000 || e.Queries > 50 {
		t.Errorf("%+v, want between none and some pages of rows", e)
	}
}
