package sweep

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/storage"
)

func (r *run) startRead(n *node) {
	r.frontier.startRead(n)
	q := storage.Query{Range: n.step.Range, Filter: r.scan.Filter, Select: r.scan.Select, Top: r.scan.Segment, Token: n.step.Token, Raw: r.scan.Raw}
	if n.wanted != nil {
		q.Top = min(q.Top, groupMeets+keyMeets*len(n.wanted))
	}
	if q.Range.Partition != nil {
		r.limiter.Started(r.reads+*q.Range.Partition, q.Top)
	}
	r.start(func() {
		began := time.Now()
		counter := r.counter(throttle{confined: q.Range.Partition != nil})
		var page storage.Page
		var queries int
		read := func(ctx context.Context) (_ int, err error) {
			page, queries, err = r.scan.read(ctx, q)
			return len(page.Entities), err
		}
		ctx := counter.In(r.tasks)
		var err error
		if q.Range.Partition != nil {
			err = r.limiter.Send(ctx, r.reads+*q.Range.Partition, q.Top, read)
		} else {
			_, err = read(ctx)
		}
		took := time.Since(began)
		r.events <- func() {
			r.source.ended(took)
			r.readEnded(n, page, took, Totals{Queries: int64(queries), Requests: counter.Requests()}, err)
		}
	})
}

// read makes a query of the scan.
func (s Spec) read(ctx context.Context, q storage.Query) (p storage.Page, queries int, err error) {
	if s.Read != nil {
		return s.Read(ctx, q)
	}
	if p, err = s.Table.Query(ctx, q); err != nil {
		err = fmt.Errorf("read the source: %w", err)
	}
	return p, 1, err
}

// readEnded takes in a page, or what is this node's of one read again.
func (r *run) readEnded(n *node, p storage.Page, took time.Duration, did Totals, err error) {
	if err != nil {
		r.unread(n, Totals{Requests: did.Requests})
		if !r.expected(err) {
			r.fail(err)
		}
		return
	}
	did.Steps, did.CriticalPath = 1, n.depth
	if len(p.Entities) == 0 {
		did.EmptyQueries = 1
	}
	if n.step.Range.Partition != nil {
		did.PartitionQueries = 1
	}
	page := scan.Page{Keys: p.Keys(), Next: p.Next}
	if r.options.Trace != nil {
		r.options.Trace(Trace{Step: n.step, Page: page, Took: took})
	}
	yield, children, err := r.advance(n, page)
	if err != nil {
		r.unread(n, did)
		r.fail(err)
		return
	}
	rows := p.Entities[:yield]
	if n.wanted != nil {
		var missing []action.Failure
		if rows, missing = n.choose(rows, page); r.scan.Filter == "" && len(missing) > 0 {
			if err := r.report(missing); err != nil {
				r.unread(n, did)
				return
			}
			did.Rows, did.Failed = int64(len(missing)), int64(len(missing))
		}
	}
	if len(n.done) > 0 {
		rows = slices.DeleteFunc(rows, func(e storage.Entity) bool {
			return slices.ContainsFunc(n.done, func(s span) bool { return s.contains(e.Key) })
		})
	}
	r.bytes += int64(p.Bytes)
	bytes := weight(p)
	r.expect(bytes)
	r.found(n, rows, bytes, children, did)
}

// expect takes in a page's size. Queries under way are taken for average ones, since
// those of thieves are often empty, but not for less than half of the largest. In
// order, pages stay for long, and may all be large.
func (r *run) expect(bytes int) {
	if r.largest == 0 {
		r.page = bytes
	}
	r.largest = max(r.largest, bytes)
	r.page = max(r.page+(bytes-r.page)/16, r.largest/2)
	if r.inOrder {
		r.page = r.largest
	}
}

// unread lets a node wait again whose query failed or can't be used. The checkpoint
// still has its step.
func (r *run) unread(n *node, did Totals) {
	r.frontier.unread(n)
	r.vain(did)
}

// vain counts requests whose work is still to be done.
func (r *run) vain(did Totals) {
	r.count(did)
	if c := r.options.Checkpoint; c != nil {
		c.vain(did)
	}
}

// weight is about how many bytes of memory a page takes: its text, which the rows
// refer to, and the rows.
func weight(p storage.Page) int {
	const entity, property = int(unsafe.Sizeof(storage.Entity{})), int(unsafe.Sizeof(storage.Property{}))
	bytes := p.Bytes + len(p.Entities)*entity
	for _, e := range p.Entities {
		bytes += cap(e.Properties) * property
	}
	return bytes
}

// advance returns how many rows of a page are the node's, and what is left to read
// besides.
func (r *run) advance(n *node, p scan.Page) (yield int, children []scan.Step, err error) {
	if n.strand != nil {
		yield, more := r.model.Page(n.strand, p)
		if more {
			children = []scan.Step{n.step.Continue(*p.Next)}
		}
		return yield, children, nil
	}
	if n.wanted != nil && n.through == nil {
		children, _ = n.look(p)
		return len(p.Keys), children, nil
	}
	if n.through == nil {
		o, err := r.scan.Strategy.Advance(n.step, p)
		return o.Yield, o.Children, err
	}
	yield, beyond := slices.BinarySearchFunc(p.Keys, *n.through, key.Key.Compare)
	if beyond {
		yield++
	}
	if p.Next != nil && yield == len(p.Keys) && !beyond {
		children = []scan.Step{n.step.Continue(*p.Next)}
	}
	return yield, children, nil
}

// found replaces a node's query by its rows and its children.
func (r *run) found(n *node, rows []storage.Entity, bytes int, children []scan.Step, did Totals) {
	var units [][]storage.Entity
	if len(rows) > 0 {
		units = r.action.Split(rows)
	}
	inUnits := 0
	for _, u := range units {
		inUnits += len(u)
	}
	if len(rows) > 0 {
		r.units = len(units)
	}
	if inUnits == 0 {
		bytes = 0
	}
	if r.inOrder && inUnits > 0 && r.frontier.bytes+bytes > r.options.Buffer/2 && n != r.frontier.first() {
		if n.spilled = r.spill.store(rows); n.spilled != nil {
			units, bytes = [][]storage.Entity{nil}, 0
		}
	}
	var listed []Difference
	gone := int64(0)
	if n.through == nil {
		listed = r.countRead(rows, int64(inUnits), &did)
	} else if gone = max(0, n.left-int64(inUnits)); len(children) == 0 && r.consumes {
		// They were done, and the process died before it could say so.
		did.Rows += gone
		did.Written += gone
	}
	added := r.frontier.read(n, bytes, units, int64(inUnits), children)
	for _, c := range added {
		c.through, c.left, c.done, c.strand = n.through, gone, slices.Clip(n.done), n.strand // each appends on its own
		if n.wanted != nil {
			c.wanted = among(n.wanted, c.step.Range)
		}
	}
	n.strand = nil
	r.count(did)
	if c := r.options.Checkpoint; c != nil {
		var last *key.Key
		if inUnits > 0 { // all others have been counted
			last = &rows[len(rows)-1].Key
		}
		c.read(n, last, int64(inUnits), added, listed, did)
	}
	r.drop(n)
}

// countRead counts those rows of a page that are in no unit, and what they tell of two
// tables. It returns the differences that are to be listed.
func (r *run) countRead(rows []storage.Entity, inUnits int64, did *Totals) []Difference {
	if r.comparison == nil {
		did.Rows += int64(len(rows)) - inUnits
		return nil
	}
	ofSource, found := r.comparison.Compare(rows)
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
	return r.differences.add(found)
}
