package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/scan/steal"
)

// The contenders within one process, where workers share memory and there are no
// message hops, and the bound that no scan can beat whose queries have at most
// four successors each.
const (
	InProcess      Contender = "adaptive's steps"
	Halving        Contender = "halving (Dataflux)"
	Stealing       Contender = "stealing"
	InProcessBound Contender = "bound in one process"
)

// ProcessResult is what one scan in one process cost.
type ProcessResult struct {
	Set       string
	Rows      int
	Contender Contender
	Optimum   int // queries that a serial scan takes
	Queries   int
	Empty     int // queries that yielded no row
	Time      int // makespan
}

// CompareInProcess runs every contender of one process over n rows of the set,
// with so many workers.
func CompareInProcess(set Set, n, workers int) ([]ProcessResult, error) {
	rows, err := set.table(n)
	if err != nil {
		return nil, err
	}
	optimum := rows.pages()
	split, _, err := record(rows, adaptive.Strategy{})
	if err != nil {
		return nil, err
	}
	x := schedule{workers: workers, segments: 1}
	var results []ProcessResult
	add := func(c Contender, time, queries, empty int) {
		results = append(results, ProcessResult{set.Name, len(rows.keys), c, optimum, queries, empty, time})
	}
	time, _ := x.run(split)
	queries, empty := split.count()
	add(InProcess, time, queries, empty)
	halved, err := play(rows, workers, &halving{})
	if err != nil {
		return nil, err
	}
	add(Halving, halved.time, halved.queries, halved.empty)
	stolen, err := play(rows, workers, stealing{steal.New(rows.page)})
	if err != nil {
		return nil, err
	}
	add(Stealing, stolen.time, stolen.queries, stolen.empty)
	time, _ = x.run(clairvoyant(optimum))
	add(InProcessBound, time, optimum, 0)
	return results, nil
}

// crew is a rule by which workers share a scan. S is what one of them reads.
type crew[S any] interface {
	first() S
	// query returns what a strand's first query asks for.
	query(S) key.Range
	// page takes in an answer, and returns how many of its keys are the strand's
	// own and whether it goes on.
	page(S, scan.Page) (yield int, more bool)
	// rob cuts strands for idle workers and returns the pieces cut off.
	rob(strands []S, idle int) []S
}

// played is what a scan by a crew cost.
type played struct{ time, queries, empty int }

// play runs a scan in which all queries take the same time: those under way end
// together, and the idle workers steal then.
func play[S any](t table, workers int, c crew[S]) (played, error) {
	type run struct {
		strand S
		step   scan.Step
	}
	first := c.first()
	var x played
	yielded := 0
	for running := []run{{first, scan.Step{Range: c.query(first)}}}; len(running) > 0; x.time++ {
		var next []run
		var strands []S
		n := min(workers, len(running))
		for _, r := range running[:n] {
			p := t.query(r.step)
			yield, more := c.page(r.strand, p)
			x.queries++
			yielded += yield
			if yield == 0 {
				x.empty++
			}
			if more {
				next = append(next, run{r.strand, r.step.Continue(*p.Next)})
				strands = append(strands, r.strand)
			}
		}
		next = append(next, running[n:]...)
		for _, s := range c.rob(strands, workers-len(next)) {
			next = append(next, run{s, scan.Step{Range: c.query(s)}})
		}
		running = next
	}
	if yielded != len(t.keys) {
		return x, fmt.Errorf("%T yields %d of %d rows", c, yielded, len(t.keys))
	}
	return x, nil
}

// stealing is the crew that follows package steal.
type stealing struct{ model *steal.Model }

func (stealing) first() *steal.Strand { return steal.NewStrand(key.Range{}) }

func (stealing) query(s *steal.Strand) key.Range { return s.Range() }

func (x stealing) page(s *steal.Strand, p scan.Page) (int, bool) { return x.model.Page(s, p) }

func (x stealing) rob(strands []*steal.Strand, idle int) []*steal.Strand {
	var thieves []*steal.Strand
	for _, t := range x.model.Steal(strands, idle) {
		thieves = append(thieves, t.Thieves...)
	}
	return thieves
}

// Ratio returns a contender's makespan on a set as a multiple of the bound. The
// results are those of one call of [CompareInProcess].
func Ratio(results []ProcessResult, c Contender) float64 {
	var time, bound int
	for _, r := range results {
		switch r.Contender {
		case c:
			time = r.Time
		case InProcessBound:
			bound = r.Time
		}
	}
	return float64(time) / float64(bound)
}

// WriteInProcess writes a table of scans in one process, a line for each set: the
// queries as a multiple of the optimum's and the makespan as one of the bound. The
// last line has the means.
func WriteInProcess(w io.Writer, sets [][]ProcessResult) error {
	var b strings.Builder
	b.WriteString("| key set | pages |")
	rule := "|---|--:|"
	shown := []Contender{InProcess, Halving, Stealing}
	for _, c := range shown {
		fmt.Fprintf(&b, " %s |", c)
		rule += "--:|"
	}
	b.WriteString("\n" + rule + "\n")
	means := map[Contender][2]float64{}
	for _, results := range sets {
		fmt.Fprintf(&b, "| %s | %d |", results[0].Set, results[0].Optimum)
		for _, r := range results {
			if !slices.Contains(shown, r.Contender) {
				continue
			}
			queries, time := float64(r.Queries)/float64(r.Optimum), Ratio(results, r.Contender)
			fmt.Fprintf(&b, " %.2f; %.1f |", queries, time)
			m := means[r.Contender]
			means[r.Contender] = [2]float64{m[0] + queries/float64(len(sets)), m[1] + time/float64(len(sets))}
		}
		b.WriteString("\n")
	}
	b.WriteString("| mean | |")
	for _, c := range shown {
		fmt.Fprintf(&b, " %.2f; %.1f |", means[c][0], means[c][1])
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}
