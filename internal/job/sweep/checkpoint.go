package sweep

import (
	"errors"

	"tablesweep/internal/file/journal"
	"tablesweep/internal/key"
	"tablesweep/internal/split/adaptive"
)

// Checkpoint is a file that knows what is left of a sweep. It is a journal (package journal), whose events are:
// first a snapshot (a header, and a line for each step left), then what happened since:
//
//	{"totals":{…}}                                 once, on top
//	{"node":{"id":1,"step":{…}}}                   a step left, in table order
//	{"read":1,"through":{…},"left":9,"children":[{…}]}  a step was read; rows up to through are its own, 9 of them to be done
//	{"did":1,"span":{"a":{…},"b":{…}}}             these rows of it are done
//	{"end":1}                                      all of its rows are done
//	{"steal":1,"strand":{"end":{…}},"children":[…]}  what lies behind the end was stolen
//	{"read":1,"differences":[…],"totals":{…}}      it was compared, and these are to be listed
//	{"vain":true,"totals":{…}}                     requests that failed, and are to be made again
//	{"node":{"wanted":["a"],…},"after":{…}}        a step for listed keys, and the last one listed so far
//
// A line is written as soon as its event has happened, so a killed process loses only
// what was under way. A machine that crashes may lose the last second as well. What the lines lost
// recorded is done again, which must change nothing: where it would, a page's line is on the disk before its
// rows are touched. The snapshot is renewed when much has been appended. Nothing in the file is
// secret except keys of rows.
//
// A thief that finds nothing is a step that was read without rows. Of a sweep of listed keys, the snapshot's
// header tells how far the list was taken ("listed", "after").
type Checkpoint struct {
	file     *journal.File // nil for one that records nothing
	listed   bool          // the rows to sweep are listed
	after    *key.Key      // the last of them that the sweep has taken, nil for none
	consumes bool          // a row that is done is not found again
	pages    bool          // lines of pages with rows to be done may not be on the disk

	// Of earlier runs.
	frontier *frontier // what they left, nil if there were none
	totals   Totals
	found    []Difference

	differences *differences // of this run and earlier ones
}

// line is any event of the file.
type line struct {
	Listed bool     `json:"listed,omitempty"`
	After  *key.Key `json:"after,omitempty"`

	Node     *saved   `json:"node,omitempty"`
	Read     int64    `json:"read,omitempty"`
	Through  *key.Key `json:"through,omitempty"`
	Left     int64    `json:"left,omitempty"`
	Children []saved  `json:"children,omitempty"`
	Did      int64    `json:"did,omitempty"`
	Span     *span    `json:"span,omitempty"`
	End      int64    `json:"end,omitempty"`

	Steal int64           `json:"steal,omitempty"`
	Piece *adaptive.Piece `json:"strand,omitempty"`

	Vain   bool   `json:"vain,omitempty"`
	Totals Totals `json:"totals,omitzero"` // what it adds

	Differences []Difference `json:"differences,omitempty"` // to be listed
}

// NewCheckpoint returns the checkpoint in a journal: what it holds of earlier runs is gone on with.
func NewCheckpoint(f *journal.File) (*Checkpoint, error) {
	c := &Checkpoint{file: f, differences: &differences{}}
	if err := c.restore(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return c, nil
}

// errSenseless is the error of a line that can't follow those before it.
var errSenseless = errors.New("it does not follow from those before it")

// restore takes over the events of earlier runs.
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

// apply carries out a line. It reports false, having done nothing, if the line makes no
// sense.
func (c *Checkpoint) apply(steps map[int64]*step, l line) bool {
	s := steps[l.Read+l.Did+l.End+l.Steal] // a line is of one kind
	if (s == nil) != (l.Node != nil || l.Vain) || (l.Steal != 0) != (l.Piece != nil) || !l.newSteps(steps) {
		return false
	}
	for _, one := range c.frontier.insert(s, l.added()) {
		steps[one.ID] = one
	}
	switch {
	case l.Node != nil && l.After != nil:
		c.after = l.After
	case l.Read != 0:
		s.Through, s.Left, s.Piece = l.Through, l.Left, nil
		if s.Through == nil { // no rows: all of it is done, even if the line that ends it is cut off
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

// added returns the steps that a line adds.
func (l line) added() []saved {
	if l.Node != nil {
		return append(l.Children, *l.Node)
	}
	return l.Children
}

// newSteps reports whether the steps that a line adds make sense and have new ids.
func (l line) newSteps(steps map[int64]*step) bool {
	seen := map[int64]bool{0: true}
	for _, s := range l.added() {
		if seen[s.ID] || steps[s.ID] != nil || !s.sound() {
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

// read records that s was read: through is its last row, nil if none of them is left to do,
// left how many are.
func (c *Checkpoint) read(s *step, through *key.Key, left int64, children []*step, listed []Difference, did Totals) {
	s.Through, s.Left = through, left
	c.pages = c.pages || left > 0
	c.append(line{Read: s.ID, Through: through, Left: left, Totals: did, Children: saveAll(children), Differences: listed})
}

// list records a step for listed keys, of which last is the last.
func (c *Checkpoint) list(s *step, last key.Key) {
	c.after = &last
	c.append(line{Node: &s.saved, After: c.after})
}

// steal records that what lies behind the end of s's piece was stolen.
func (c *Checkpoint) steal(s *step, thieves []*step) {
	c.append(line{Steal: s.ID, Piece: s.Piece, Children: saveAll(thieves)})
}

func saveAll(steps []*step) []saved {
	var all []saved
	for _, s := range steps {
		all = append(all, s.saved)
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

// flush writes what was recorded since the last call.
func (c *Checkpoint) flush(f *frontier, t Totals) error {
	if c.file == nil {
		return nil
	}
	if c.file.Grown() {
		return c.rewrite(f, t) // which knows what is pending
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

// rewrite replaces the file by a snapshot.
func (c *Checkpoint) rewrite(f *frontier, t Totals) error {
	if c.file == nil {
		return nil
	}
	snapshot := []any{line{Listed: c.listed, After: c.after, Totals: t, Differences: c.differences.sorted()}}
	for s := f.first(); s != nil; s = f.after(s) {
		snapshot = append(snapshot, line{Node: &s.saved})
	}
	return c.file.Renew(snapshot)
}

func (c *Checkpoint) close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}
