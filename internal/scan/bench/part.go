package bench

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/adaptive"
)

// PartResult is what scans of a part of a key set cost: queries of the adaptive strategy as a multiple
// of those that a serial scan makes, and its makespans of 64 workers with hop 3, with one and up to four queries an invocation, as
// multiples of the published scan's with one.
type PartResult struct {
	Set, Part             string
	Pages                 int // queries of a serial scan
	Queries               float64
	PerPrefix, PerPrefix4 float64
	PerBound, PerBound4   float64
}

// CompareParts scans n rows of the set in parts: the half of its rows that lies behind a key, the rows with
// the longest prefix that a third of them share, and with a filter that one row in a hundred matches.
func CompareParts(set Set, n int) ([]PartResult, error) {
	rows, err := set.table(n)
	if err != nil || len(rows.keys) == 0 {
		return nil, err
	}
	behind, prefixed, filtered := rows, rows, rows
	behind.bounds.After = rows.keys[len(rows.keys)/2].Partition
	prefixed.bounds.Prefix = commonPrefix(rows)
	filtered.every = 100
	var results []PartResult
	for _, part := range []struct {
		name  string
		table table
	}{{"--after", behind}, {"--prefix", prefixed}, {"filter", filtered}} {
		r, err := comparePart(part.table)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		r.Set, r.Part = set.Name, part.name
		results = append(results, r)
	}
	return results, nil
}

// commonPrefix returns the longest prefix that a third of the rows share, of whole characters.
func commonPrefix(t table) string {
	prefix, keys := "", t.keys
	for {
		most, next := 0, ""
		for i := 0; i < len(keys); {
			k := keys[i].Partition
			if len(k) == len(prefix) {
				i++
				continue
			}
			_, size := utf8.DecodeRuneInString(k[len(prefix):])
			longer := k[:len(prefix)+size]
			start := i
			for i < len(keys) && strings.HasPrefix(keys[i].Partition, longer) {
				i++
			}
			if i-start > most {
				most, next = i-start, longer
			}
		}
		if most < len(t.keys)/3 {
			return prefix
		}
		prefix = next
		first, end := t.span(key.Bounds{Prefix: prefix}.Range())
		keys = t.keys[first:end]
	}
}

func comparePart(t table) (PartResult, error) {
	published, _, err := record(t, scan.Prefix{})
	if err != nil {
		return PartResult{}, err
	}
	split, err := t.cost(adaptive.Strategy{})
	if err != nil {
		return PartResult{}, err
	}
	pages := t.pages()
	bound := makespanOf(clairvoyant(pages), 1)
	prefix := makespanOf(published, 1) / bound
	return PartResult{
		Pages: pages, Queries: split.Queries,
		PerPrefix: split.Time / prefix, PerPrefix4: split.Time4 / prefix,
		PerBound: split.Time, PerBound4: split.Time4,
	}, nil
}

// Cost is what a scan by a strategy takes: queries as a multiple of those that a serial scan makes, and makespans of 64
// workers with hop 3, with one and up to four queries an invocation, as multiples of the bound.
type Cost struct{ Queries, Time, Time4 float64 }

// CostOf scans n rows of the set.
func CostOf(set Set, n int, s scan.Strategy) (Cost, error) {
	t, err := set.table(n)
	if err != nil {
		return Cost{}, err
	}
	return t.cost(s)
}

func (t table) cost(s scan.Strategy) (Cost, error) {
	root, _, err := record(t, s)
	if err != nil {
		return Cost{}, err
	}
	pages := t.pages()
	queries, _ := root.count()
	bound := makespanOf(clairvoyant(pages), 1)
	return Cost{float64(queries) / float64(pages), makespanOf(root, 1) / bound, makespanOf(root, 4) / bound}, nil
}

// makespanOf returns the time of 64 workers with hop 3, with up to so many queries an invocation at once.
func makespanOf(root *recorded, segments int) float64 {
	time, _ := schedule{workers: 64, segments: segments, hop: 3, wide: true}.run(root)
	return float64(time)
}

// WriteParts writes a table of the results.
func WriteParts(w io.Writer, results []PartResult) error {
	var b strings.Builder
	b.WriteString("| keys | part | pages | queries ÷ serial | time ÷ prefix | ÷ bound | up to 4 an invocation: ÷ prefix | ÷ bound |\n|---|---|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %s | %d | %.2f | %.2f | %.2f | %.2f | %.2f |\n", r.Set, r.Part, r.Pages, r.Queries, r.PerPrefix, r.PerBound, r.PerPrefix4, r.PerBound4)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
