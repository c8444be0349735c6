package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/life"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

const (
	readTime  = 20 * time.Second // after this time, no further page is read
	readBytes = 16 << 20         // after this number of bytes, no further page is read
	// roundQueries is the maximum number of concurrent queries. Each of their pages may need 4 MiB of memory.
	roundQueries = 12
	// Besides the children's rows, a step's commit has room for commitRows rows. It needs at most five: the step's
	// pending row, its done row, a row for a file or for failed rows, a row for retried failed rows, and the pending row
	// of a deletion.
	commitRows = 7
)

// readResult contains the rows that an invocation has read, and the steps that are left.
type readResult struct {
	spans    [][]storage.Row // sequences of rows without gaps, in table order
	children []scans.Message
	queries  int64
	ends     []scan.PageEnd   // of pages that no earlier step has read
	pages    []scans.ReadPage // pages that contain rows
}

// pageOrStep is a page that was read, or a step that was not run.
type pageOrStep struct {
	step *scan.Step // nil for a page
	rows []storage.Row
	of   scan.Step // the page's step
	end  scan.PageEnd
}

type reading struct {
	found   []pageOrStep // in table order
	queries int
	bytes   int
	page    int64 // memory of the largest page
	into    stepWork
	uses    int64 // memory that the work uses
	full    bool  // no memory for another page
}

// read runs the message's step, and then its children if the scan allows an invocation more queries. With the adaptive
// strategy, as many children as possible run concurrently. A range may have been divided at a bad key, so some of the
// children may have no rows. A child without rows costs one query if it runs here, but a message and a step if it is
// sent as a message. With other strategies, only the first child runs. The first child continues after the rows that
// were read. So if a partition has rows on two pages, this invocation writes the rows of both pages together. Exports,
// comparisons and deletes also run only the first child: an export's file must have no gaps, and a delete's pages must
// fit into one message.
func (o *stepScan) read(ctx context.Context, m scans.Message, into stepWork) (readResult, error) {
	r := reading{found: []pageOrStep{{step: &m.Step}}, into: into}
	strategy := o.Strategy
	if m.HandedOver {
		strategy = scan.Serial{}
	}
	_, wide := strategy.(adaptive.Strategy)
	start, n := time.Now(), 1
	for n > 0 {
		if err := o.round(ctx, &r, strategy, n); err != nil {
			return readResult{}, err
		}
		n = 0
		if time.Since(start) <= readTime {
			n = r.affordable(o.Queries)
		}
		for n > 0 && (r.full || !o.options.Memory.Spare(int64(n)*r.page)) {
			n--
		}
		if !wide || !into.parallel() {
			n = min(n, 1)
		}
	}
	return r.result(m), nil
}

// affordable returns how many of the found steps the next round may run. The argument `limit` is the maximum number of
// queries in all rounds together. The round's pages must not exceed the bytes that the step can still hold. Each page is
// expected to have the mean size of the earlier pages. The commit must also have room for the found steps that do not
// run, and for the children of the steps that run.
func (r *reading) affordable(limit int) int {
	steps := 0
	for _, f := range r.found {
		if f.step != nil {
			steps++
		}
	}
	room := r.into.room(r.bytes)
	if room < 0 {
		return 0
	}
	small := max(1, room/(r.bytes/r.queries+1))
	commit := max(0, (storage.MaxBatchRows-commitRows-steps)/(scan.MaxChildren-1))
	return min(steps, limit-r.queries, small, roundQueries, commit)
}

// round runs the first n steps in r.found concurrently: it reads one page for each step. If an earlier round has read
// pages, and the new pages do not fit into memory, round drops the new pages and sets r.full.
func (o *stepScan) round(ctx context.Context, r *reading, strategy scan.Strategy, n int) error {
	pages, requested, used := make([]storage.Page, n), 0, o.options.Memory.Used()
	top := o.Sizes.Top(o.Request.PageRows())
	g, all := task.WithContext(ctx)
	for _, f := range r.found {
		if i := requested; f.step != nil && i < n {
			requested++
			g.Go(func() (err error) {
				pages[i], err = o.readPage(all, *f.step)
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		if r.full = errors.Is(err, memory.ErrFull) && r.queries > 0; r.full {
			o.options.Memory.SetUsed(used)
			return nil
		}
		if o.Table() != nil && o.Reader == nil && storage.Gone(err) { // the table is gone, so waiting does not help
			err = scans.Fatal(fmt.Errorf("read the source: %w", life.Gone(err)))
		}
		return scans.FatalIfPermanent("read the source", err)
	}
	var found []pageOrStep
	for _, f := range r.found {
		if f.step == nil || len(pages) == 0 {
			found = append(found, f)
			continue
		}
		page := pages[0]
		pages = pages[1:]
		decided, err := strategy.Advance(*f.step, scan.Page{Keys: page.Keys(), Next: page.Next})
		if err != nil {
			return scans.Fatal(err)
		}
		r.queries++
		r.bytes += page.Bytes
		r.page = max(r.page, storage.MemoryOf(page.Bytes, len(page.Rows)))
		rows := slices.Clip(page.Rows[:decided.Yield])
		next := pageOrStep{of: *f.step}
		if len(rows) > 0 {
			next.end = scan.PageEnd{Last: rows[len(rows)-1].Key, Rows: len(rows)}
			if top < o.Request.PageRows() {
				next.end.Requested = top
			}
		}
		if next.rows, err = r.into.add(ctx, *f.step, page.Date, rows); err != nil {
			return err
		}
		if next.rows == nil && n == 1 { // the step does not hold the page's rows, so their memory no longer counts
			uses := r.into.uses()
			if !o.options.Memory.SetUsed(used + uses - r.uses) {
				return memory.ErrFull
			}
			r.uses = uses
		}
		found = append(found, next)
		for _, c := range decided.Children {
			found = append(found, pageOrStep{step: &c})
		}
	}
	r.found = found
	return nil
}

// result converts r to the result of the step that the message m names. Steps that were found but not run become this
// step's children.
func (r *reading) result(m scans.Message) readResult {
	s := readResult{queries: int64(r.queries)}
	gap := true // true before the first rows and after a step that was not run: the next rows then begin a new span
	for _, f := range r.found {
		switch {
		case f.step != nil:
			s.children, gap = append(s.children, scans.Message{Scan: m.Scan, HandedOver: m.HandedOver, Step: *f.step}), true
			continue
		case f.end.Rows == 0:
			continue
		case gap:
			s.spans, gap = append(s.spans, f.rows), false
		default:
			last := len(s.spans) - 1
			s.spans[last] = append(s.spans[last], f.rows...)
		}
		s.pages = append(s.pages, scans.ReadPage{Range: f.of.Range, Token: f.of.Token, Last: f.end.Last, Span: len(s.spans) - 1})
		if !m.HandedOver {
			s.ends = append(s.ends, f.end)
		}
	}
	return s
}

func (s *readResult) rows() []storage.Row { return slices.Concat(s.spans...) }

func (s *readResult) count(w written) {
	for i := range s.pages {
		s.pages[i].Rows = w.count(s.rowsOf(i))
	}
}

// rowsOf returns the rows of a page, except the rows that passOn has handed over to CopyRows steps.
func (s *readResult) rowsOf(page int) []storage.Row {
	p := s.pages[page]
	rows := s.spans[p.Span]
	behind := func(last key.Key) int {
		n, found := slices.BinarySearchFunc(rows, last, func(row storage.Row, k key.Key) int { return row.Key.Compare(k) })
		if found {
			n++
		}
		return n
	}
	from := 0
	if page > 0 && s.pages[page-1].Span == p.Span {
		from = behind(s.pages[page-1].Last)
	}
	return rows[from:behind(p.Last)]
}

// readPage runs a step's query. A query of one partition first waits for the partition's limiter.
func (o *stepScan) readPage(ctx context.Context, step scan.Step) (p storage.Page, err error) {
	q := o.query(step)
	read := func(options storage.RequestOptions) (_ int, err error) {
		p, _, err = o.Source.Read(ctx, options, q)
		return len(p.Rows), err
	}
	if o.Reader != nil {
		p, _, err = o.Reader.Read(ctx, o.options, q)
	} else if t := o.Table(); t != nil && q.Range.Partition != nil {
		err = o.Limiter.Do(ctx, o.options, action.PartitionName(t, *q.Range.Partition), q.Top, read)
	} else {
		_, err = read(o.options)
	}
	if err == nil {
		o.learn(q, p)
	}
	return p, err
}

// learn uses a page's size to decide how many rows the scan's next queries request. learn ignores pages of an export,
// because their sizes are fixed. A page of a comparison consists of two answers, so it may be twice as large as
// other pages.
func (o *stepScan) learn(q storage.Query, p storage.Page) {
	answers := 1
	if o.Reader != nil {
		answers = 2
	} else if o.Table() == nil {
		return
	}
	o.Sizes.Learn(q.Top, len(p.Rows), p.Bytes, answers)
}

func (o *stepScan) query(step scan.Step) storage.Query {
	q := storage.Query{
		Range:  step.Range,
		Filter: o.Filter,
		Select: o.Request.Select,
		Top:    o.Sizes.Top(o.Request.PageRows()),
		Token:  step.Token,
	}
	if !o.Properties {
		q.Select = []string{} // select no properties; the answer has the keys anyway
	}
	return q
}

// A step's children begin only after the step's writes. So an invocation makes only about ownTransactions transactions
// itself, and hands the other rows over to CopyRows steps. Each CopyRows step costs about rereadRequests additional
// requests, because it needs a message and reads its rows again. So a span of rows is never handed over if it needs at
// most rereadRequests transactions.
const (
	ownTransactions = 200
	rereadRequests  = 7
)

// passOn hands over spans of rows to CopyRows steps if the writes would delay the children too long. The first and the
// last partition of a span may continue on other pages, so passOn keeps their rows. The range that it hands over lies
// between these two partitions, and contains only whole partitions.
func (s *readResult) passOn(m scans.Message) {
	if m.HandedOver || len(s.children) == 0 {
		return
	}
	var handed []scans.Message
	transactions := 0
	for i, rows := range s.spans {
		first, last := rows[0].Key.Partition, rows[len(rows)-1].Key.Partition
		var kept, middle []storage.Row
		for _, row := range rows {
			if pk := row.Key.Partition; pk == first || pk == last {
				kept = append(kept, row)
			} else {
				middle = append(middle, row)
			}
		}
		n := action.Transactions(middle)
		full := len(s.children)+len(handed)+commitRows >= storage.MaxBatchRows
		if transactions+n <= ownTransactions || n <= rereadRequests || full {
			transactions += n
			continue
		}
		s.spans[i] = kept
		for p := range s.pages {
			if s.pages[p].Span == i {
				s.pages[p].Partitions = []string{first, last}
			}
		}
		between := key.Range{Low: &key.Bound{Key: first, Open: true}, High: &key.Bound{Key: last, Open: true}}
		handed = append(handed, scans.Message{Scan: m.Scan, HandedOver: true, Step: scan.Step{Range: between}})
	}
	s.children = append(handed, s.children...)
}

// note returns the step's note, which lists the ends of its pages. If the ends do not all fit into
// [scans.MaxNote] bytes, some are left out.
func (s *readResult) note() []byte {
	for most := len(s.ends); most > 0; most /= 2 {
		if b := scans.JSON(scan.Thin(s.ends, most)); len(b) <= scans.MaxNote {
			return b
		}
	}
	return nil
}

// countFailed adds the number of failed rows on each page to the page's entry in s.ends. If the
// argument `again` is true, an earlier step has read the rows, and its note contains the pages. In
// that case, countFailed makes a single entry for all failed rows.
func (s *readResult) countFailed(failed []action.Failure, again bool) {
	if len(failed) == 0 {
		return
	}
	if again {
		s.ends = []scan.PageEnd{{Last: failed[len(failed)-1].Key, Failed: len(failed)}}
		return
	}
	for _, f := range failed {
		s.endOf(f.Key).Failed++
	}
}

func (s *readResult) endOf(k key.Key) *scan.PageEnd {
	for i := range s.ends {
		if k.Compare(s.ends[i].Last) <= 0 {
			return &s.ends[i]
		}
	}
	return &s.ends[len(s.ends)-1]
}
