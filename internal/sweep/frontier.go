package sweep

import (
	"container/list"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/steal"
	"tablesweep/internal/storage"
)

// state is what a node is doing.
type state uint8

const (
	waiting state = iota // its query is to be made
	reading              // its query is under way
	working              // its rows are being done
)

// node is a step that is not done.
type node struct {
	id      int64
	step    scan.Step
	depth   int64 // steps from the first one to this
	state   state
	element *list.Element
	// strand is the part of the step's range that is this node's own while idle
	// workers may steal from it; nil if a strategy splits it.
	strand *steal.Strand

	// wanted are the row keys that the node looks for in its partition, sorted; nil for all rows
	// of the step's range.
	wanted []string

	// Of a page that was read before a resume, and has to be read again: the rows up
	// to through are this node's, save those in done. Its children exist already. Units
	// had left rows more to do.
	through *key.Key
	done    []span
	left    int64

	bytes   int                // of the page
	rows    int64              // of it, that no unit has done
	units   [][]storage.Entity // not started
	spilled *spilled           // the only unit's rows, where they are not in memory
	started int                // units under way
}

// span is a run of neighbouring rows, both ends included.
type span struct {
	First key.Key `json:"a"`
	Last  key.Key `json:"b"`
}

func (s span) contains(k key.Key) bool { return s.First.Compare(k) <= 0 && k.Compare(s.Last) <= 0 }

// frontier is what is left of a sweep, in table order. It is pure: it neither reads
// nor works.
type frontier struct {
	nodes list.List // of *node
	next  int64     // the next node's id

	reads, works int   // nodes reading, units under way
	ready        int   // units that could be started
	bytes        int   // of all pages
	buffered     int64 // rows of all pages
	walked       int   // nodes that looks for something to do have passed
}

func (f *frontier) first() *node { return nodeOf(f.nodes.Front()) }

func (f *frontier) after(n *node) *node { return nodeOf(n.element.Next()) }

func nodeOf(e *list.Element) *node {
	if e == nil {
		return nil
	}
	return e.Value.(*node)
}

// push appends a node.
func (f *frontier) push(n *node) {
	f.next = max(f.next, n.id+1)
	n.element = f.nodes.PushBack(n)
}

// add appends a step.
func (f *frontier) add(s scan.Step, depth int64) *node {
	n := &node{id: max(1, f.next), step: s, depth: depth}
	f.push(n)
	return n
}

// waits returns the first node that waits and may be read now, nil if there is none. ahead tells whether
// all nodes ahead of it have nothing to hand out: in order, nothing happens until
// this one is read.
func (f *frontier) waits(readable func(scan.Step) bool) (n *node, ahead bool) {
	for n = f.first(); n != nil && (n.state != waiting || !readable(n.step)); n = f.after(n) {
		f.walked++
	}
	return n, n != nil && n == f.first()
}

func (f *frontier) startRead(n *node) {
	n.state = reading
	f.reads++
}

// unread ends a query that brought nothing.
func (f *frontier) unread(n *node) {
	n.state = waiting
	f.reads--
}

// read puts a page's rows and children in the place of the node's step. rows are
// all rows that its units will do.
func (f *frontier) read(n *node, bytes int, units [][]storage.Entity, rows int64, children []scan.Step) []*node {
	f.reads--
	n.state, n.bytes, n.units, n.rows = working, bytes, units, rows
	f.ready += len(units)
	f.bytes += bytes
	f.buffered += rows
	return f.insert(n, n.depth+1, children)
}

// insert adds steps right behind a node, in table order.
func (f *frontier) insert(n *node, depth int64, steps []scan.Step) []*node {
	var added []*node
	at := n.element
	for _, s := range steps {
		one := &node{id: f.next, step: s, depth: depth}
		f.next++
		one.element = f.nodes.InsertAfter(one, at)
		at = one.element
		added = append(added, one)
	}
	return added
}

// unit returns the first unit that may be started, and its node. In order, only the
// first node's may, one at a time. Behind the last unit there may be a million nodes
// that wait, so it does not look further.
func (f *frontier) unit(inOrder bool, allowed func(partition string) bool) (*node, int) {
	ready := f.ready
	for n := f.first(); n != nil && ready > 0 && (n.state != waiting || !inOrder); n = f.after(n) {
		f.walked++
		ready -= len(n.units)
		for i, u := range n.units {
			if n.started == 0 && inOrder || !inOrder && allowed(u[0].Key.Partition) {
				return n, i
			}
		}
		if inOrder {
			break
		}
	}
	return nil, 0
}

// take starts a unit.
func (f *frontier) take(n *node, i int) []storage.Entity {
	u := n.units[i]
	n.units[i] = n.units[0]
	n.units[0] = nil // so that its place keeps nothing alive
	n.units = n.units[1:]
	n.started++
	f.works++
	f.ready--
	return u
}

// finish ends a unit of the given number of rows.
func (f *frontier) finish(n *node, rows int64) {
	n.started--
	n.rows -= rows
	f.works--
	f.buffered -= rows
}

// giveBack ends a unit that was not done.
func (f *frontier) giveBack(n *node, u []storage.Entity) {
	n.units = append(n.units, u)
	n.started--
	f.works--
	f.ready++
}

// drop removes the node if all of it is done, and reports whether it was.
func (f *frontier) drop(n *node) bool {
	if n.state != working || len(n.units) > 0 || n.started > 0 {
		return false
	}
	f.nodes.Remove(n.element)
	f.bytes -= n.bytes
	f.buffered -= n.rows
	return true
}
