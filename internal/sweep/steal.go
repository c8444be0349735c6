package sweep

import (
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/steal"
)

// steal sends the workers that the pace leaves idle to the strands under way, and
// makes what they take steps of its own.
func (r *run) steal() {
	idle, readable := r.source.pace.Limit()-r.frontier.reads, r.readable()
	steps := map[*steal.Strand]*step{}
	var strands []*steal.Strand
	for s := r.frontier.first(); s != nil; s = r.frontier.after(s) {
		if s.strand == nil || !readable(s.Step) { // more queries gain nothing from a busy partition
			continue
		}
		// In order, pages wait long for their turn, and a comparison makes two queries a page: a
		// strand of a page has nothing to gain.
		if left, ok := r.model.Left(s.strand); ok && (!r.inOrder && r.comparison == nil || left >= float64(r.scan.Segment)) {
			steps[s.strand] = s
			strands = append(strands, s.strand)
		}
	}
	for _, theft := range r.model.Steal(strands, idle) {
		r.stolen(steps[theft.Victim], theft.Thieves)
	}
}

// stolen puts thieves behind their victim.
func (r *run) stolen(victim *step, thieves []*steal.Strand) {
	var steps []scan.Step
	for _, t := range thieves {
		steps = append(steps, scan.Step{Range: t.Range()})
	}
	added := r.frontier.insert(victim, victim.depth, steps)
	for i, s := range added {
		s.strand = thieves[i]
	}
	if c := r.options.Checkpoint; c != nil {
		c.steal(victim, added)
	}
}
