// Package estimate estimates how many rows a key range holds by reading a part of its
// pages, and what work on them costs.
//
// A [Sample] reads in rounds. Each round asks for the next page of some strands, runs
// of keys (package steal). A strand with rows behind its page is cut into two halves,
// which are strands of the next round. While there are few strands, the sample reads
// all of them: it counts a small range. Once there are more than the budget allows, it
// draws some at random, and each one drawn stands for others: its rows count by its
// weight, the inverse of the chance that it had. So the sum is right on the mean,
// wherever the cuts fall. (Knuth, "Estimating the efficiency of backtrack programs",
// 1975; Chen, "Heuristic sampling", 1992) Only strands that have read a page are
// drawn: dropping one that may be empty would cost half of the sum for nothing.
//
// The strands are drawn in several groups, independently of each other.
//
// The mean is right and still most sums are too small, since few places hold most rows
// of a table of paths or names. The share of the sum's rows that the sample met itself
// tells how much too small: if it met most of them, it may have seen little but the
// beginning of the range. That share decides how wide the range is.
//
// The package is pure. A Sample is not safe for concurrent use.
package estimate

import (
	"math"
	"math/rand/v2"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/steal"
)

// groups is the number of independent draws.
const groups = 8

// Sample reads a part of a key range. Make it with [New].
type Sample struct {
	segment int
	budget  int // queries; Afford and Hurry lower it
	most    int // the budget given to New
	random  *rand.Rand
	model   *steal.Model
	strands []strand // of the round, not answered yet
	going   []strand // of the round, answered, with rows behind their page
	drawn   bool     // some strands were left out

	queries int
	met     int                // rows
	counted sums               // of strands that stand for themselves
	group   [groups]sums       // of those drawn for a group
	busiest map[string]float64 // rows of partitions that fill pages
}

// strand is a run of keys. It stands for as many as its weight.
type strand struct {
	*steal.Strand
	step   scan.Step
	weight float64
	group  int
	empty  bool // its last page had no rows, so nothing tells where to cut
}

// sums are weighted numbers of rows, and of the transactions that write them.
type sums struct{ rows, transactions float64 }

// New returns a sample of a range of partition keys. It makes about so many queries, for
// pages of segment rows. Equal answers make equal samples.
func New(r key.Range, segment, queries int) *Sample {
	s := &Sample{segment: segment, budget: queries, most: queries, random: rand.New(rand.NewPCG(1, 2)), model: steal.New(segment), busiest: map[string]float64{}}
	if !r.Empty() {
		s.strands = []strand{{Strand: steal.NewStrand(r), step: scan.Step{Range: r}, weight: 1}}
	}
	return s
}

// Queries returns the queries that are left of the round. They can be made at once. A
// complete sample has none.
func (s *Sample) Queries() []scan.Step {
	if s.queries > 2*s.most {
		return nil
	}
	steps := make([]scan.Step, len(s.strands))
	for i, x := range s.strands {
		steps[i] = x.step
	}
	return steps
}

// Afford says how many queries there is time for. The sample makes about as many, and
// no more than its budget.
func (s *Sample) Afford(queries int) { s.budget = min(s.most, queries) }

// Hurry makes the sample end soon.
func (s *Sample) Hurry() { s.Afford(s.queries) }

// Answer takes in the answers to the first of the queries, in their order.
func (s *Sample) Answer(pages []scan.Page) {
	for i, x := range s.strands[:len(pages)] {
		s.queries++
		yield, more := s.model.Page(x.Strand, pages[i])
		s.add(x, pages[i].Keys[:yield])
		if more {
			x.step, x.empty = x.step.Continue(*pages[i].Next), len(pages[i].Keys) == 0
			s.going = append(s.going, x)
		}
	}
	s.strands = s.strands[len(pages):]
	if len(s.strands) == 0 {
		s.begin(s.draw(s.going))
		s.going = nil
	}
}

// begin makes the strands and their thieves the next round's.
func (s *Sample) begin(strands []strand) {
	for _, x := range strands {
		s.strands = append(s.strands, x)
		if x.empty {
			continue
		}
		for _, t := range s.model.Halve(x.Strand) {
			s.strands = append(s.strands, strand{Strand: t, step: scan.Step{Range: t.Range()}, weight: x.weight, group: x.group})
		}
	}
}

func (s *Sample) add(x strand, keys []key.Key) {
	if len(keys) == 0 {
		return
	}
	s.met += len(keys)
	to := &s.counted
	if s.drawn {
		to = &s.group[x.group]
	}
	to.rows += x.weight * float64(len(keys))
	to.transactions += x.weight * float64(transactions(keys))
	if first := keys[0].Partition; first == keys[len(keys)-1].Partition {
		s.busiest[first] += x.weight * float64(len(keys))
	}
}

// transactions returns how many entity group transactions write the rows.
func transactions(keys []key.Key) int {
	const most = 100 // rows
	n, rows := 0, 0
	for i, k := range keys {
		if i == 0 || k.Partition != keys[i-1].Partition || rows == most {
			n, rows = n+1, 0
		}
		rows++
	}
	return n
}

// draw returns the strands to go on with. Each makes about two queries a round, its own
// and its thief's, and what is left of the budget has to last for some rounds.
func (s *Sample) draw(strands []strand) []strand {
	const rounds = 2.5
	most := max(groups, int(float64(s.budget-s.queries)/(2*rounds)))
	if len(strands) <= most {
		return strands
	}
	if !s.drawn {
		s.drawn = true
		for i := range strands {
			strands[i].group = i % groups
		}
	}
	var of [groups][]strand
	for _, x := range strands {
		of[x.group] = append(of[x.group], x)
	}
	var drawn []strand
	for _, g := range of {
		drawn = append(drawn, s.some(g, most/groups)...)
	}
	return drawn
}

// some draws n strands, each with a chance proportional to its weight. It raises the
// weights of those that it might have left out.
func (s *Sample) some(strands []strand, n int) []strand {
	if len(strands) <= n {
		return strands
	}
	s.random.Shuffle(len(strands), func(i, j int) { strands[i], strands[j] = strands[j], strands[i] })
	unit := 0.0 // a strand of this weight is drawn for sure
	for certain := -1; ; {
		sum, now := 0.0, 0
		for _, x := range strands {
			if certain >= 0 && x.weight >= unit {
				now++
			} else {
				sum += x.weight
			}
		}
		if now == certain || now >= n {
			break
		}
		certain, unit = now, sum/float64(n-now)
	}
	var drawn []strand
	at := s.random.Float64() * unit
	for _, x := range strands {
		if x.weight >= unit {
			drawn = append(drawn, x)
			continue
		}
		if at -= x.weight; at < 0 {
			at += unit
			x.weight = unit
			drawn = append(drawn, x)
		}
	}
	return drawn
}

// Interval is a number known to lie between two others.
type Interval struct{ Low, High float64 }

// Estimate is what a sample has found.
type Estimate struct {
	// Rows is the number of rows. Both ends are equal if the sample counted all rows.
	Rows Interval
	// Transactions is the number of transactions that write the rows.
	Transactions Interval
	// Busiest is about how many rows the largest partition has.
	Busiest float64
	Exact   bool // the sample counted all rows
	Queries int  // of the sample
}

// within returns the range of the true number of rows, as multiples of the sum. met is the
// share of the sum's rows that the sample met itself; cut means that it ran out of queries.
// Every second kind of table served to choose the curves. 9 of 10 tables lie between them,
// whether they have 2 pages for each query or 20.
func within(met float64, cut bool) (low, high float64) {
	low, high = min(0.6, 1.6*math.Pow(met, 0.6)), 24*math.Pow(met, 0.65)
	if cut {
		high = max(high, 50*met)
	}
	return low, high
}

// Estimate returns what the sample has found so far.
func (s *Sample) Estimate() Estimate {
	e := Estimate{Queries: s.queries, Exact: !s.drawn && len(s.strands) == 0}
	for _, rows := range s.busiest {
		e.Busiest = max(e.Busiest, rows)
	}
	if e.Exact {
		e.Rows = Interval{s.counted.rows, s.counted.rows}
		e.Transactions = Interval{s.counted.transactions, s.counted.transactions}
		return e
	}
	all := s.counted
	for _, g := range s.group {
		all.rows += g.rows
		all.transactions += g.transactions
	}
	below, above := within(float64(s.met)/max(1, all.rows), len(s.strands) > 0)
	low := max(float64(s.met), all.rows*below)
	high := max(low, all.rows*above, float64(s.segment)) // that no row was met is no count
	e.Rows = Interval{low, high}
	each := all.transactions / max(1, all.rows)
	e.Transactions = Interval{low * each, high * each}
	return e
}
