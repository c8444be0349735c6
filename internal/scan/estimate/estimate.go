// Package estimate finds out about how many rows a key range holds by reading a part
// of its pages, and what work on them takes.
//
// A [Sample] reads in rounds. Each round asks for the next page of some strands, runs
// of keys (package steal). A strand that goes on behind its page is cut into two
// halves, which are strands of the next round. While there are few strands, all of them
// are read: a small range is counted. Once there are too many, only some are drawn, at
// random, and each stands for those that were not: its rows count by its weight, the
// inverse of the chance that it had. That makes the sum right on the mean, wherever the
// cuts fall. (Knuth, "Estimating the efficiency of backtrack programs", 1975; Chen,
// "Heuristic sampling", 1992)
//
// The strands are drawn in several groups that know nothing of each other. How much
// their sums differ tells how far the estimate can be trusted.
//
// The package is pure. A Sample is not safe for concurrent use.
package estimate

import (
	"math/rand/v2"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/steal"
)

// groups is the number of samples that are drawn independently of each other.
const groups = 8

// Sample is a key range of which a part is read. Make it with [New].
type Sample struct {
	segment int
	budget  int // queries; Hurry lowers it
	most    int // the budget that was given
	random  *rand.Rand
	model   *steal.Model
	strands []strand
	drawn   bool // not all strands have been read

	queries int
	counted sums               // of strands that stand for themselves
	group   [groups]sums       // of those drawn for a group
	busiest map[string]float64 // rows of partitions that fill pages
}

// strand is a run of keys, and how many it stands for.
type strand struct {
	*steal.Strand
	step   scan.Step
	weight float64
	group  int
}

// sums are weighted numbers of rows, and of the transactions that writing them takes.
type sums struct{ rows, transactions float64 }

// New returns a sample of a range of partition keys by about so many queries, of pages
// of segment rows. The same answers give the same sample.
func New(r key.Range, segment, queries int) *Sample {
	s := &Sample{segment: segment, budget: queries, most: queries, random: rand.New(rand.NewPCG(1, 2)), model: steal.New(segment), busiest: map[string]float64{}}
	if !r.Empty() {
		s.strands = []strand{{Strand: steal.NewStrand(r), step: scan.Step{Range: r}, weight: 1}}
	}
	return s
}

// Queries returns the round's queries, which can be made at once. There are none when
// the sample is complete.
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

// Hurry makes the sample end soon.
func (s *Sample) Hurry() { s.budget = min(s.budget, s.queries) }

// Answer takes in the answers to the round's queries, in their order.
func (s *Sample) Answer(pages []scan.Page) {
	var next []strand
	for i, x := range s.strands {
		s.queries++
		yield, more := s.model.Page(x.Strand, pages[i])
		s.add(x, pages[i].Keys[:yield])
		if !more {
			continue
		}
		x.step = x.step.Continue(*pages[i].Next)
		next = append(next, x)
		if len(pages[i].Keys) == 0 {
			continue
		}
		for _, t := range s.model.Halve(x.Strand) {
			next = append(next, strand{Strand: t, step: scan.Step{Range: t.Range()}, weight: x.weight, group: x.group})
		}
	}
	s.strands = s.draw(next)
}

func (s *Sample) add(x strand, keys []key.Key) {
	if len(keys) == 0 {
		return
	}
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

// transactions returns how many entity group transactions writing the rows takes.
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

// draw returns the strands to read in the next round.
func (s *Sample) draw(strands []strand) []strand {
	const rounds, last = 8, 5 // that the budget is for, and what is left of it in the end
	most := s.budget / rounds
	if 2*s.queries > s.budget {
		most = max(2*groups, (s.budget-s.queries)/last)
	}
	if len(strands) <= most {
		return strands
	}
	if !s.drawn {
		s.drawn = true
		for i := range strands {
			strands[i].group = i / 2 % groups // a strand and its thief stay together
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

// some draws n strands, each with a chance proportional to its weight, and raises the
// weights of those that might not have been drawn.
func (s *Sample) some(strands []strand, n int) []strand {
	if len(strands) <= n {
		return strands
	}
	s.random.Shuffle(len(strands), func(i, j int) { strands[i], strands[j] = strands[j], strands[i] })
	unit := 0.0 // weight for which one strand is drawn for sure
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

// Interval is a number that lies between two others.
type Interval struct{ Low, High float64 }

// Estimate is what a sample has found.
type Estimate struct {
	// Rows is the number of rows. Both ends are the same if all were counted.
	Rows Interval
	// Transactions is how many it takes to write the rows.
	Transactions Interval
	// Busiest is about how many rows the largest partition has.
	Busiest float64
	Exact   bool // all rows were counted
	Queries int  // of the sample
}

// How far the number of rows may lie from the mean: below is a divisor, above a factor,
// and cut the one for samples whose queries were spent while strands went on. Rare dense
// parts of a range are often missed, so a sample says too little more often than too
// much. Of 100 tables of many kinds, 90 lay in between.
const below, above, cut = 2, 12, 17

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
	most := float64(above)
	if len(s.strands) > 0 {
		most = cut
	}
	low, high := max(s.counted.rows, all.rows/below), max(all.rows, float64(s.segment))*most
	e.Rows = Interval{low, high}
	each := all.transactions / max(1, all.rows)
	e.Transactions = Interval{low * each, high * each}
	return e
}
