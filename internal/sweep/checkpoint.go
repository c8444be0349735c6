package sweep

import (
	"errors"

	"tablesweep/internal/file/journal"
	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/steal"
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

	Steal  int64         `json:"steal,omitempty"`
	Strand *steal.Strand `json:"strand,omitempty"`

	Vain   bool   `json:"vain,omitempty"`
	Totals Totals `json:"totals,omitzero"` // what it adds

	Differences []Difference `json:"differences,omitempty"` // to be listed
}

// saved is a step in the file.
type saved struct {
	ID      int64     `json:"id"`
	Step    scan.Step `json:"step"`
	Depth   int64     `json:"depth,omitempty"`
	Through *key.Key  `json:"through,omitempty"`
	Left    int64     `json:"left,omitempty"`
	Done    []span    `json:"done,omitempty"`
	Wanted  []string  `json:"wanted,omitempty"`

	Strand *steal.Strand `json:"strand,omitempty"`
}

func save(s *step) saved {
	return saved{ID: s.id, Step: s.Step, Depth: s.depth, Through: s.through, Left: s.left, Done: s.done, Wanted: s.wanted, Strand: s.strand}
}

// sound reports whether the step has what it says: listed keys stand in one partition.
func (s saved) sound() bool { return s.Wanted == nil || s.Step.Range.Partition != nil }

func (s saved) step() *step {
	return &step{id: s.ID, Step: s.Step, depth: s.Depth, through: s.Through, left: s.Left, done: s.Done, wanted: s.Wanted, strand: s.Strand}
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
			c.frontier, c.totals, c.found = &frontier{next: 1}, l.Totals, l.Differences
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
	if (s == nil) != (l.Node != nil || l.Vain) || (l.Steal != 0) != (l.Strand != nil) || !l.newSteps(steps) {
		return false
	}
	switch f := c.frontier; {
	case l.Node != nil:
		s = l.Node.step()
		f.push(s)
		steps[s.id] = s
		if l.After != nil {
			c.after = l.After
		}
	case l.Read != 0:
		c.insert(steps, s, l.Children)
		s.through, s.left, s.strand = l.Through, l.Left, nil
		if s.through == nil { // no rows: all of it is done, even if the line that ends it is cut off
			s.state = working
		}
	case l.Steal != 0:
		c.insert(steps, s, l.Children)
		s.strand = l.Strand
	case l.Did != 0 && l.Span != nil:
		s.done = append(s.done, *l.Span)
		s.left -= l.Totals.Rows
	case l.End != 0:
		f.steps.Remove(s.element)
		delete(steps, s.id)
	}
	c.totals.Add(l.Totals)
	c.found = append(c.found, l.Differences...)
	return true
}

// insert adds steps right behind another.
func (c *Checkpoint) insert(steps map[int64]*step, s *step, added []saved) {
	at := s.element
	for _, a := range added {
		one := a.step()
		one.element = c.frontier.steps.InsertAfter(one, at)
		at = one.element
		steps[one.id] = one
		c.frontier.next = max(c.frontier.next, one.id+1)
	}
}

// newSteps reports whether the steps that a line adds make sense and have new ids.
func (l line) newSteps(steps map[int64]*step) bool {
	seen := map[int64]bool{0: true}
	for _, s := range l.Children {
		if seen[s.ID] || steps[s.ID] != nil || !s.sound() {
			return false
		}
		seen[s.ID] = true
	}
	return l.Node == nil || l.Node.ID != 0 && steps[l.Node.ID] == nil && l.Node.sound()
}

func (c *Checkpoint) append(l line) {
	if c.file != nil {
		c.file.Append(l)
	}
}

// read records that s was read: through is its last row, nil if none of them is left to do,
// left how many are.
func (c *Checkpoint) read(s *step, through *key.Key, left int64, children []*step, listed []Difference, did Totals) {
	s.through, s.left = through, left
	c.pages = c.pages || left > 0
	c.append(line{Read: s.id, Through: through, Left: left, Totals: did, Children: saveAll(children), Differences: listed})
}

// list records a step for listed keys, of which last is the last.
func (c *Checkpoint) list(s *step, last key.Key) {
	c.after = &last
	one := save(s)
	c.append(line{Node: &one, After: c.after})
}

// steal records that what lies behind the end of s's strand was stolen.
func (c *Checkpoint) steal(s *step, thieves []*step) {
	c.append(line{Steal: s.id, Strand: s.strand, Children: saveAll(thieves)})
}

func saveAll(steps []*step) []saved {
	var all []saved
	for _, s := range steps {
		all = append(all, save(s))
	}
	return all
}

func (c *Checkpoint) did(s *step, rows span, did Totals) {
	s.done = append(s.done, rows)
	s.left -= did.Rows
	c.append(line{Did: s.id, Span: &rows, Totals: did})
}

func (c *Checkpoint) vain(did Totals) { c.append(line{Vain: true, Totals: did}) }

func (c *Checkpoint) end(s *step) { c.append(line{End: s.id}) }

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
		one := save(s)
		snapshot = append(snapshot, line{Node: &one})
	}
	return c.file.Renew(snapshot)
}

func (c *Checkpoint) close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}
