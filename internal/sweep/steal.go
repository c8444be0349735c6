package sweep

import (
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/steal"
)

// steal sends the workers that the pace leaves idle to the strands under way, and
// makes what they take nodes of its own.
func (r *run) steal() {
	idle, readable := r.source.pace.Limit()-r.frontier.reads, r.readable()
	nodes := map[*steal.Strand]*node{}
	var strands []*steal.Strand
	for n := r.frontier.first(); n != nil; n = r.frontier.after(n) {
		if n.strand == nil || !readable(n.step) { // more queries gain nothing from a busy partition
			continue
		}
		// In order, pages wait long for their turn, and a comparison makes two queries a page: a
		// strand of a page has nothing to gain.
		if left, ok := r.model.Left(n.strand); ok && (!r.inOrder && r.comparison == nil || left >= float64(r.scan.Segment)) {
			nodes[n.strand] = n
			strands = append(strands, n.strand)
		}
	}
	for _, theft := range r.model.Steal(strands, idle) {
		r.stolen(nodes[theft.Victim], theft.Thieves)
	}
}

// stolen puts thieves behind their victim.
func (r *run) stolen(victim *node, thieves []*steal.Strand) {
	var steps []scan.Step
	for _, t := range thieves {
		steps = append(steps, scan.Step{Range: t.Range()})
	}
	added := r.frontier.insert(victim, victim.depth, steps)
	for i, n := range added {
		n.strand = thieves[i]
	}
	if c := r.options.Checkpoint; c != nil {
		c.steal(victim, added)
	}
}
