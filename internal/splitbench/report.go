package splitbench

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Summary is what a contender's scans cost on the average of the key sets.
type Summary struct {
	Contender   Contender
	Sets        int
	Queries     float64 // per query of the optimum
	WorstSet    float64 // the largest of those
	Empty       float64 // share of the queries
	Invocations float64 // per 1,000 rows
	// Times are mean makespans, in the order of a result's times.
	Times []float64
}

// Summarize returns the means of a contender's results. A set counts only if it
// has at least half of the rows asked for.
func Summarize(results []Result, c Contender, rows int) Summary {
	s := Summary{Contender: c}
	for _, r := range results {
		if r.Contender != c || r.Rows < rows/2 {
			continue
		}
		s.Sets++
		queries := float64(r.Queries) / float64(r.Optimum)
		s.Queries += queries
		s.WorstSet = max(s.WorstSet, queries)
		s.Empty += float64(r.Empty) / float64(r.Queries)
		s.Invocations += 1000 * float64(r.Invocations) / float64(r.Rows)
		if s.Times == nil {
			s.Times = make([]float64, len(r.Times))
		}
		for i, t := range r.Times {
			s.Times[i] += float64(t.Time)
		}
	}
	n := float64(max(1, s.Sets))
	s.Queries, s.Empty, s.Invocations = s.Queries/n, s.Empty/n, s.Invocations/n
	for i := range s.Times {
		s.Times[i] /= n
	}
	return s
}

// Makespan returns the mean time with the given workers and hop. It panics if
// that was not measured.
func (s Summary) Makespan(workers, hop int) float64 {
	w, h := slices.Index(workerCounts(), workers), slices.Index(hops(), hop)
	return s.Times[w*len(hops())+h]
}

// WriteMarkdown writes the means of the results as a table, all scans being of
// about the given number of rows.
func WriteMarkdown(w io.Writer, results []Result, rows int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rows, means over %d key sets. Time 1 is a query.\n\n", rows, Summarize(results, Serial, rows).Sets)
	b.WriteString("| strategy | queries ÷ optimum (worst set) | empty | invocations per 1,000 rows |")
	rule := "|---|--:|--:|--:|"
	for _, workers := range workerCounts() {
		for _, hop := range hops() {
			if workers == 0 {
				fmt.Fprintf(&b, " critical path, hop %d |", hop)
			} else {
				fmt.Fprintf(&b, " %d workers, hop %d |", workers, hop)
			}
			rule += "--:|"
		}
	}
	b.WriteString("\n" + rule + "\n")
	for _, c := range Contenders() {
		s := Summarize(results, c, rows)
		fmt.Fprintf(&b, "| %s | %.3f (%.2f) | %.1f %% | %.2f |", c, s.Queries, s.WorstSet, 100*s.Empty, s.Invocations)
		for _, t := range s.Times {
			fmt.Fprintf(&b, " %.0f |", t)
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteSets writes a table of the key sets one by one: for each contender
// queries ÷ optimum, and the makespan with 64 workers and hop 3 as a multiple
// of the bound.
func WriteSets(w io.Writer, results []Result) error {
	var b strings.Builder
	b.WriteString("| key set | rows |")
	rule := "|---|--:|"
	makespan := func(r Result) float64 { return Summarize([]Result{r}, r.Contender, r.Rows).Makespan(64, 3) }
	shown := []Contender{PrefixLevel, Prefix, Adaptive, Adaptive4, Hinted, Hinted80}
	for _, c := range shown {
		fmt.Fprintf(&b, " %s |", c)
		rule += "--:|"
	}
	b.WriteString(" error of progress |\n" + rule + "--:|\n")
	for i := 0; i < len(results); {
		of := map[Contender]Result{}
		first := results[i]
		for ; i < len(results) && results[i].Set == first.Set && results[i].Rows == first.Rows; i++ {
			of[results[i].Contender] = results[i]
		}
		fmt.Fprintf(&b, "| %s | %d |", first.Set, first.Rows)
		for _, c := range shown {
			r := of[c]
			fmt.Fprintf(&b, " %.2f; %.1f |", float64(r.Queries)/float64(r.Optimum), makespan(r)/makespan(of[Bound]))
		}
		fmt.Fprintf(&b, " %.1f %% |\n", 100*of[Adaptive].ProgressError)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
