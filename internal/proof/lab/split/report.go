package split

import (
	"fmt"
	"slices"
	"strings"
)

// Summary is the average cost of a contender's scans over the key sets.
type Summary struct {
	Sets        int
	Queries     float64 // as a multiple of the optimum
	WorstSet    float64 // the greatest value of Queries in a set
	Empty       float64 // the share of the queries
	Invocations float64 // per 1,000 rows
	// Times are the mean makespans, in the order of a result's times.
	Times []float64
}

// Summarize returns the means of a contender's results. A set is included only if it has at least half of the requested rows.
func Summarize(results []Result, c Contender, rows int) Summary {
	var s Summary
	for _, r := range results {
		if r.Contender != c || r.Rows < rows/2 {
			continue
		}
		s.Sets++
		s.Queries += queries(r)
		s.WorstSet = max(s.WorstSet, queries(r))
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

// Makespan returns the mean time with the given workers and hop. It panics if this combination was not measured.
func (s Summary) Makespan(workers, hop int) float64 {
	w, h := slices.Index(workerCounts(), workers), slices.Index(hops(), hop)
	return s.Times[w*len(hops())+h]
}

// MeansTable returns the means of the results as a table. All scans must have
// about the given number of rows.
func MeansTable(results []Result, rows int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rows, means over %d key sets. Time 1 is a query.\n\n", rows, Summarize(results, Serial, rows).Sets)
	b.WriteString("| strategy | queries ÷ optimum (worst set) | empty queries | invocations per 1,000 rows |")
	rule := "|---|--:|--:|--:|"
	for _, workers := range workerCounts() {
		for _, hop := range hops() {
			if workers == 0 {
				fmt.Fprintf(&b, " critical path, %d per message |", hop)
			} else {
				fmt.Fprintf(&b, " %d workers, %d per message |", workers, hop)
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
	return b.String()
}

// SetsTable returns a table with a line for each key set. For each contender, the line shows the queries divided by the optimum, and the makespan with 64
// workers and hop 3 as a multiple of the bound.
func SetsTable(results []Result) string {
	var b strings.Builder
	b.WriteString("| key set | rows |")
	rule := "|---|--:|"
	shown := []Contender{Published, Prefix, Adaptive, Adaptive4, Hinted, Hinted80}
	for _, c := range shown {
		fmt.Fprintf(&b, " %s |", c)
		rule += "--:|"
	}
	b.WriteString(" progress with hints | with hints of 80 % of the rows |\n" + rule + "--:|--:|\n")
	each(results, func(of map[Contender]Result) {
		fmt.Fprintf(&b, "| %s | %d |", of[Serial].Set, of[Serial].Rows)
		for _, c := range shown {
			r := of[c]
			fmt.Fprintf(&b, " %.2f; %.1f |", queries(r), makespan(r, 3)/makespan(of[boundOf(c)], 3))
		}
		fmt.Fprintf(&b, " %s | %s |\n", of[Hinted].Progress, of[Hinted80].Progress)
	})
	return b.String()
}

// Figure is the cost of the adaptive strategy on a real set. Queries are multiples of the optimum. Makespans of 64 workers are multiples of those of other
// contenders, with hop 3 unless a name says otherwise.
type Figure struct {
	Set            string
	Pages          int
	Queries, Empty float64
	One, Four      Times // with one query and with up to four queries an invocation
	PerBound8      float64
	// The queries, and the time with one query an invocation, with hints from the same rows and with hints from 80% of them.
	Hinted, HintedTime         float64
	Hinted80, Hinted80Time     float64
	Progress, ProgressHinted80 *Progress
}

// Times expresses a makespan as multiples of other makespans: of the published scan with hop 3 and 10, of the published scan with one query an invocation,
// and of the bound with the same number of queries an invocation.
type Times struct{ PerPublished, PerPublished10, PerPrefix, PerBound float64 }

// Figures returns a figure for each set in the results, in the order of the results.
func Figures(results []Result) []Figure {
	var figures []Figure
	each(results, func(of map[Contender]Result) {
		per := func(c, other Contender, hop int) float64 { return makespan(of[c], hop) / makespan(of[other], hop) }
		times := func(c Contender) Times {
			return Times{per(c, Published, 3), per(c, Published, 10), per(c, Prefix, 3), per(c, boundOf(c), 3)}
		}
		a := of[Adaptive]
		figures = append(figures, Figure{
			Set: a.Set, Pages: a.Optimum,
			Queries: queries(a), Empty: float64(a.Empty) / float64(a.Queries),
			One: times(Adaptive), Four: times(Adaptive4), PerBound8: per(Adaptive, Bound8, 3),
			Hinted: queries(of[Hinted]), HintedTime: per(Hinted, Bound, 3),
			Hinted80: queries(of[Hinted80]), Hinted80Time: per(Hinted80, Bound, 3),
			Progress: of[Hinted].Progress, ProgressHinted80: of[Hinted80].Progress,
		})
	})
	return figures
}

// boundOf returns the bound that has the same number of queries an invocation as the contender.
func boundOf(c Contender) Contender {
	if c == Adaptive4 {
		return Bound4
	}
	return Bound
}

// Mean returns the mean of a column of the figures, and the figure with the
// largest value in this column.
func Mean(figures []Figure, column func(Figure) float64) (mean float64, worst Figure) {
	for i, f := range figures {
		mean += column(f) / float64(len(figures))
		if i == 0 || column(f) > column(worst) {
			worst = f
		}
	}
	return mean, worst
}

// RealTable returns a table of the adaptive strategy's figures on real sets, followed by the means and the worst sets.
func RealTable(figures []Figure) string {
	var b strings.Builder
	b.WriteString("| keys | pages | queries ÷ optimum | empty queries | time ÷ published | 10 per message: time ÷ published | time ÷ prefix | time ÷ bound (eight steps) | " +
		"up to 4 queries: time ÷ published | up to 4 queries, 10 per message: time ÷ published | up to 4 queries: time ÷ prefix | up to 4 queries: time ÷ bound | " +
		"hints: queries ÷ optimum; time ÷ bound | hints of 80 % of the rows: queries ÷ optimum; time ÷ bound | progress with hints | progress with hints of 80 % of the rows |\n")
	b.WriteString("|---|" + strings.Repeat("--:|", 15) + "\n")
	for _, f := range figures {
		fmt.Fprintf(&b, "| %s | %d | %.2f | %.1f %% | %.2f | %.2f | %.2f | %.2f (%.2f) | %.2f | %.2f | %.2f | %.2f | %.2f; %.2f | %.2f; %.2f | %s | %s |\n", f.Set, f.Pages, f.Queries, 100*f.Empty,
			f.One.PerPublished, f.One.PerPublished10, f.One.PerPrefix, f.One.PerBound, f.PerBound8,
			f.Four.PerPublished, f.Four.PerPublished10, f.Four.PerPrefix, f.Four.PerBound,
			f.Hinted, f.HintedTime, f.Hinted80, f.Hinted80Time, f.Progress, f.ProgressHinted80)
	}
	for _, c := range []struct {
		name   string
		column func(Figure) float64
	}{
		{"queries ÷ optimum", func(f Figure) float64 { return f.Queries }},
		{"time ÷ published", func(f Figure) float64 { return f.One.PerPublished }},
		{"time ÷ published, 10 per message", func(f Figure) float64 { return f.One.PerPublished10 }},
		{"time ÷ prefix with one query per invocation", func(f Figure) float64 { return f.One.PerPrefix }},
		{"time ÷ bound", func(f Figure) float64 { return f.One.PerBound }},
		{"time ÷ bound with up to eight new steps per query", func(f Figure) float64 { return f.PerBound8 }},
		{"up to 4 queries per invocation: time ÷ published", func(f Figure) float64 { return f.Four.PerPublished }},
		{"up to 4 queries per invocation: time ÷ published, 10 per message", func(f Figure) float64 { return f.Four.PerPublished10 }},
		{"up to 4 queries per invocation: time ÷ prefix with one query per invocation", func(f Figure) float64 { return f.Four.PerPrefix }},
		{"up to 4 queries per invocation: time ÷ bound", func(f Figure) float64 { return f.Four.PerBound }},
		{"hints of the same rows: queries ÷ optimum", func(f Figure) float64 { return f.Hinted }},
		{"hints of the same rows: time ÷ bound", func(f Figure) float64 { return f.HintedTime }},
		{"hints of 80 % of the rows: queries ÷ optimum", func(f Figure) float64 { return f.Hinted80 }},
		{"hints of 80 % of the rows: time ÷ bound", func(f Figure) float64 { return f.Hinted80Time }},
		{"hints of the same rows: progress at worst off by", func(f Figure) float64 { return f.Progress.Worst }},
		{"hints of 80 % of the rows: progress at worst off by", func(f Figure) float64 { return f.ProgressHinted80.Worst }},
	} {
		mean, worst := Mean(figures, c.column)
		fmt.Fprintf(&b, "\n- %s: %.2f on the mean, worst %.2f (%s)", c.name, mean, c.column(worst), worst.Set)
	}
	b.WriteString("\n")
	return b.String()
}

// each calls f with the results of each set, in order.
func each(results []Result, f func(of map[Contender]Result)) {
	for i := 0; i < len(results); {
		of := map[Contender]Result{}
		first := results[i]
		for ; i < len(results) && results[i].Set == first.Set && results[i].Rows == first.Rows; i++ {
			of[results[i].Contender] = results[i]
		}
		f(of)
	}
}

// String returns the share of the second half of a scan in which the status has a progress, and the progress's mean and worst error in percentage points.
func (p *Progress) String() string {
	if p.Shown == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.0f %%; %.0f (%.0f)", 100*p.Shown, 100*p.Mean, 100*p.Worst)
}

// queries returns a result's queries as a multiple of the optimum.
func queries(r Result) float64 { return float64(r.Queries) / float64(r.Optimum) }

// makespan returns a result's time with 64 workers and the given hop.
func makespan(r Result, hop int) float64 {
	return Summarize([]Result{r}, r.Contender, r.Rows).Makespan(64, hop)
}
