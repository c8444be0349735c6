package sweep

import (
	"slices"

	"tablesweep/internal/key"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// plan decides which queries a sweep makes: the first queries, the queries that follow a page, and the queries of idle workers that take
// over parts of other workers' ranges.
type plan struct {
	scan    Spec
	keys    []key.Key // listed keys without a step
	workers *adaptive.Workers
	steals  bool // idle workers steal; false if a strategy divides the scan, or if the scan reads listed keys
}

func newPlan(s Spec) plan {
	p := plan{scan: s, workers: adaptive.NewWorkers(s.PageRows), steals: s.Steal && s.Keys == nil}
	p.workers.Partitions = s.partitions
	return p
}

// firstSteps returns the steps with which the sweep begins, or none if there is nothing to read.
func (p *plan) firstSteps() (all []savedStep) {
	for _, r := range p.ranges() {
		if r.Empty() {
			continue
		}
		one := savedStep{Step: scan.Step{Range: r}, Depth: 1}
		if p.steals {
			one.Piece = adaptive.NewPiece(r)
		} else if p.scan.From == nil {
			one.Step = p.scan.Strategy.Start(p.scan.Bounds)
		}
		all = append(all, one)
	}
	return all
}

// ranges returns the ranges of the sweep. If p.scan.From is set, there are two ranges: the rest of its partition, and all later partitions.
// Otherwise there is one range.
func (p *plan) ranges() []key.Range {
	all, from := p.scan.Bounds.Range(), p.scan.From
	if from == nil {
		return []key.Range{all}
	}
	all.Low = &key.Bound{Key: from.Partition, Open: true}
	return []key.Range{{Partition: &from.Partition, Low: &key.Bound{Key: from.Row, Open: true}}, all}
}

func (p *plan) hasMore() bool { return len(p.keys) > 0 }

// advance is called when the step s has read a page. The result `yield` is how many of the page's rows belong to s. The
// children are the steps that read the rest of s's range.
func (p *plan) advance(s *step, page scan.Page) (yield int, children []scan.Step, err error) {
	if s.Piece != nil {
		yield, children = p.workers.Page(s.Piece, s.Step, page)
		return yield, children, nil
	}
	if s.Wanted != nil && s.Through == nil {
		children, _ = s.searchRest(page)
		return len(page.Keys), children, nil
	}
	if s.Through == nil {
		o, err := p.scan.Strategy.Advance(s.Step, page)
		return o.Yield, o.Children, err
	}
	yield, beyond := slices.BinarySearchFunc(page.Keys, *s.Through, key.Key.Compare)
	if beyond {
		yield++
	}
	if page.Next != nil && yield == len(page.Keys) && !beyond {
		children = []scan.Step{s.Continue(*page.Next)}
	}
	return yield, children, nil
}

// theft holds the pieces that idle workers take from a step, the victim.
type theft struct {
	victim  *step
	thieves []*adaptive.Piece
}

// steal lets idle workers steal from other workers' steps. It leaves out a step if the function `readable` returns
// false for it, or if the step's estimated number of unread rows is less than the argument `least`.
func (p *plan) steal(f *frontier, idle int, least float64, readable func(scan.Step) bool) (thefts []theft) {
	steps := map[*adaptive.Piece]*step{}
	var pieces []*adaptive.Piece
	for s := f.first(); s != nil; s = f.after(s) {
		if s.Piece == nil || !readable(s.Step) { // further queries to a busy partition gain nothing
			continue
		}
		if left, ok := p.workers.Left(s.Piece); ok && left >= least {
			steps[s.Piece] = s
			pieces = append(pieces, s.Piece)
		}
	}
	for _, t := range p.workers.Steal(pieces, idle) {
		thefts = append(thefts, theft{steps[t.Victim], t.Thieves})
	}
	return thefts
}
