package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// yield is what an invocation has read, and what it leaves to others.
type yield struct {
	runs     [][]storage.Entity // in table order; no row is missing inside a run
	children []message
	queries  int64
	ends     []adaptive.PageEnd // of the pages, unless they were read before
}

// part is a part of a step's range: rows that were read, or a step that was found and not made yet.
type part struct {
	step *scan.Step // nil if the part was read
	rows []storage.Entity
}

// reading is what an invocation has read until now.
type reading struct {
	parts   []part // in table order
	queries int
	bytes   int
}

// read makes the message's step. If the scan allows an invocation more segments, it continues with
// the steps that the first one leaves. The adaptive strategy makes as many of them at once as it may: its cuts
// are guesses, and a guess that finds no rows costs a query here, but a message and a step elsewhere. Other
// strategies make the first of them, which continues where the rows end: a partition that the
// page's end cuts is then written in one piece.
func (run *running) read(ctx context.Context, m message) (yield, error) {
	r := reading{parts: []part{{step: &m.Step}}}
	strategy := run.strategy
	if m.Rows {
		strategy = scan.Serial{}
	}
	_, wide := strategy.(adaptive.Strategy)
	start, n := time.Now(), 1
	for n > 0 {
		if err := run.round(ctx, &r, strategy, n); err != nil {
			return yield{}, err
		}
		n = 0
		if time.Since(start) <= segmentTime {
			n = r.affordable(run.segments)
		}
		if !wide {
			n = min(n, 1)
		}
	}
	return r.yield(m), nil
}

// roundQueries is the most queries that are made at once. The service's pages take up to 4 MiB, and nobody
// knows how large they are before they are there.
const roundQueries = 12

// affordable returns how many of the steps that were found the next round may make. All rounds together
// may make as many queries as there are segments. It expects pages of the mean size: if they are the largest there
// are, the invocation holds segmentBytes and those of one round.
func (r *reading) affordable(segments int) int {
	found := 0
	for _, p := range r.parts {
		if p.step != nil {
			found++
		}
	}
	if r.bytes > segmentBytes {
		return 0
	}
	small := max(1, (segmentBytes-r.bytes)/(r.bytes/r.queries+1))
	return min(found, segments-r.queries, small, roundQueries)
}

// round makes the first n steps that were found, at once.
func (run *running) round(ctx context.Context, r *reading, strategy scan.Strategy, n int) error {
	pages, asked := make([]storage.Page, n), 0
	g, ctx := task.WithContext(ctx)
	for _, p := range r.parts {
		if i := asked; p.step != nil && i < n {
			asked++
			g.Go(func() (err error) {
				pages[i], err = run.page(ctx, *p.step)
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return fatalIfPermanent("read the source", err)
	}
	var parts []part
	for _, p := range r.parts {
		if p.step == nil || len(pages) == 0 {
			parts = append(parts, p)
			continue
		}
		page := pages[0]
		pages = pages[1:]
		decided, err := strategy.Advance(*p.step, scan.Page{Keys: page.Keys(), Next: page.Next})
		if err != nil {
			return &fatalError{err}
		}
		r.queries++
		r.bytes += page.Bytes
		parts = append(parts, part{rows: slices.Clip(page.Entities[:decided.Yield])})
		for _, c := range decided.Children {
			parts = append(parts, part{step: &c})
		}
	}
	r.parts = parts
	return nil
}

// yield returns the result of reading for a message: the steps that were not made become its children.
func (r *reading) yield(m message) yield {
	s := yield{queries: int64(r.queries)}
	gap := true // a step stands between the last rows and the next
	for _, p := range r.parts {
		switch {
		case p.step != nil:
			s.children, gap = append(s.children, m.child(*p.step)), true
			continue
		case len(p.rows) == 0:
			continue
		case gap:
			s.runs, gap = append(s.runs, p.rows), false
		default:
			last := len(s.runs) - 1
			s.runs[last] = append(s.runs[last], p.rows...)
		}
		if !m.Rows {
			s.ends = append(s.ends, adaptive.PageEnd{Last: p.rows[len(p.rows)-1].Key, Rows: len(p.rows)})
		}
	}
	return s
}

func (s *yield) rows() []storage.Entity { return slices.Concat(s.runs...) }

// page makes a step's query. If it is about one partition, it first waits until that may be asked.
func (run *running) page(ctx context.Context, step scan.Step) (p storage.Page, err error) {
	q := run.query(step)
	if q.Range.Partition == nil {
		return run.source.Query(ctx, q)
	}
	err = run.limiter.Do(ctx, run.requests, action.PartitionName(run.source, *q.Range.Partition), cmp.Or(q.Top, storage.PageRows), func(o storage.RequestOptions) (int, error) {
		p, err = run.source.With(o).Query(ctx, q)
		return len(p.Entities), err
	})
	return p, err
}

func (run *running) query(step scan.Step) storage.Query {
	q := storage.Query{
		Range:  step.Range,
		Filter: run.request.Filter,
		Select: run.request.Select,
		Top:    run.request.SegmentSize,
		Token:  step.Token,
		Raw:    run.work.raw,
	}
	if !run.work.properties {
		q.Select = []string{} // the keys come anyway
	}
	return q
}

// handOverMost is how many transactions an invocation writes while others wait for its children.
// It leaves more to CopyRows, but for runs that take no more transactions than the requests that reading them
// again costs, step and message included.
const (
	handOverMost   = 200
	rereadRequests = 7
)

// handOver replaces rows by a CopyRows step for each run of them, where they are too many
// transactions to keep the children waiting. It keeps the rows of a run's first and last
// partition, which the page's ends may cut: a range that is handed over has
// whole partitions, and excludes its bounds.
func (s *yield) handOver(m message) {
	if m.Rows || len(s.children) == 0 {
		return
	}
	var handed []message
	transactions := 0
	for i, rows := range s.runs {
		first, last := rows[0].Key.Partition, rows[len(rows)-1].Key.Partition
		var kept, middle []storage.Entity
		for _, row := range rows {
			if pk := row.Key.Partition; pk == first || pk == last {
				kept = append(kept, row)
			} else {
				middle = append(middle, row)
			}
		}
		n := action.Transactions(middle)
		if transactions+n <= handOverMost || n <= rereadRequests {
			transactions += n
			continue
		}
		s.runs[i] = kept
		c := newMessage(m.Scan, scan.Step{Range: key.Range{
			Low:  &key.Bound{Key: first, Open: true},
			High: &key.Bound{Key: last, Open: true},
		}})
		c.Rows = true
		handed = append(handed, c)
	}
	s.children = append(handed, s.children...)
}
