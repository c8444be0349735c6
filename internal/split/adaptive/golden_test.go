package adaptive_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/keysets"
	"tablesweep/internal/proof/scantest"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// TestTranscripts scans small tables by pages of ten rows, depth first. It compares each query, its page and the strategy's estimate with a
// transcript in testdata. The transcripts are documentation: each shows one ability of the strategy.
func TestTranscripts(t *testing.T) {
	for _, tt := range []struct {
		name string
		rows []key.Key
		// hinted makes the scan use the hints of an earlier scan of the same rows.
		hinted bool
	}{
		{"deep-prefixes", deepPrefixes(), false},
		{"heavy-subtree", heavySubtree(), false},
		{"giant-partition", giantPartition(), false},
		{"hints", counter(), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			slices.SortFunc(tt.rows, key.Key.Compare)
			query := keysets.Table{Keys: tt.rows, Page: 10}.Query
			var s adaptive.Strategy
			if tt.hinted {
				s.Hints = hintsOf(t, query)
			}
			got := scantest.Transcript(t, s, key.Bounds{}, query, ends, describeStep)
			scantest.Golden(t, tt.name, got)
		})
	}
}

// deepPrefixes are files of three directories with long fixed names. Keys differ only after a separator.
func deepPrefixes() []key.Key {
	var rows []key.Key
	for _, dir := range []string{"alpha", "beta", "gamma"} {
		for i := range 60 {
			rows = append(rows, key.Key{Partition: fmt.Sprintf("home|project|source|%s|file%02d", dir, i)})
		}
	}
	return rows
}

// heavySubtree are names. Most of them begin with m.
func heavySubtree() []key.Key {
	var rows []key.Key
	for c := 'a'; c <= 'z'; c++ {
		rows = append(rows, key.Key{Partition: string(c)})
	}
	for i := range 150 {
		rows = append(rows, key.Key{Partition: fmt.Sprintf("m%03d", i)})
	}
	return rows
}

// giantPartition has a giant partition between small partitions.
func giantPartition() []key.Key {
	var rows []key.Key
	for i := range 15 {
		rows = append(rows, key.Key{Partition: fmt.Sprintf("a%02d", i)}, key.Key{Partition: fmt.Sprintf("z%02d", i)})
	}
	for i := range 120 {
		rows = append(rows, key.Key{Partition: "giant", Row: fmt.Sprintf("%03d", i)})
	}
	return rows
}

func counter() []key.Key {
	var rows []key.Key
	for i := range 250 {
		rows = append(rows, key.Key{Partition: fmt.Sprintf("%03d", i)})
	}
	return rows
}

// hintsOf returns the hints of a serial scan.
func hintsOf(t *testing.T, query func(scan.Step) scan.Page) *scan.Hints {
	t.Helper()
	var pages []scan.PageEnd
	for step := (scan.Serial{}).Start(key.Bounds{}); ; {
		p := query(step)
		pages = append(pages, scan.PageEnd{Last: p.Last(), Rows: len(p.Keys)})
		if p.Next == nil {
			hints := scan.NewHints(key.Bounds{}, pages, 10)
			return &hints
		}
		step = step.Continue(*p.Next)
	}
}

// ends describes a page by its first and last row.
func ends(p scan.Page) []string {
	if len(p.Keys) == 0 {
		return []string{"no rows"}
	}
	name := func(k key.Key) string {
		if k.Row == "" {
			return k.Partition
		}
		return k.Partition + "/" + k.Row
	}
	return []string{fmt.Sprintf("rows %s to %s (%d)", name(p.Keys[0]), name(p.Last()), len(p.Keys))}
}

// describeStep describes the range of a step, where the step stops, and the strategy's estimate.
func describeStep(s scan.Step) string {
	var note string
	if stop, _ := adaptive.End(s); stop != nil {
		note += ", stops at " + stop.Partition
		if stop.Row != "" {
			note += "/" + stop.Row
		}
	}
	var state struct {
		Left, Credit float64
		First        bool
	}
	if err := json.Unmarshal(s.State, &state); err != nil {
		return note
	}
	if hinted := adaptive.Ahead(s); hinted.Unknown == 0 {
		state.Left = float64(hinted.Millipages) / 1000
	}
	if !state.First {
		note += fmt.Sprintf("; %.1f pages believed left", state.Left)
	}
	if state.Credit > 0 {
		note += fmt.Sprintf(", credit %.1f", state.Credit)
	}
	return note
}
