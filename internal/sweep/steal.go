package sweep

import (
	"math"

	"tablesweep/internal/scan"
	"tablesweep/internal/steal"
)

// steal sends the workers that the pace leaves idle to the strands under way, and
// makes what they take nodes of its own.
func (r *run) steal() {
	idle, reach := r.source.pace.Limit()-r.frontier.reads, math.Inf(1)
	if r.inOrder {
		// Pages are handed out in table order. What is too far ahead would fill the
		// buffer and wait there, and a strand of a page has nothing to gain.
		room := (r.options.Buffer-r.frontier.bytes)/max(1, r.page) - r.frontier.reads
		idle, reach = min(idle, room), float64(room*r.scan.Segment)
	}
	nodes := map[*steal.Strand]*node{}
	var strands []*steal.Strand
	for n := r.frontier.first(); n != nil; n = r.frontier.after(n) {
		if n.strand == nil {
			continue
		}
		if left, ok := r.model.Left(n.strand); ok && (!r.inOrder || left >= float64(r.scan.Segment)) {
			nodes[n.strand] = n
			strands = append(strands, n.strand)
		}
	}
	for _, theft := range r.model.Steal(strands, idle, reach) {
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
