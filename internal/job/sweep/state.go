package sweep

import (
	"errors"
	"slices"

	"tablesweep/internal/key"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// sweepState tells what is left of a sweep and what is done: the frontier, the totals and the list of
// differences, with the checkpoint that keeps them. They change together, here alone.
type sweepState struct {
	frontier    *frontier
	checkpoint  *Checkpoint // which records nothing if none was asked for
	totals      Totals      // earlier runs included
	ours        Totals      // of this run
	bytes       int64       // of all pages of this run
	differences differences
	// comparison is the action, if that is one.
	comparison Comparison
	consumes   bool // a row that is done is not found again
}

// open takes over what the checkpoint holds. after is the last listed key that earlier runs took.
// resumed is false for a sweep that has just begun.
func (b *sweepState) open(listed bool) (after *key.Key, resumed bool, err error) {
	c := b.checkpoint
	if c.frontier == nil {
		return nil, false, nil
	}
	switch {
	case c.listed && !listed:
		return nil, true, errors.New("the checkpoint is of listed rows, and the list is missing")
	case listed && !c.listed:
		return nil, true, errors.New("the checkpoint is not of listed rows")
	}
	b.frontier, b.totals = c.frontier, c.totals
	b.differences.add(c.found)
	return c.after, true, nil
}

// begin writes the first snapshot.
func (b *sweepState) begin(listed bool) error {
	b.checkpoint.listed, b.checkpoint.differences, b.checkpoint.consumes = listed, &b.differences, b.consumes
	return b.checkpoint.rewrite(b.frontier, b.totals)
}

func (b *sweepState) count(did Totals) {
	b.totals.Add(did)
	b.ours.Add(did)
}

// list adds a step that looks for rows of a partition.
func (b *sweepState) list(partition string, rows []string) {
	s := b.frontier.add(saved{Step: wantedStep(partition, rows), Depth: 1, Wanted: rows})
	b.checkpoint.list(s, key.Key{Partition: partition, Row: rows[len(rows)-1]})
}

// stolen puts thieves behind their victim.
func (b *sweepState) stolen(victim *step, thieves []*adaptive.Piece) {
	var steps []saved
	for _, t := range thieves {
		steps = append(steps, saved{Step: scan.Step{Range: t.Range()}, Depth: victim.Depth, Piece: t})
	}
	b.checkpoint.steal(victim, b.frontier.insert(victim, steps))
}

// unread makes a step wait again whose query failed or can't be used. The checkpoint
// still has it.
func (b *sweepState) unread(s *step, did Totals) {
	b.frontier.unread(s)
	b.vain(did)
}

// vain counts requests that have to be made again.
func (b *sweepState) vain(did Totals) {
	b.count(did)
	b.checkpoint.vain(did)
}

// found is a step's page: its own rows, and what is to be done with them.
type found struct {
	rows     []storage.Row
	units    [][]storage.Row
	inUnits  int64 // rows of the units
	bytes    int   // of memory
	children []scan.Step
}

// read replaces a step's query by its rows and its children.
func (b *sweepState) read(s *step, p found, did Totals) {
	var listed []Difference
	gone := int64(0)
	if s.Through == nil {
		listed = b.compare(p.rows, p.inUnits, &did)
	} else if gone = max(0, s.Left-p.inUnits); len(p.children) == 0 && b.consumes {
		// They were done, and the process died before it could say so.
		did.Rows += gone
		did.Written += gone
	}
	var children []saved
	for _, q := range p.children {
		c := saved{Step: q, Depth: s.Depth + 1, Through: s.Through, Left: gone, Done: slices.Clip(s.Done), Piece: s.Piece} // each appends on its own
		if s.Wanted != nil {
			c.Wanted = among(s.Wanted, q.Range)
		}
		children = append(children, c)
	}
	added := b.frontier.read(s, p.bytes, p.units, p.inUnits, children)
	s.Piece = nil
	b.count(did)
	var last *key.Key
	if p.inUnits > 0 { // all others have been counted
		through := p.rows[len(p.rows)-1].Key.Clone() // or else it would keep its page
		last = &through
	}
	b.checkpoint.read(s, last, p.inUnits, added, listed, did)
	b.drop(s)
}

// compare counts those rows of a page that are in no unit, and what they tell of two
// tables. It returns the differences that are to be listed.
func (b *sweepState) compare(rows []storage.Row, inUnits int64, did *Totals) []Difference {
	if b.comparison == nil {
		did.Rows += int64(len(rows)) - inUnits
		return nil
	}
	ofSource, found := b.comparison.Compare(rows)
	did.Rows += ofSource - inUnits
	for _, d := range found {
		switch d.Kind {
		case Missing:
			did.Missing++
		case Extra:
			did.Extra++
		case Different:
			did.Different++
		}
	}
	return b.differences.add(found)
}

// finishUnit ends a unit.
func (b *sweepState) finishUnit(s *step, u []storage.Row, did Totals) {
	b.frontier.finish(s, did.Rows)
	b.count(did)
	b.checkpoint.finishUnit(s, span{u[0].Key, u[len(u)-1].Key}, did)
	b.drop(s)
}

// undone ends a unit that has to be done again.
func (b *sweepState) undone(s *step, u []storage.Row, did Totals) {
	b.frontier.giveBack(s, u)
	b.vain(did)
}

// drop removes the step if all of it is done.
func (b *sweepState) drop(s *step) {
	if b.frontier.drop(s) {
		b.checkpoint.end(s)
	}
}
