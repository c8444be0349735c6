package sweep

import (
	"slices"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/scan/steal"
)

// plan decides which queries a sweep makes: the first ones, those that follow a page, and
// those of idle workers that steal.
type plan struct {
	scan   Spec
	keys   *reader // what is left of the keys to sweep; nil if rows are not listed
	model  *steal.Model
	steals bool // idle workers steal, and no strategy splits the scan
}

func newPlan(s Spec) plan {
	p := plan{scan: s, model: steal.New(s.PageRows)}
	if a, ok := s.Strategy.(adaptive.Strategy); ok && a.Hints == nil && s.Keys == nil {
		p.steals = true
	}
	return p
}

// first returns the scan's first step, and its strand if idle workers steal. ok is false if there is
// nothing to read.
func (p *plan) first() (step scan.Step, strand *steal.Strand, ok bool) {
	step = scan.Step{Range: p.scan.Bounds.Range()}
	if p.steals {
		strand = steal.NewStrand(step.Range)
	} else {
		step = p.scan.Strategy.Start(p.scan.Bounds)
	}
	return step, strand, !step.Range.Empty()
}

// more reports whether there are keys that no step looks for yet.
func (p *plan) more() bool { return p.keys != nil && p.keys.peek() != nil }

// advance returns how many rows of a page are the step's, and what is left to read
// besides.
func (p *plan) advance(s *step, page scan.Page) (yield int, children []scan.Step, err error) {
	if s.strand != nil {
		yield, more := p.model.Page(s.strand, page)
		if more {
			children = []scan.Step{s.Continue(*page.Next)}
		}
		return yield, children, nil
	}
	if s.wanted != nil && s.through == nil {
		children, _ = s.settle(page)
		return len(page.Keys), children, nil
	}
	if s.through == nil {
		o, err := p.scan.Strategy.Advance(s.Step, page)
		return o.Yield, o.Children, err
	}
	yield, beyond := slices.BinarySearchFunc(page.Keys, *s.through, key.Key.Compare)
	if beyond {
		yield++
	}
	if page.Next != nil && yield == len(page.Keys) && !beyond {
		children = []scan.Step{s.Continue(*page.Next)}
	}
	return yield, children, nil
}

// theft is what idle workers take of a step.
type theft struct {
	victim  *step
	thieves []*steal.Strand
}

// steal sends idle workers to the steps under way that may be read, and have at least so many
// rows left.
func (p *plan) steal(f *frontier, idle int, least float64, readable func(scan.Step) bool) (thefts []theft) {
	steps := map[*steal.Strand]*step{}
	var strands []*steal.Strand
	for s := f.first(); s != nil; s = f.after(s) {
		if s.strand == nil || !readable(s.Step) { // more queries gain nothing from a busy partition
			continue
		}
		if left, ok := p.model.Left(s.strand); ok && left >= least {
			steps[s.strand] = s
			strands = append(strands, s.strand)
		}
	}
	for _, t := range p.model.Steal(strands, idle) {
		thefts = append(thefts, theft{steps[t.Victim], t.Thieves})
	}
	return thefts
}
