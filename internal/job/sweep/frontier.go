package sweep

import (
	"cmp"
	"container/list"

	"tablesweep/internal/key"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

type state uint8

const (
	waiting state = iota // the step's query has not started
	reading              // the step's query is running
	working              // the rows of the step's page are being processed
)

// step is an unfinished step of the scan: its query has not ended, or its page has rows that are not done.
type step struct {
	savedStep
	state   state
	element *list.Element

	bytes   int             // bytes of memory that the page uses
	rows    int64           // the page's rows that are not done
	units   [][]storage.Row // units that have not started
	started int             // the number of running units
}

// savedStep is a step as a checkpoint stores it.
type savedStep struct {
	ID        int64 `json:"id"`
	scan.Step `json:"step"`
	Depth     int64 `json:"depth,omitempty"` // the number of steps in the chain from the first step to this one

	// If the step's page was read before a resume and must be read again, Through is the key at which the page ends. Done contains the page's
	// rows that are done. Left is the number of the page's other rows. Other steps read the rows after the page.
	Through *key.Key `json:"through,omitempty"`
	Left    int64    `json:"left,omitempty"`
	Done    []span   `json:"done,omitempty"`

	// Wanted lists, in order, the row keys that the step searches for in its partition. It is nil if the step reads all rows of its range.
	Wanted []string `json:"wanted,omitempty"`
	// Piece is the part of the range that the step still reads. Idle workers may have stolen the rest of the range. Piece is nil if a strategy
	// divides the range.
	Piece *adaptive.Piece `json:"strand,omitempty"`
}

// isConsistent returns false if the step searches for listed keys but has no partition.
func (s savedStep) isConsistent() bool { return s.Wanted == nil || s.Range.Partition != nil }

// span is a range of neighbouring rows, including both ends.
type span struct {
	First key.Key `json:"a"`
	Last  key.Key `json:"b"`
}

func (s span) contains(k key.Key) bool { return s.First.Compare(k) <= 0 && k.Compare(s.Last) <= 0 }

// frontier is the unfinished part of a sweep, in table order. It records queries and units, but does not start them.
type frontier struct {
	steps list.List // its elements are of type *step
	next  int64     // the next step's id

	reads, works int   // running queries and units
	ready        int   // units that have not started
	bytes        int   // bytes of memory that all pages use
	buffered     int64 // unfinished rows of all pages
	walked       int   // how many steps were visited in searches for work
}

func (f *frontier) first() *step { return stepOf(f.steps.Front()) }

func (f *frontier) after(s *step) *step { return stepOf(s.element.Next()) }

func stepOf(e *list.Element) *step {
	if e == nil {
		return nil
	}
	return e.Value.(*step)
}

func (f *frontier) add(one savedStep) *step { return f.insert(nil, []savedStep{one})[0] }

// insert adds steps directly after the given step, or at the end if that step is nil.
func (f *frontier) insert(before *step, all []savedStep) (added []*step) {
	for _, one := range all {
		one.ID = cmp.Or(one.ID, max(1, f.next))
		f.next = max(f.next, one.ID+1)
		s := &step{savedStep: one}
		if before == nil {
			s.element = f.steps.PushBack(s)
		} else {
			s.element = f.steps.InsertAfter(s, before.element)
		}
		before = s
		added = append(added, s)
	}
	return added
}

// nextRead returns the first waiting step that may be read now, or nil if there is none. The result isFirst reports whether this step is the
// frontier's first step. A sweep that processes rows in table order can start no unit before the first step is read.
func (f *frontier) nextRead(readable func(scan.Step) bool) (s *step, isFirst bool) {
	for s = f.first(); s != nil && (s.state != waiting || !readable(s.Step)); s = f.after(s) {
		f.walked++
	}
	return s, s != nil && s == f.first()
}

func (f *frontier) startRead(s *step) {
	s.state = reading
	f.reads++
}

func (f *frontier) cancelRead(s *step) {
	s.state = waiting
	f.reads--
}

// read stores the units of the step's page, and inserts the child steps directly after the step. The argument `rows` is the number of rows in the units.
func (f *frontier) read(s *step, bytes int, units [][]storage.Row, rows int64, children []savedStep) []*step {
	f.reads--
	s.state, s.bytes, s.units, s.rows = working, bytes, units, rows
	f.ready += len(units)
	f.bytes += bytes
	f.buffered += rows
	return f.insert(s, children)
}

// nextUnit returns the step and index of the first unit that may be started. If rows are processed in table order, nextUnit returns only units of the
// first step, one at a time. The search ends after the last unit, because there may be a million further steps, all without units.
func (f *frontier) nextUnit(inOrder bool, allowed func(partition string) bool) (*step, int) {
	ready := f.ready
	for s := f.first(); s != nil && ready > 0 && (s.state != waiting || !inOrder); s = f.after(s) {
		f.walked++
		ready -= len(s.units)
		for i, u := range s.units {
			if s.started == 0 && inOrder || !inOrder && allowed(u[0].Key.Partition) {
				return s, i
			}
		}
		if inOrder {
			break
		}
	}
	return nil, 0
}

func (f *frontier) take(s *step, i int) []storage.Row {
	u := s.units[i]
	s.units[i] = s.units[0]
	s.units[0] = nil // lets the garbage collector free the rows
	s.units = s.units[1:]
	s.started++
	f.works++
	f.ready--
	return u
}

func (f *frontier) finish(s *step, rows int64) {
	s.started--
	s.rows -= rows
	f.works--
	f.buffered -= rows
}

// giveBack puts a started unit back among the step's waiting units, because the unit's work has ended without a result.
func (f *frontier) giveBack(s *step, u []storage.Row) {
	s.units = append(s.units, u)
	s.started--
	f.works--
	f.ready++
}

// drop removes the step if it is done, and reports whether it did so.
func (f *frontier) drop(s *step) bool {
	if s.state != working || len(s.units) > 0 || s.started > 0 {
		return false
	}
	f.steps.Remove(s.element)
	f.bytes -= s.bytes
	f.buffered -= s.rows
	return true
}
