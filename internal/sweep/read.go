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

func (r *run) startRead(s *step) {
	r.frontier.startRead(s)
	q := storage.Query{Range: s.Range, Filter: r.scan.Filter, Select: r.scan.Select, Top: r.scan.Segment, Token: s.Token, Raw: r.scan.Raw}
	if s.wanted != nil {
		q.Top = min(q.Top, groupMeets+keyMeets*len(s.wanted))
	}
	if q.Range.Partition != nil {
		r.limiter.Started(r.reads+*q.Range.Partition, q.Top)
	}
	r.start(func() {
		began := time.Now()
		counted := r.counted(throttle{confined: q.Range.Partition != nil})
		var page storage.Page
		var queries int
		read := func(o storage.RequestOptions) (_ int, err error) {
			page, queries, err = r.scan.read(r.tasks, o, q)
			return len(page.Entities), err
		}
		var err error
		if q.Range.Partition != nil {
			err = r.limiter.Send(counted, r.reads+*q.Range.Partition, q.Top, read)
		} else {
			_, err = read(counted)
		}
		took := time.Since(began)
		r.events <- func() {
			r.source.ended(took)
			r.readEnded(s, page, took, Totals{Queries: int64(queries), Requests: counted.Counter.Requests()}, err)
		}
	})
}

// read makes a query of the scan, by requests with the options.
func (s Spec) read(ctx context.Context, o storage.RequestOptions, q storage.Query) (p storage.Page, queries int, err error) {
	if s.Read != nil {
		return s.Read(ctx, o, q)
	}
	if p, err = s.Table.With(o).Query(ctx, q); err != nil {
		err = fmt.Errorf("read the source: %w", err)
	}
	return p, 1, err
}

// readEnded handles the answer to a step's query. After a resume, only the step's own rows of
// the page count.
func (r *run) readEnded(s *step, p storage.Page, took time.Duration, did Totals, err error) {
	if err != nil {
		r.unread(s, Totals{Requests: did.Requests})
		if !r.expected(err) {
			r.fail(err)
		}
		return
	}
	did.Steps, did.CriticalPath = 1, s.depth
	if len(p.Entities) == 0 {
		did.EmptyQueries = 1
	}
	if s.Range.Partition != nil {
		did.PartitionQueries = 1
	}
	page := scan.Page{Keys: p.Keys(), Next: p.Next}
	if r.options.Trace != nil {
		r.options.Trace(Trace{Step: s.Step, Page: page, Took: took})
	}
	yield, children, err := r.advance(s, page)
	if err != nil {
		r.unread(s, did)
		r.fail(err)
		return
	}
	rows := p.Entities[:yield]
	if s.wanted != nil {
		var missing []action.Failure
		if rows, missing = s.choose(rows, page); r.scan.Filter == "" && len(missing) > 0 {
			if err := r.report(missing); err != nil {
				r.unread(s, did)
				return
			}
			did.Rows, did.Failed = int64(len(missing)), int64(len(missing))
		}
	}
	if len(s.done) > 0 {
		rows = slices.DeleteFunc(rows, func(e storage.Entity) bool {
			return slices.ContainsFunc(s.done, func(done span) bool { return done.contains(e.Key) })
		})
	}
	r.bytes += int64(p.Bytes)
	bytes := weight(p)
	r.expect(bytes)
	r.found(s, rows, bytes, children, did)
}

// expect updates the size to expect of the pages under way: the average, since thieves' pages
// are often empty, but at least half of the largest. In table order pages are held for long,
// so each is expected to be as large as the largest.
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

// unread makes a step wait again whose query failed or can't be used. The checkpoint
// still has it.
func (r *run) unread(s *step, did Totals) {
	r.frontier.unread(s)
	r.vain(did)
}

// vain counts requests that have to be made again.
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

// advance returns how many rows of a page are the step's, and what is left to read
// besides.
func (r *run) advance(s *step, p scan.Page) (yield int, children []scan.Step, err error) {
	if s.strand != nil {
		yield, more := r.model.Page(s.strand, p)
		if more {
			children = []scan.Step{s.Continue(*p.Next)}
		}
		return yield, children, nil
	}
	if s.wanted != nil && s.through == nil {
		children, _ = s.look(p)
		return len(p.Keys), children, nil
	}
	if s.through == nil {
		o, err := r.scan.Strategy.Advance(s.Step, p)
		return o.Yield, o.Children, err
	}
	yield, beyond := slices.BinarySearchFunc(p.Keys, *s.through, key.Key.Compare)
	if beyond {
		yield++
	}
	if p.Next != nil && yield == len(p.Keys) && !beyond {
		children = []scan.Step{s.Continue(*p.Next)}
	}
	return yield, children, nil
}

// found replaces a step's query by its rows and its children.
func (r *run) found(s *step, rows []storage.Entity, bytes int, children []scan.Step, did Totals) {
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
	if r.inOrder && inUnits > 0 && r.frontier.bytes+bytes > r.options.Buffer/2 && s != r.frontier.first() {
		if s.spilled = r.spill.store(rows); s.spilled != nil {
			units, bytes = [][]storage.Entity{nil}, 0
		}
	}
	var listed []Difference
	gone := int64(0)
	if s.through == nil {
		listed = r.countRead(rows, int64(inUnits), &did)
	} else if gone = max(0, s.left-int64(inUnits)); len(children) == 0 && r.consumes {
		// They were done, and the process died before it could say so.
		did.Rows += gone
		did.Written += gone
	}
	added := r.frontier.read(s, bytes, units, int64(inUnits), children)
	for _, c := range added {
		c.through, c.left, c.done, c.strand = s.through, gone, slices.Clip(s.done), s.strand // each appends on its own
		if s.wanted != nil {
			c.wanted = among(s.wanted, c.Range)
		}
	}
	s.strand = nil
	r.count(did)
	if c := r.options.Checkpoint; c != nil {
		var last *key.Key
		if inUnits > 0 { // all others have been counted
			last = &rows[len(rows)-1].Key
		}
		c.read(s, last, int64(inUnits), added, listed, did)
	}
	r.drop(s)
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
