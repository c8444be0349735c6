package sweep

import (
	"errors"
	"slices"

	"tablesweep/internal/key"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// sweepState is the state of a sweep: the frontier, the totals, the list of differences, and the checkpoint that records these three. Only the
// methods in state.go change the four, and they change the four together.
type sweepState struct {
	frontier    *frontier
	checkpoint  *Checkpoint // never nil; without a file, it records nothing
	totals      Totals      // the totals of this run and earlier runs
	ours        Totals      // the totals of this run
	bytes       int64       // bytes of all pages of this run
	differences differences
	// If the action is a comparison, the field `comparison` contains the action.
	comparison Comparison
	consumes   bool // later queries do not return rows that were processed, for example because these rows were deleted
}

// open restores the state from the checkpoint. The result `after` is the last key that earlier runs took from the list. The result `resumed` reports whether
// there were earlier runs.
func (b *sweepState) open(listed bool) (after *key.Key, resumed bool, err error) {
	c := b.checkpoint
	if c.frontier == nil {
		return nil, false, nil
	}
	switch {
	case c.listed && !listed:
		return nil, true, errors.New("the checkpoint was made with --rows, but this command has no --rows")
	case listed && !c.listed:
		return nil, true, errors.New("the checkpoint was made without --rows, but this command has --rows")
	}
	b.frontier, b.totals = c.frontier, c.totals
	b.differences.add(c.found)
	return c.after, true, nil
}

func (b *sweepState) begin(listed bool) error {
	b.checkpoint.listed, b.checkpoint.differences, b.checkpoint.consumes = listed, &b.differences, b.consumes
	return b.checkpoint.rewrite(b.frontier, b.totals)
}

func (b *sweepState) count(did Totals) {
	b.totals.Add(did)
	b.ours.Add(did)
}

func (b *sweepState) addListed(partition string, rows []string) {
	s := b.frontier.add(savedStep{Step: wantedStep(partition, rows), Depth: 1, Wanted: rows})
	b.checkpoint.recordKeys(s, key.Key{Partition: partition, Row: rows[len(rows)-1]})
}

// addThieves adds a step for each piece in `thieves`. These pieces were cut from the range of the step `victim`, for
// idle workers.
func (b *sweepState) addThieves(victim *step, thieves []*adaptive.Piece) {
	var steps []savedStep
	for _, t := range thieves {
		steps = append(steps, savedStep{Step: scan.Step{Range: t.Range()}, Depth: victim.Depth, Piece: t})
	}
	b.checkpoint.recordTheft(victim, b.frontier.insert(victim, steps))
}

// cancelRead makes a step wait again because its query failed or cannot be used. The step remains in the checkpoint.
func (b *sweepState) cancelRead(s *step, did Totals) {
	b.frontier.cancelRead(s)
	b.countVain(did)
}

// countVain counts requests that failed and must be made again.
func (b *sweepState) countVain(did Totals) {
	b.count(did)
	b.checkpoint.vain(did)
}

// readPage is a step's page: the rows that belong to the step, their units, and the step's children.
type readPage struct {
	rows     []storage.Row
	units    [][]storage.Row
	inUnits  int64 // the number of rows in the units
	bytes    int   // bytes of memory that the page uses
	children []scan.Step
}

func (b *sweepState) recordPage(s *step, p readPage, did Totals) {
	var listed []Difference
	gone := int64(0)
	if s.Through == nil {
		listed = b.compare(p.rows, p.inUnits, &did)
	} else if gone = max(0, s.Left-p.inUnits); len(p.children) == 0 && b.consumes {
		// An earlier process has processed the rows that the query no longer returns. That process died before it
		// recorded these rows.
		did.Rows += gone
		did.Written += gone
	}
	var children []savedStep
	for _, q := range p.children {
		c := savedStep{Step: q, Depth: s.Depth + 1, Through: s.Through, Left: gone, Done: slices.Clip(s.Done), Piece: s.Piece} // Done is clipped, so that appends for one child do not change another child
		if s.Wanted != nil {
			c.Wanted = rowsIn(s.Wanted, q.Range)
		}
		children = append(children, c)
	}
	added := b.frontier.read(s, p.bytes, p.units, p.inUnits, children)
	s.Piece = nil
	b.count(did)
	var last *key.Key
	if p.inUnits > 0 { // if there are no units, all rows are counted already
		through := p.rows[len(p.rows)-1].Key.Clone() // without the copy, the key would keep its page in memory
		last = &through
	}
	b.checkpoint.recordRead(s, last, p.inUnits, added, listed, did)
	b.drop(s)
}

// compare counts those rows of a page that do not belong to a unit. In a comparison, it also counts the differences, and returns the differences to
// be listed.
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

func (b *sweepState) finishUnit(s *step, u []storage.Row, did Totals) {
	b.frontier.finish(s, did.Rows)
	b.count(did)
	b.checkpoint.finishUnit(s, span{u[0].Key, u[len(u)-1].Key}, did)
	b.drop(s)
}

func (b *sweepState) repeatUnit(s *step, u []storage.Row, did Totals) {
	b.frontier.giveBack(s, u)
	b.countVain(did)
}

func (b *sweepState) drop(s *step) {
	if b.frontier.drop(s) {
		b.checkpoint.end(s)
	}
}
