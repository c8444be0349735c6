package step

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/scans"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// If pages are as large as before, a round reads no more than an invocation may hold.
func TestAffordable(t *testing.T) {
	t.Parallel()
	var found []pageOrStep
	for range 15 {
		found = append(found, pageOrStep{step: &scan.Step{}}, pageOrStep{})
	}
	for _, tt := range []struct {
		queries, bytes, most, want int
	}{
		{1, 1 << 10, 24, 7}, // each step may have 12 children, and all remaining steps must fit into one commit
		{20, 20 << 10, 24, 4},
		{1, 1 << 10, 4, 3},
		{4, 4 << 10, 4, 0},
		{1, 4 << 20, 24, 2}, // 12 MiB remain, and a page is expected to have a little more than 4 MiB
		{3, 15 << 20, 24, 1},
		{5, 17 << 20, 24, 0},
	} {
		r := reading{found: found, queries: tt.queries, bytes: tt.bytes, into: counted{}}
		if got := r.affordable(tt.most); got != tt.want {
			t.Errorf("after %d queries with %d bytes, of at most %d queries: %d more are allowed, want %d", tt.queries, tt.bytes, tt.most, got, tt.want)
		}
	}
}

// The steps that an invocation leaves fit into one commit, however many children and handed-over rows each page has.
func TestStepFitsIntoOneCommit(t *testing.T) {
	t.Parallel()
	steps := func(n int) []pageOrStep { return slices.Repeat([]pageOrStep{{step: &scan.Step{}}}, n) }
	r := reading{found: steps(1), into: counted{}}
	for n := 1; n > 0; n = r.affordable(scans.MaxSegments) {
		r.queries += n
		r.found = steps(len(r.found) + n*(scan.MaxChildren-1))
	}
	s := readResult{children: make([]scans.Message, len(r.found))}
	for range r.queries {
		var rows []storage.Entity
		for i := range 1000 {
			rows = append(rows, storage.Entity{Key: key.Key{Partition: fmt.Sprint(i)}})
		}
		s.spans = append(s.spans, storage.Rows(rows))
	}
	s.passOn(scans.Message{})
	if r.queries < 4 || len(s.children)+commitRows > storage.MaxBatchRows {
		t.Errorf("%d queries leave %d children, which do not fit into one commit", r.queries, len(s.children))
	}
}

// A short span after long ones costs less to write than to read again.
func TestStepWritesShortSpans(t *testing.T) {
	t.Parallel()
	span := func(name string, partitions int) (rows []storage.Row) {
		for i := range partitions {
			rows = append(rows, storage.Row{Key: key.Key{Partition: fmt.Sprintf("%s%03d", name, i)}})
		}
		return rows
	}
	// The first and the last partition of a span are never handed over.
	s := readResult{spans: [][]storage.Row{span("a", 202), span("b", 9), span("c", 10)}, children: []scans.Message{{}}}
	s.passOn(scans.Message{})
	if len(s.spans[0]) != 202 || len(s.spans[1]) != 9 || len(s.spans[2]) != 2 || len(s.children) != 2 {
		t.Errorf("the step writes %d, %d and %d rows and has %d children, want 202, 9 and 2 rows and 2 children", len(s.spans[0]), len(s.spans[1]), len(s.spans[2]), len(s.children))
	}
}

// A step's note fits into its row, however long the keys are, and counts all rows of its pages.
func TestNoteOfLongKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		letter string // a note's JSON may need six bytes for this letter
		pages  int
		want   int // the number of ends in the note
	}{
		{"a", scans.MaxSegments, scans.MaxSegments},
		{"漢", 15, 15},
		{"漢", scans.MaxSegments, scans.MaxSegments / 2},
		{"\u2028", scans.MaxSegments, scans.MaxSegments / 4},
	} {
		var s readResult
		long := strings.Repeat(tt.letter, 500)
		for i := range tt.pages {
			s.ends = append(s.ends, scan.PageEnd{Last: key.Key{Partition: long, Row: long + fmt.Sprintf("%02d", i)}, Rows: 10, Failed: 1})
		}
		note := s.note()
		ends, rows, failed := scans.ParseNote(note), 0, 0
		for _, e := range ends {
			rows, failed = rows+e.Rows, failed+e.Failed
		}
		if len(note) > scans.MaxNote || len(ends) != tt.want || rows != 10*tt.pages || failed != tt.pages {
			t.Errorf("%d pages of keys of %q: a note of %d bytes has %d ends with %d rows and %d failed, want %d ends", tt.pages, tt.letter, len(note), len(ends), rows, failed, tt.want)
		}
	}
}
