package split

import (
	"fmt"
	"strings"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/keysets"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// The contenders within one process. Its workers share memory, and there are no message hops.
const (
	InProcess Contender = "adaptive's steps"
	Stealing  Contender = "stealing"
)

// ProcessResult is the cost of one scan in one process.
type ProcessResult struct {
	Set       string
	Contender Contender
	Optimum   int // the number of queries of a serial scan
	Queries   int
	Time      int // the makespan
	Bound     int // the bound for any scan whose queries have at most four successors each
}

// ratio returns the makespan as a multiple of the bound.
func (r ProcessResult) ratio() float64 { return float64(r.Time) / float64(r.Bound) }

// CompareInProcess scans n rows of the set with both contenders of one process and the given number of workers.
func CompareInProcess(set keysets.Set, n, workers int) ([]ProcessResult, error) {
	rows, err := set.Table(n)
	if err != nil {
		return nil, err
	}
	optimum := rows.Pages()
	split, _, err := record(rows, adaptive.Strategy{})
	if err != nil {
		return nil, err
	}
	x := schedule{workers: workers, segments: 1}
	stepsTime, _ := x.play(split)
	stepsQueries, _ := split.count()
	stealTime, stealQueries, err := playStealing(rows, workers)
	if err != nil {
		return nil, err
	}
	bound, _ := x.play(clairvoyant(optimum, boundChildren))
	return []ProcessResult{
		{set.Name, InProcess, optimum, stepsQueries, stepsTime, bound},
		{set.Name, Stealing, optimum, stealQueries, stealTime, bound},
	}, nil
}

// playStealing scans like the workers of one process. most is the number of workers. All queries take the same time, so the queries under way end together.
// Afterwards, each idle worker takes a part of another worker's range.
func playStealing(t keysets.Table, most int) (time, queries int, err error) {
	type query struct {
		piece *adaptive.Piece
		step  scan.Step
	}
	workers := adaptive.NewWorkers(t.Page)
	yielded := 0
	pending := []query{{adaptive.NewPiece(key.Range{}), scan.Step{}}}
	for ; len(pending) > 0; time++ {
		var next []query
		var pieces []*adaptive.Piece
		n := min(most, len(pending))
		for _, q := range pending[:n] {
			p := t.Query(q.step)
			yield, rest := workers.Page(q.piece, q.step, p)
			queries++
			yielded += yield
			for _, step := range rest {
				next = append(next, query{q.piece, step})
				pieces = append(pieces, q.piece)
			}
		}
		next = append(next, pending[n:]...)
		for _, theft := range workers.Steal(pieces, most-len(next)) {
			for _, s := range theft.Thieves {
				next = append(next, query{s, scan.Step{Range: s.Range()}})
			}
		}
		pending = next
	}
	if yielded != len(t.Keys) {
		return 0, 0, fmt.Errorf("stealing returns %d of %d rows", yielded, len(t.Keys))
	}
	return time, queries, nil
}

// ProcessTable returns a table of scans in one process, with a line for each set. It shows the queries as a multiple of the optimum, and the makespan as a
// multiple of the bound. The last line shows the means.
func ProcessTable(sets [][]ProcessResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| key set | pages | %s | %s |\n|---|--:|--:|--:|\n", InProcess, Stealing)
	var means [2]struct{ queries, time float64 }
	for _, results := range sets {
		fmt.Fprintf(&b, "| %s | %d |", results[0].Set, results[0].Optimum)
		for i, r := range results {
			queries, time := float64(r.Queries)/float64(r.Optimum), r.ratio()
			fmt.Fprintf(&b, " %.2f; %.1f |", queries, time)
			means[i].queries += queries / float64(len(sets))
			means[i].time += time / float64(len(sets))
		}
		b.WriteString("\n")
	}
	b.WriteString("| mean | |")
	for _, m := range means {
		fmt.Fprintf(&b, " %.2f; %.1f |", m.queries, m.time)
	}
	b.WriteString("\n")
	return b.String()
}
