package split

import (
	"math"
	"slices"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/keysets"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// TestProgress: hints give a scan a progress. In its second half, the progress is wrong by at most 15 points for any size of pages, if the table is
// unchanged, or a fifth of its rows is new, or a part of its keys has been filled or emptied. It may be wrong by more if rows were deleted everywhere.
func TestProgress(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	sets := tables(t)
	for name, then := range map[string]struct {
		had     func(rows []key.Key) []key.Key // the rows when the hints were made
		has     func(rows []key.Key) []key.Key
		shown   float64 // the minimum share of the second halves with a progress
		atWorst float64
	}{
		"the same rows":              {all, all, 0.8, 0.15},
		"a quarter more, everywhere": {most, all, 0.03, 0.15},
		"a quarter more, at the end": {cut(0.8, 1), all, 0, 0.15},
		"five times, at the end":     {cut(0.2, 1), all, 0, 0.15},
		"twice, in the middle":       {cut(0.2, 0.7), all, 0, 0.15},
		"half of it, in the middle":  {all, cut(0.2, 0.7), 0.8, 0.15},
		"a tenth less, at the start": {all, cut(0, 0.1), 0.8, 0.15},
		"a fifth less, everywhere":   {all, most, 0.8, 0.22}, // too low, because only the ends of ranges show that rows are missing
	} {
		shown, halves := 0.0, 0.0
		for _, rows := range sets {
			before, now := rows, rows
			before.Keys, now.Keys = then.had(rows.Keys), then.has(rows.Keys)
			_, ends, err := record(before, adaptive.Strategy{})
			proof.Must(t, err)
			hints := scan.NewHints(key.Bounds{}, ends, now.Page)
			root, _, err := record(now, adaptive.Strategy{Hints: &hints})
			proof.Must(t, err)
			p := progressOf(moments(root, now))
			halves++
			shown += p.Shown
			if p.Worst > then.atWorst {
				t.Errorf("%s, %d pages of %d rows: %s", name, now.Page, now.Pages(), p)
			}
		}
		if shown < then.shown*halves {
			t.Errorf("%s: a progress was shown for %.2f of the second halves, want at least %.2f", name, shown/halves, then.shown)
		}
		t.Logf("%s: a progress was shown for %.2f of the second halves", name, shown/halves)
	}
}

func all(rows []key.Key) []key.Key { return rows }

// most returns a random four fifths of the rows.
func most(rows []key.Key) []key.Key { return fourFifths(keysets.Table{Keys: rows}).Keys }

// cut returns a function that leaves out the rows between two shares.
func cut(from, to float64) func(rows []key.Key) []key.Key {
	return func(rows []key.Key) []key.Key {
		n := float64(len(rows))
		return slices.Concat(rows[:int(from*n)], rows[int(to*n):])
	}
}

// tables returns tables of every kind, of 75 to 2,000 pages.
func tables(t *testing.T) []keysets.Table {
	t.Helper()
	made, err := keysets.MadeUp()
	proof.Must(t, err)
	var tables []keysets.Table
	add := func(sets []keysets.Set, n int, page func(s keysets.Set) int) {
		for _, s := range sets[:testsize.Slow(1, 4, len(sets))] {
			rows, err := s.Table(n)
			proof.Must(t, err)
			rows.Page = page(s)
			tables = append(tables, rows)
		}
	}
	add(keysets.Real(""), math.MaxInt, func(s keysets.Set) int { return s.Page })
	add(made, 30_000, func(keysets.Set) int { return 200 })
	add(made, 15_000, func(keysets.Set) int { return 40 })
	return tables
}
