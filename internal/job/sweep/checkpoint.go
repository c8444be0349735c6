package sweep

import (
	"errors"

	"tablesweep/internal/file/journal"
	"tablesweep/internal/key"
	"tablesweep/internal/split/adaptive"
)

// Checkpoint is a file that records the state of a sweep. The file is a journal (package journal). Its first events are a snapshot: a header, and a
// line for each remaining step. The other events are the changes since the snapshot:
//
//	{"totals":{…}}                                 once, at the top
//	{"node":{"id":1,"step":{…}}}                   a remaining step, in table order
//	{"read":1,"through":{…},"left":9,"children":[{…}]}  a step was read; its rows end at through, and 9 of them are not done
//	{"did":1,"span":{"a":{…},"b":{…}}}             these rows of the step are done
//	{"end":1}                                      all rows of the step are done
//	{"steal":1,"strand":{"end":{…}},"children":[…]}  other workers took the range after the end
//	{"read":1,"differences":[…],"totals":{…}}      the step was compared, and these differences are listed
//	{"vain":true,"totals":{…}}                     requests that failed, and must be made again
//	{"node":{"wanted":["a"],…},"after":{…}}        a step for listed keys, and the last key taken from the list
//
// A line is written as soon as its event has happened, so a killed process loses only unfinished work. A crash of the machine may also lose the
// lines of the last second. If a line is lost, its work is repeated. If a repeated query may miss processed rows, as in a deletion, a page's
// line is on the disk before the page's rows are processed. The snapshot is renewed when the file has grown much. The file contains keys of rows,
// but no other secrets.
//
// In a sweep of listed keys, the snapshot's header has the member "listed", and in "after" the last key taken from the list.
type Checkpoint struct {
	file     *journal.File // nil for a checkpoint that records nothing
	listed   bool          // the sweep reads listed keys instead of a range
	after    *key.Key      // the last key that the sweep has taken from the list; nil for none
	consumes bool          // later queries do not return rows that were processed, for example because these rows were deleted
	pages    bool          // a page with unprocessed rows was recorded after the last flush

	// The fields below are the state of earlier runs.
	frontier *frontier // the unfinished part; nil if there were no earlier runs
	totals   Totals
	found    []Difference

	differences *differences // the differences of this run and earlier runs
}

// line is an event of any kind in the file.
type line struct {
	Listed bool     `json:"listed,omitempty"`
	After  *key.Key `json:"after,omitempty"`

	Node     *savedStep  `json:"node,omitempty"`
	Read     int64       `json:"read,omitempty"`
	Through  *key.Key    `json:"through,omitempty"`
	Left     int64       `json:"left,omitempty"`
	Children []savedStep `json:"children,omitempty"`
	Did      int64       `json:"did,omitempty"`
	Span     *span       `json:"span,omitempty"`
	End      int64       `json:"end,omitempty"`

	Steal int64           `json:"steal,omitempty"`
	Piece *adaptive.Piece `json:"strand,omitempty"`

	Vain   bool   `json:"vain,omitempty"`
	Totals Totals `json:"totals,omitzero"` // counts that the event adds

	Differences []Difference `json:"differences,omitempty"` // differences that the event adds to the list
}

// NewCheckpoint returns the checkpoint in a journal. If the journal contains the state of earlier runs, the sweep continues from this state.
func NewCheckpoint(f *journal.File) (*Checkpoint, error) {
	c := &Checkpoint{file: f, differences: &differences{}}
	if err := c.restore(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return c, nil
}

var errSenseless = errors.New("the line contradicts earlier lines")

func (c *Checkpoint) restore() error {
	var steps map[int64]*step
	err := journal.Events(c.file, func(l line) error {
		if steps == nil { // the header
			steps = map[int64]*step{}
			c.listed, c.after = l.Listed, l.After
			c.frontier, c.totals, c.found = &frontier{}, l.Totals, l.Differences
			return nil
		}
		if !c.apply(steps, l) {
			return errSenseless
		}
		return nil
	})
	for _, s := range steps {
		c.frontier.drop(s)
	}
	return err
}

// apply changes the checkpoint's state as the journal's line says, and returns true. If the line contradicts earlier lines, apply
// returns false and changes nothing.
func (c *Checkpoint) apply(steps map[int64]*step, l line) bool {
	s := steps[l.Read+l.Did+l.End+l.Steal] // at most one of these ids is set
	if (s == nil) != (l.Node != nil || l.Vain) || (l.Steal != 0) != (l.Piece != nil) || !l.newSteps(steps) {
		return false
	}
	for _, one := range c.frontier.insert(s, l.addedSteps()) {
		steps[one.ID] = one
	}
	switch {
	case l.Node != nil && l.After != nil:
		c.after = l.After
	case l.Read != 0:
		s.Through, s.Left, s.Piece = l.Through, l.Left, nil
		if s.Through == nil { // no row of the page is left, so the step is done, even if its end line is missing
			s.state = working
		}
	case l.Steal != 0:
		s.Piece = l.Piece
	case l.Did != 0 && l.Span != nil:
		s.Done = append(s.Done, *l.Span)
		s.Left -= l.Totals.Rows
	case l.End != 0:
		c.frontier.steps.Remove(s.element)
		delete(steps, s.ID)
	}
	c.totals.Add(l.Totals)
	c.found = append(c.found, l.Differences...)
	return true
}

func (l line) addedSteps() []savedStep {
	if l.Node != nil {
		return append(l.Children, *l.Node)
	}
	return l.Children
}

// newSteps reports whether the steps that a line adds are consistent and have new ids.
func (l line) newSteps(steps map[int64]*step) bool {
	seen := map[int64]bool{0: true}
	for _, s := range l.addedSteps() {
		if seen[s.ID] || steps[s.ID] != nil || !s.isConsistent() {
			return false
		}
		seen[s.ID] = true
	}
	return true
}

func (c *Checkpoint) append(l line) {
	if c.file != nil {
		c.file.Append(l)
	}
}

// recordRead records that a step was read. The argument `left` is the number of rows of the step's page that are not done. If `left` is 0, the argument
// `through` is nil. Otherwise, the argument `through` is the key of the page's last row.
func (c *Checkpoint) recordRead(s *step, through *key.Key, left int64, children []*step, listed []Difference, did Totals) {
	s.Through, s.Left = through, left
	c.pages = c.pages || left > 0
	c.append(line{Read: s.ID, Through: through, Left: left, Totals: did, Children: saveAll(children), Differences: listed})
}

// recordKeys records a step for listed keys. The argument `last` is the last of these keys.
func (c *Checkpoint) recordKeys(s *step, last key.Key) {
	c.after = &last
	c.append(line{Node: &s.savedStep, After: c.after})
}

// recordTheft records the thieves of a step, and the new end of the step's piece.
func (c *Checkpoint) recordTheft(s *step, thieves []*step) {
	c.append(line{Steal: s.ID, Piece: s.Piece, Children: saveAll(thieves)})
}

func saveAll(steps []*step) []savedStep {
	var all []savedStep
	for _, s := range steps {
		all = append(all, s.savedStep)
	}
	return all
}

func (c *Checkpoint) finishUnit(s *step, rows span, did Totals) {
	s.Done = append(s.Done, rows)
	s.Left -= did.Rows
	c.append(line{Did: s.ID, Span: &rows, Totals: did})
}

func (c *Checkpoint) vain(did Totals) { c.append(line{Vain: true, Totals: did}) }

func (c *Checkpoint) end(s *step) { c.append(line{End: s.ID}) }

// flush writes the lines that were recorded since the last call.
func (c *Checkpoint) flush(f *frontier, t Totals) error {
	if c.file == nil {
		return nil
	}
	if c.file.Grown() {
		return c.rewrite(f, t) // the snapshot replaces all lines, including those not yet written
	}
	err := c.file.Flush()
	if err == nil && c.pages && c.consumes {
		err = c.file.Sync()
	}
	c.pages = false
	return err
}

func (c *Checkpoint) sync() error {
	if c.file == nil {
		return nil
	}
	return c.file.Sync()
}

func (c *Checkpoint) rewrite(f *frontier, t Totals) error {
	if c.file == nil {
		return nil
	}
	snapshot := []any{line{Listed: c.listed, After: c.after, Totals: t, Differences: c.differences.first()}}
	for s := f.first(); s != nil; s = f.after(s) {
		snapshot = append(snapshot, line{Node: &s.savedStep})
	}
	return c.file.Renew(snapshot)
}

func (c *Checkpoint) close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}
