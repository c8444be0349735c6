package sweep

import (
	"fmt"
	"slices"
	"time"
	"unsafe"

	"tablesweep/internal/action"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

func (r *run) startRead(s *step) {
	r.state.frontier.startRead(s)
	q := storage.Query{Range: s.Range, Filter: r.scan.Filter, Select: r.scan.Select, Top: r.top.Limit(r.scan.PageRows), Token: s.Token}
	if s.Wanted != nil {
		q.Top = min(q.Top, groupMeets+keyMeets*len(s.Wanted))
	}
	partition := q.Range.Partition
	if partition != nil {
		r.pacer.limiter.Started(r.pacer.reads+*partition, q.Top)
	}
	counted := r.countedOptions(&r.pacer.source, throttle{confined: partition != nil})
	var page storage.Page
	var queries int
	read := func(o storage.RequestOptions) (_ int, err error) {
		if page, queries, err = r.scan.Source.Read(r.reading, o, q); err != nil && r.scan.table() != nil {
			err = fmt.Errorf("read the table: %w", err)
		}
		return len(page.Rows), err
	}
	r.start(func() error {
		if partition != nil {
			return r.pacer.limiter.Send(counted, r.pacer.reads+*partition, q.Top, read)
		}
		_, err := read(counted)
		return err
	}, func(took time.Duration, err error) {
		r.pacer.source.ended(took)
		if r.state.comparison != nil {
			r.top.Learn(q.Top, len(page.Rows), page.Bytes, 2)
		} else if r.scan.table() != nil { // other sources decide the size of their pages
			r.top.Learn(q.Top, len(page.Rows), page.Bytes, 1)
		}
		r.readEnded(s, page, Totals{Queries: int64(queries), Requests: counted.Counter.Requests()}, err)
	})
}

// readEnded handles the answer to a step's query. After a resume, it uses only those rows of the page that belong to
// the step.
func (r *run) readEnded(s *step, p storage.Page, did Totals, err error) {
	if err != nil {
		r.state.cancelRead(s, Totals{Requests: did.Requests})
		if !r.isExpected(err) {
			r.fail(err)
		}
		return
	}
	did.Steps, did.CriticalPath = 1, s.Depth
	if len(p.Rows) == 0 {
		did.EmptyQueries = 1
	}
	if s.Range.Partition != nil {
		did.PartitionQueries = 1
	}
	page := scan.Page{Keys: p.Keys(), Next: p.Next}
	if r.options.Trace != nil {
		r.options.Trace(Trace{Step: s.Step, Page: page})
	}
	yield, children, err := r.plan.advance(s, page)
	if err != nil {
		r.state.cancelRead(s, did)
		r.fail(err)
		return
	}
	rows := p.Rows[:yield]
	if s.Wanted != nil {
		var missing []action.Failure
		if rows, missing = s.choose(rows, page); r.scan.Filter == "" && len(missing) > 0 {
			if err := r.report(missing); err != nil {
				r.state.cancelRead(s, did)
				return
			}
			did.Rows, did.Failed = int64(len(missing)), int64(len(missing))
		}
	}
	if len(s.Done) > 0 {
		rows = slices.DeleteFunc(rows, func(e storage.Row) bool {
			return slices.ContainsFunc(s.Done, func(done span) bool { return done.contains(e.Key) })
		})
	}
	r.state.bytes += int64(p.Bytes)
	bytes := Weight(p)
	r.pacer.expect(bytes)
	r.state.recordPage(s, r.split(s, rows, bytes, children), did)
}

func (r *run) split(s *step, rows []storage.Row, bytes int, children []scan.Step) readPage {
	p := readPage{rows: rows, children: children}
	if len(rows) == 0 {
		return p
	}
	p.units = r.action.Split(rows)
	r.pacer.units = len(p.units)
	for _, u := range p.units {
		p.inUnits += int64(len(u))
	}
	if p.inUnits == 0 {
		return p
	}
	p.bytes = bytes
	return p
}

// Weight returns approximately how many bytes of memory a page uses.
func Weight(p storage.Page) int {
	return p.Bytes + len(p.Rows)*int(unsafe.Sizeof(storage.Row{}))
}
