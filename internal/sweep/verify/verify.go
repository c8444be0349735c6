// Package verify compares two tables row by row, values and types included.
//
// Both tables are read in table order, each once, by as many requests at a time as
// pay, and merged. Memory is bounded however large they are.
package verify

import (
	"context"
	"errors"
	"fmt"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/task"
)

// Kind is how a row differs.
type Kind string

// The kinds of differences.
const (
	Missing   Kind = "missing"   // only the source has it
	Extra     Kind = "extra"     // only the destination has it
	Different Kind = "different" // both have it, with other content
)

// Difference is a row that differs.
type Difference struct {
	Kind   Kind
	Key    key.Key
	Detail string         // which properties differ, and how; "" unless Different
	Source storage.Entity // the zero value if Extra
}

// Depth is how closely rows are compared.
type Depth int

// The depths.
const (
	Exact    Depth = iota // the same properties, with the same types and values
	Contains              // the destination's row has the source's properties, and may have more
	Keys                  // the destination has a row with the key
)

// Options configure a comparison.
type Options struct {
	Depth Depth
	// AllowExtra passes over rows that only the destination has.
	AllowExtra bool
	// Workers and Watch are those of [sweep.Options]; Watch is told how far the
	// source is.
	Workers int
	Watch   func(sweep.Progress)
}

// Result counts what was compared.
type Result struct {
	Rows      int64 `json:"rows"` // of the source
	Missing   int64 `json:"missing"`
	Extra     int64 `json:"extra"`
	Different int64 `json:"different"`
	Queries   int64 `json:"queries"`  // of both tables
	Requests  int64 `json:"requests"` // retries included
}

// Same reports whether no difference was found.
func (r Result) Same() bool { return r.Missing+r.Extra+r.Different == 0 }

// Tables compares the rows of two scans, which must have the same bounds, and calls
// each for every difference, in table order.
func Tables(ctx context.Context, source, destination sweep.Spec, o Options, each func(Difference) error) (Result, error) {
	g, ctx := task.WithContext(ctx)
	a, b := newStream(ctx), newStream(ctx)
	var result Result
	var totals [2]sweep.Totals
	for i, s := range []struct {
		*stream
		scan  sweep.Spec
		watch func(sweep.Progress)
	}{{a, source, o.Watch}, {b, destination, nil}} {
		g.Go(func() (err error) {
			totals[i], err = sweep.Each(ctx, s.scan, sweep.Options{Workers: o.Workers, Buffer: sweep.DefaultBuffer / 2, Watch: s.watch}, s.send)
			if err == nil {
				close(s.pages) // only then do they end; otherwise ctx does
			} else if !errors.Is(err, sweep.ErrInterrupted) {
				err = fmt.Errorf("%s: %w", [...]string{"source", "destination"}[i], err)
			}
			return err
		})
	}
	g.Go(func() error { return merge(a, b, o, &result, each) })
	err := g.Wait()
	result.Queries = totals[0].Queries + totals[1].Queries
	result.Requests = totals[0].Requests + totals[1].Requests
	return result, err
}

// stream hands over a table's rows in table order.
type stream struct {
	ctx   context.Context
	pages chan []storage.Entity
	page  []storage.Entity // what is left of the last one
}

func newStream(ctx context.Context) *stream {
	return &stream{ctx: ctx, pages: make(chan []storage.Entity)}
}

// send is called by the scan.
func (s *stream) send(rows []storage.Entity) error {
	select {
	case s.pages <- rows:
		return nil
	case <-s.ctx.Done():
		return sweep.ErrInterrupted
	}
}

// peek returns the next row, nil if there is none or if ctx has ended.
func (s *stream) peek() *storage.Entity {
	for len(s.page) == 0 {
		var ok bool
		select {
		case s.page, ok = <-s.pages:
			if !ok {
				return nil
			}
		case <-s.ctx.Done():
			return nil
		}
	}
	return &s.page[0]
}

func (s *stream) next() { s.page = s.page[1:] }

func merge(a, b *stream, o Options, r *Result, each func(Difference) error) error {
	for {
		x, y := a.peek(), b.peek()
		if a.ctx.Err() != nil { // that one is nil may mean nothing, then
			return sweep.ErrInterrupted
		}
		if x == nil && y == nil {
			return nil
		}
		order := 0 // of x and y
		switch {
		case y == nil:
			order = -1
		case x == nil:
			order = 1
		default:
			order = x.Key.Compare(y.Key)
		}
		var d *Difference
		switch {
		case order < 0:
			d = &Difference{Kind: Missing, Key: x.Key, Source: *x}
			r.Missing++
		case order == 0:
			if detail := compare(*x, *y, o.Depth); detail != "" {
				d = &Difference{Kind: Different, Key: x.Key, Detail: detail, Source: *x}
				r.Different++
			}
		case !o.AllowExtra:
			d = &Difference{Kind: Extra, Key: y.Key}
			r.Extra++
		}
		if order <= 0 {
			a.next()
			r.Rows++
		}
		if order >= 0 {
			b.next()
		}
		if d == nil {
			continue
		}
		if err := each(*d); err != nil {
			return err
		}
	}
}
