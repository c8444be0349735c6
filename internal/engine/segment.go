package engine

import (
	"context"
	"time"

	"tablesweep/internal/adaptive"
	"tablesweep/internal/copier"
	"tablesweep/internal/ledger"
	"tablesweep/internal/scan"
	"tablesweep/internal/storage"
)

// segments is what an invocation has read, and what it leaves to others.
type segments struct {
	rows     []storage.Entity // in table order
	children []message        // in table order
	queries  int64
	ends     []adaptive.PageEnd // of the pages, unless they were read before
}

// read makes the step's query. If the scan allows an invocation more segments, it
// goes on with the first of the children, which continues where the rows end:
// a partition cut by the page's end is then written in one piece.
func (run *running) read(ctx context.Context, m message) (segments, error) {
	s := segments{children: []message{m}}
	strategy := run.strategy
	if m.Rows {
		strategy = scan.Serial{}
	}
	start, bytes := time.Now(), 0
	for range run.segments {
		if len(s.children) == 0 || s.queries > 0 && (time.Since(start) > segmentTime || bytes > segmentBytes) {
			break
		}
		next := s.children[0]
		p, err := run.source.Query(ctx, run.query(next))
		if err != nil {
			return s, fatalIfPermanent("read the source", err)
		}
		s.queries++
		bytes += p.Bytes
		o, err := strategy.Advance(next.Step, scan.Page{Keys: p.Keys(), Next: p.Next})
		if err != nil {
			return s, &fatalError{err}
		}
		s.rows = append(s.rows, p.Entities[:o.Yield]...)
		if o.Yield > 0 && !m.Rows {
			s.ends = append(s.ends, adaptive.PageEnd{Last: p.Entities[o.Yield-1].Key, Rows: o.Yield})
		}
		children := make([]message, 0, len(o.Children)+len(s.children))
		for _, c := range o.Children {
			children = append(children, message{Version: messageVersion, Scan: m.Scan, Rows: m.Rows, Step: c})
		}
		s.children = append(children, s.children[1:]...)
	}
	return s, nil
}

func (run *running) query(m message) storage.Query {
	q := storage.Query{
		Range:  m.Step.Range,
		Filter: run.request.Filter,
		Select: run.request.Select,
		Top:    run.request.SegmentSize,
		Token:  m.Step.Token,
		Raw:    run.work.raw,
	}
	if !run.work.properties {
		q.Select = []string{} // the keys come anyway
	}
	return q
}

// handOverChunks is the number of transactions from which on an invocation leaves
// writing to CopyRows, if others wait for the children it has found. Reading
// the range again costs about seven requests, step and message included.
const handOverChunks = 200

// handOver replaces the rows by a CopyRows step for them, where they are too many
// transactions to keep the children waiting. The rows of the first and last
// partition, which may be cut by the page's ends, are kept: what is handed over is
// a range of whole partitions, its bounds excluded.
func (s *segments) handOver(m message) {
	if m.Rows || len(s.children) == 0 || len(s.rows) == 0 {
		return
	}
	first, last := s.rows[0].Key.Partition, s.rows[len(s.rows)-1].Key.Partition
	var kept, middle []storage.Entity
	for _, row := range s.rows {
		if pk := row.Key.Partition; pk == first || pk == last {
			kept = append(kept, row)
		} else {
			middle = append(middle, row)
		}
	}
	if copier.Chunks(middle) <= handOverChunks {
		return
	}
	s.rows = kept
	s.children = append([]message{{Version: messageVersion, Scan: m.Scan, Rows: true, Step: scan.Step{Range: scan.Range{
		Low:  &scan.Bound{Key: first, Open: true},
		High: &scan.Bound{Key: last, Open: true},
	}}}}, s.children...)
}

func (s *segments) steps() ([]ledger.Step, error) {
	steps := make([]ledger.Step, len(s.children))
	for i, c := range s.children {
		var err error
		if steps[i], err = c.step(); err != nil {
			return nil, err
		}
	}
	return steps, nil
}
