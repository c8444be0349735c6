package sweep

import (
	"cmp"
	"container/list"

	"tablesweep/internal/key"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// state is what a step is doing.
type state uint8

const (
	waiting state = iota // its query is to be made
	reading              // its query is under way
	working              // its rows are being done
)

// step is a step of the scan that is not done: its query is to be made, or its page has rows left
// to do.
type step struct {
	saved
	state   state
	element *list.Element

	bytes   int             // of the page
	rows    int64           // of it, that no unit has done
	units   [][]storage.Row // not started
	started int             // units under way
}

// saved is what a checkpoint has of a step.
type saved struct {
	ID        int64 `json:"id"`
	scan.Step `json:"step"`
	Depth     int64 `json:"depth,omitempty"` // steps from the first one to this

	// Of a page that was read before a resume, and has to be read again: the rows up
	// to Through are its own, save those in Done. Its children exist already. Units
	// had Left rows more to do.
	Through *key.Key `json:"through,omitempty"`
	Left    int64    `json:"left,omitempty"`
	Done    []span   `json:"done,omitempty"`

	// Wanted are the row keys that the step looks for in its partition, sorted; nil for all rows
	// of the step's range.
	Wanted []string `json:"wanted,omitempty"`
	// Piece is the part of the step's range that is its own while idle
	// workers may steal from it; nil if a strategy splits it.
	Piece *adaptive.Piece `json:"strand,omitempty"`
}

// sound reports whether the step has what it says: listed keys stand in one partition.
func (s saved) sound() bool { return s.Wanted == nil || s.Range.Partition != nil }

// span is a run of neighbouring rows, both ends included.
type span struct {
	First key.Key `json:"a"`
	Last  key.Key `json:"b"`
}

func (s span) contains(k key.Key) bool { return s.First.Compare(k) <= 0 && k.Compare(s.Last) <= 0 }

// frontier is what is left of a sweep, in table order. It is pure: it neither reads
// nor works.
type frontier struct {
	steps list.List // of *step
	next  int64     // the next step's id

	reads, works int   // steps reading, units under way
	ready        int   // units that could be started
	bytes        int   // of all pages
	buffered     int64 // rows of all pages
	walked       int   // steps that looks for something to do have passed
}

func (f *frontier) first() *step { return stepOf(f.steps.Front()) }

func (f *frontier) after(s *step) *step { return stepOf(s.element.Next()) }

func stepOf(e *list.Element) *step {
	if e == nil {
		return nil
	}
	return e.Value.(*step)
}

// add appends a step.
func (f *frontier) add(one saved) *step { return f.insert(nil, []saved{one})[0] }

// insert adds steps right behind another, or at the end if that is nil. One without an id gets the next one.
func (f *frontier) insert(behind *step, all []saved) (added []*step) {
	for _, one := range all {
		one.ID = cmp.Or(one.ID, max(1, f.next))
		f.next = max(f.next, one.ID+1)
		s := &step{saved: one}
		if behind == nil {
			s.element = f.steps.PushBack(s)
		} else {
			s.element = f.steps.InsertAfter(s, behind.element)
		}
		behind = s
		added = append(added, s)
	}
	return added
}

// waits returns the first step that waits and may be read now, nil if there is none. ahead tells whether
// all steps ahead of it have nothing to hand out: in order, nothing happens until
// this one is read.
func (f *frontier) waits(readable func(scan.Step) bool) (s *step, ahead bool) {
	for s = f.first(); s != nil && (s.state != waiting || !readable(s.Step)); s = f.after(s) {
		f.walked++
	}
	return s, s != nil && s == f.first()
}

func (f *frontier) startRead(s *step) {
	s.state = reading
	f.reads++
}

// unread ends a query that brought nothing.
func (f *frontier) unread(s *step) {
	s.state = waiting
	f.reads--
}

// read puts a page's rows and children in the place of the step's query. rows are
// all rows that its units will do.
func (f *frontier) read(s *step, bytes int, units [][]storage.Row, rows int64, children []saved) []*step {
	f.reads--
	s.state, s.bytes, s.units, s.rows = working, bytes, units, rows
	f.ready += len(units)
	f.bytes += bytes
	f.buffered += rows
	return f.insert(s, children)
}

// unit returns the first unit that may be started, and its step. In order, only the
// first step's may, one at a time. Behind the last unit there may be a million steps
// that wait, so it does not look further.
func (f *frontier) unit(inOrder bool, allowed func(partition string) bool) (*step, int) {
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

// take starts a unit.
func (f *frontier) take(s *step, i int) []storage.Row {
	u := s.units[i]
	s.units[i] = s.units[0]
	s.units[0] = nil // so that its place keeps nothing alive
	s.units = s.units[1:]
	s.started++
	f.works++
	f.ready--
	return u
}

// finish ends a unit of the given number of rows.
func (f *frontier) finish(s *step, rows int64) {
	s.started--
	s.rows -= rows
	f.works--
	f.buffered -= rows
}

// giveBack ends a unit that was not done.
func (f *frontier) giveBack(s *step, u []storage.Row) {
	s.units = append(s.units, u)
	s.started--
	f.works--
	f.ready++
}

// drop removes the step if all of it is done, and reports whether it was.
func (f *frontier) drop(s *step) bool {
	if s.state != working || len(s.units) > 0 || s.started > 0 {
		return false
	}
	f.steps.Remove(s.element)
	f.bytes -= s.bytes
	f.buffered -= s.rows
	return true
}
