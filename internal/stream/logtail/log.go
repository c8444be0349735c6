package logtail

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

// Shard is the PartitionKey of a shard of a log.
type Shard string

// Log is a log in a table. It contains those rows of its shards whose row keys consist of Prefix and a key from a [Clock].
// Readers merge the rows of all shards by these keys.
type Log struct {
	Table  *storage.Table
	Shards []Shard
	Prefix string // may be empty
	Sizes  *Sizes // sizes of the rows; nil for a log that is read once
}

// Span is a part of a log. "" means no bound.
type Span struct {
	Newer string // only rows newer than this key, which may be a result of [Since]
	Older string // only rows older than this key
	// If Since is not zero, the span leaves out rows that were written before Since, by the service's clock. But rows from
	// the last 10 ms before Since may remain. The service still reads all rows between Newer and Older.
	Since time.Time
}

// filter returns the OData filter for Since. The service compares Timestamps less precisely than it returns them.
// (Azure/azure-sdk-for-python issue 45046)
func (s Span) filter() string {
	if s.Since.IsZero() {
		return ""
	}
	return "Timestamp ge datetime'" + s.Since.Add(-10*time.Millisecond).UTC().Format("2006-01-02T15:04:05.0000000Z") + "'"
}

// Newest calls the function `take` with the n newest rows of a span, newest first. If n is negative, it calls `take` with all rows. It stops
// when `take` returns false or fails. The result `more` reports whether the span may contain further, older rows. If n is at most 1,000, Newest
// makes one query for each shard, unless the service returns short pages.
func (l Log) Newest(ctx context.Context, s Span, n int, take func(storage.Row) (taken bool, err error)) (more bool, err error) {
	m, err := l.merge(ctx, s, n)
	if err != nil {
		return false, err
	}
	return m.newest(ctx, n, take)
}

// newest implements Log.Newest.
func (m *merge) newest(ctx context.Context, n int, take func(storage.Row) (taken bool, err error)) (more bool, err error) {
	for row, err := range m.rows(ctx) {
		taken := false
		if err == nil {
			taken, err = take(row)
		}
		if err != nil || !taken {
			return true, err
		}
		if n--; n == 0 {
			break
		}
	}
	return m.hasMore(), nil
}

// Trim deletes the rows before the time t, newest first. Even after an error, the result `removed` is the number of
// deleted rows.
func (l Log) Trim(ctx context.Context, t time.Time) (removed int64, err error) {
	bound := key.Bound{Key: l.Prefix + key.Inverted(t.Add(-key.Tick))}
	for _, shard := range l.Shards {
		r := l.rows(shard, Span{})
		r.Low = &bound
		n, err := action.DeleteFound(ctx, l.Table, storage.Query{Range: r}, nil)
		if removed += n; err != nil {
			return removed, fmt.Errorf("old rows of the log partition %q were not deleted: %w", shard, err)
		}
	}
	return removed, nil
}

// rows returns the key range that a span covers in a shard.
func (l Log) rows(shard Shard, s Span) key.Range {
	r := key.Range{Partition: new(string(shard))}
	switch {
	case s.Older != "":
		r.Low = &key.Bound{Key: l.Prefix + s.Older, Open: true}
	case l.Prefix != "":
		r.Low = &key.Bound{Key: l.Prefix}
	}
	if s.Newer != "" {
		r.High = &key.Bound{Key: l.Prefix + s.Newer, Open: true}
	} else {
		r.High = key.PrefixEnd(l.Prefix)
	}
	return r
}

// merge reads shards page by page and merges their rows.
type merge struct {
	table   *storage.Table
	sizes   *Sizes
	most    int // maximum number of rows of a page
	sources []source
	// The merge contains all rows that were written up to readUntil, by the service's clock. It may contain later rows.
	readUntil time.Time
}

// source is the state of one shard: the rows that were read but not taken, and the next query.
type source struct {
	query storage.Query
	rows  []storage.Row
	bytes int64 // how much memory the page with these rows uses
	ended bool
}

// merge reads the first page of each shard, with at most `top` rows. The pages' memory is counted in ctx's [memory.Part].
func (l Log) merge(ctx context.Context, s Span, top int) (*merge, error) {
	if top < 0 {
		top = storage.PageRows
	}
	sizes := l.Sizes
	if sizes == nil {
		sizes = new(Sizes)
	}
	m := &merge{table: l.Table, sizes: sizes, most: min(top, storage.PageRows), sources: make([]source, len(l.Shards))}
	readUntil := make([]time.Time, len(l.Shards))
	g, reading := task.WithContext(ctx)
	for i, shard := range l.Shards {
		m.sources[i].query = storage.Query{Range: l.rows(shard, s), Filter: s.filter()}
		g.Go(func() (err error) {
			readUntil[i], err = m.read(reading, &m.sources[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("the log cannot be read: %w", err)
	}
	m.readUntil = slices.MinFunc(readUntil, time.Time.Compare)
	return m, nil
}

// read reads pages of a shard until a page has a row or the shard ends. The first page shows the shard as it was at the time
// readUntil, or later.
func (m *merge) read(ctx context.Context, p *source) (readUntil time.Time, err error) {
	for len(p.rows) == 0 && !p.ended {
		sentAt := time.Now()
		memory.PartIn(ctx).Use(-p.bytes) // the previous page can be freed
		p.bytes, p.query.Top = 0, m.rowsOf(ctx)
		page, err := m.sizes.Query(ctx, m.table, p.query)
		if err != nil {
			return readUntil, err
		}
		p.bytes = storage.MemoryOf(page.Bytes, len(page.Rows))
		if readUntil.IsZero() {
			readUntil = page.Date.Add(-time.Since(sentAt)) // minus the query's duration, because the service may set the Date after it has read the rows
			for _, row := range page.Rows {
				if at := row.Timestamp(); at.After(readUntil) {
					readUntil = at
				}
			}
		}
		p.rows, p.query.Token, p.ended = page.Rows, page.Next, page.Next == nil
	}
	return readUntil, nil
}

// rowsOf returns the number of rows to request from a shard. If a full page fits into one answer, a full page is
// requested from each shard. Otherwise, rowsOf divides the answer's rows equally among the shards, and adds a margin for
// each shard.
func (m *merge) rowsOf(ctx context.Context) int {
	wanted := m.sizes.Rows(ctx, m.most, MaxAnswer)
	if wanted == m.most {
		return wanted
	}
	share := float64(wanted) / float64(len(m.sources))
	return min(wanted, int(share+2*math.Sqrt(share)+1))
}

// rows yields the remaining rows, newest first. After an error, rows yields nothing more.
func (m *merge) rows(ctx context.Context) iter.Seq2[storage.Row, error] {
	return func(yield func(storage.Row, error) bool) {
		for {
			var newest *source
			for i := range m.sources {
				from := &m.sources[i]
				if _, err := m.read(ctx, from); err != nil {
					yield(storage.Row{}, fmt.Errorf("the log cannot be read: %w", err))
					return
				}
				if len(from.rows) > 0 && (newest == nil || key.Less(from.rows[0].Key.Row, newest.rows[0].Key.Row)) {
					newest = from
				}
			}
			if newest == nil {
				return
			}
			row := newest.rows[0]
			newest.rows = newest.rows[1:]
			if !yield(row, nil) {
				return
			}
		}
	}
}

func (m *merge) hasMore() bool {
	for _, p := range m.sources {
		if len(p.rows) > 0 || !p.ended {
			return true
		}
	}
	return false
}
