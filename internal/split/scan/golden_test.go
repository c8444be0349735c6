package scan_test

import (
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/scantest"
	"tablesweep/internal/split/scan"
)

// names is the table of the published example.
var names = []key.Key{
	{Partition: "Dashner", Row: "Cleopatra"},
	{Partition: "Davis", Row: "Gemma"},
	{Partition: "Davis", Row: "Loralee"},
	{Partition: "Dodge", Row: "Lowell"},
	{Partition: "Hartlage", Row: "Marketta"},
	{Partition: "Nuckles", Row: "Timmy"},
	{Partition: "Rundle", Row: "Coleen"},
	{Partition: "Splawn", Row: "Lise"},
	{Partition: "Wedell", Row: "Annabelle"},
	{Partition: "Wongus", Row: "Rosenda"},
}

// TestTranscripts runs the published example with segments of two rows, depth first. It compares each query, its rows and its children with the
// transcript in testdata.
func TestTranscripts(t *testing.T) {
	for _, tt := range []struct {
		name     string
		strategy scan.Strategy
		bounds   key.Bounds
	}{
		{"prefix", scan.Prefix{}, key.Bounds{}},
		{"prefix-two-segments", scan.Prefix{FirstSegments: 2, NextSegments: 1}, key.Bounds{}},
		{"prefix-keep-partitions", scan.Prefix{KeepPartitions: true}, key.Bounds{}},
		{"prefix-bounds", scan.Prefix{}, key.Bounds{Prefix: "D", After: "Dashner", Before: "Dodge"}},
		{"serial", scan.Serial{}, key.Bounds{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := scantest.Transcript(t, tt.strategy, tt.bounds, readTwo, eachRow, nil)
			scantest.Golden(t, tt.name, got)
		})
	}
}

// eachRow describes a page row by row.
func eachRow(p scan.Page) []string {
	var lines []string
	for _, k := range p.Keys {
		lines = append(lines, "row "+k.Partition+"/"+k.Row)
	}
	return lines
}

// readTwo answers a query of the example's table with at most two rows. The token is the key of the next row.
func readTwo(s scan.Step) scan.Page {
	var p scan.Page
	for _, k := range names {
		if !s.Range.Contains(k) || s.Token != nil && k.Compare(key.Key{Partition: s.Token.Partition, Row: s.Token.Row}) < 0 {
			continue
		}
		if len(p.Keys) == 2 {
			p.Next = &key.Token{Partition: k.Partition, Row: k.Row}
			break
		}
		p.Keys = append(p.Keys, k)
	}
	return p
}
