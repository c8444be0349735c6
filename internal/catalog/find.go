package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// match is a record that a query has found.
type match struct {
	record  record.Record
	id      index.Identity
	version int64 // of the row
	state   wal.Standing
}

func (m match) meta() Meta {
	w := store.WriteFor(m.id)
	w.Version = m.version
	return metaOf(w)
}

// sheet is a page of an index key's partitions, merged: all their rows in the range up to
// last.
type sheet struct {
	key  wanted
	rows []storage.Entity // by RowKey
	last string           // RowKey, unless end
	end  bool             // there are no more rows
	err  error
}

// find returns a page of the records that match the query. It calls gone, if not nil, for
// each tombstone that it meets.
//
// Under each index key of the query, all matching records have the same RowKeys. So find
// reads a page under every key at once, and takes the first that has enough matches. If
// none has, it reads on under the key that has come farthest, where the fewest other
// records are in the way. A cursor is a RowKey, so it is valid under every key.
func (c *Catalog) find(ctx context.Context, q Lookup, gone func(storage.Entity)) (found []match, next string, err error) {
	p, err := c.plan(q)
	if err != nil {
		return nil, "", err
	}
	start := time.Now()
	checked := c.checking(ctx)
	x := search{Catalog: c, plan: p, gone: gone}
	after, keys, top := p.after, p.keys, storage.PageRows
	if len(keys) == 1 {
		top = p.top // if these are not enough, matches may be rare: then read whole pages
	}
	for {
		rows, more := p.window.Behind(after)
		if !more {
			break
		}
		s := c.ask(ctx, p, keys, rows, top, p.top-len(x.found))
		if s.err != nil {
			return nil, "", cmp.Or(checked(), s.err)
		}
		keys, top = []wanted{s.key}, storage.PageRows
		last, full := x.take(s)
		switch {
		case full:
			next = p.writeCursor(last)
		case s.end:
		case len(x.found) < p.top && time.Since(start) < fillTime:
			after = s.last
			continue
		default:
			next = p.writeCursor(s.last)
		}
		break
	}
	return x.found, next, checked()
}

// search is what one call of find has met so far.
type search struct {
	*Catalog
	plan  plan
	gone  func(storage.Entity)
	found []match
	met   []wal.Standing // of rows that are no matches, but may show that a match is out of date
}

// take takes the matches of a sheet. If there are enough, full is true, and last is the RowKey
// of the last row that was taken: all rows with a RowKey are taken, or none.
func (x *search) take(s sheet) (last string, full bool) {
	states := s.standings()
	var old []bool
	x.found, old = newestOnly(x.found, states, x.met)
	for i, row := range s.rows {
		if len(x.found) >= x.plan.top && row.Key.Row != s.rows[i-1].Key.Row {
			return s.rows[i-1].Key.Row, true
		}
		isGone := row.Get(store.GoneColumn) != ""
		if isGone && x.gone != nil {
			x.gone(row)
		}
		if states[i].Line != nil || isGone && len(s.key.partitions) > 1 {
			x.met = append(x.met, states[i])
		}
		if m, ok := x.match(x.plan, s.key, row); ok && !isGone && !old[i] {
			x.found = append(x.found, m)
		}
	}
	return "", false
}

// ask reads a page under each index key, all at once. It returns the first sheet that has
// need matches or reaches the end, or else the one that has come farthest.
func (c *Catalog) ask(ctx context.Context, p plan, keys []wanted, rows index.RowRange, top, need int) sheet {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan sheet, len(keys))
	for _, k := range keys { // ask does not wait for slower ones: they end with ctx
		c.reading.Go(func() error {
			s := sheet{key: k}
			if err := task.Do(func() error { s = c.readSheet(ctx, k, rows, top); return nil }); err != nil {
				s.err = err
			}
			answers <- s
			return nil
		})
	}
	var best sheet
	for i := range keys {
		s := <-answers
		switch {
		case s.err == nil && (s.end || c.matches(p, s) >= need):
			return s
		case i == 0, best.err != nil, s.err == nil && key.Less(best.last, s.last):
			best = s
		}
	}
	return best
}

// matches counts the rows that match.
func (c *Catalog) matches(p plan, s sheet) int {
	n := 0
	for _, row := range s.rows {
		if _, ok := c.match(p, s.key, row); ok && row.Get(store.GoneColumn) == "" {
			n++
		}
	}
	return n
}

// readSheet reads a page of each of the key's partitions, and keeps the rows up to the
// point that all pages have reached.
func (c *Catalog) readSheet(ctx context.Context, k wanted, rows index.RowRange, top int) sheet {
	pages := make([]storage.Page, len(k.partitions))
	var g task.Group
	for i, p := range k.partitions {
		g.Go(func() (err error) {
			pages[i], err = c.readPage(ctx, storage.Query{Range: rows.In(p.Key), Top: top})
			return err
		})
	}
	s := sheet{key: k, end: true, err: g.Wait()}
	if s.err != nil {
		return s
	}
	for _, page := range pages {
		s.rows = append(s.rows, page.Entities...)
		if page.Next == nil {
			continue
		}
		if last := page.Entities[len(page.Entities)-1].Key.Row; s.end || key.Less(last, s.last) {
			s.end, s.last = false, last
		}
	}
	if len(pages) > 1 {
		slices.SortStableFunc(s.rows, func(a, b storage.Entity) int { return key.Compare(a.Key.Row, b.Key.Row) })
	}
	if !s.end {
		s.rows = slices.DeleteFunc(s.rows, func(row storage.Entity) bool { return key.Less(s.last, row.Key.Row) })
	}
	return s
}

// readPage reads on until a page has a row, or the range ends.
func (c *Catalog) readPage(ctx context.Context, q storage.Query) (storage.Page, error) {
	for range maxEmpty {
		page, err := c.Index.Query(ctx, q)
		if err != nil {
			return page, fmt.Errorf("catalog %s: %w", c.Name, err)
		}
		if len(page.Entities) > 0 || page.Next == nil {
			return page, nil
		}
		q.Token = page.Next
	}
	return storage.Page{}, problem.Busyf("", "the storage keeps sending empty pages; try again")
}

// match returns the row's record if the query wants it. The row was read under the key
// read.
func (c *Catalog) match(p plan, read wanted, row storage.Entity) (match, bool) {
	r := record.FromProperties(row.Properties)
	id, err := c.Identify(r)
	if err != nil || !p.window.Contains(id.Sort) {
		return match{}, false // not a record: package check reports it
	}
	for _, k := range p.keys {
		if k.rank != read.rank && !k.value(id.Values[k.rank]) {
			return match{}, false
		}
	}
	return match{record: r, id: id, version: row.Int(store.VersionColumn), state: standingOf(row)}, true
}

// standingOf returns a row's standing among the writes of its record.
func standingOf(row storage.Entity) wal.Standing {
	s := wal.Standing{Identity: row.Get(store.IdentityColumn), Version: row.Int(store.VersionColumn)}
	if text := row.Get(store.LineColumn); text != "" {
		s.Line = &wal.Past{}
		if store.Decode(text, s.Line) != nil {
			s.Line = nil // another program wrote it
		}
	}
	return s
}

func (s sheet) standings() []wal.Standing {
	all := make([]wal.Standing, len(s.rows))
	for i, row := range s.rows {
		all[i] = standingOf(row)
	}
	return all
}

// newestOnly drops the matches that are out of date: a newer write of the same record is
// among the rows or the met ones. old says which of the rows are out of date.
func newestOnly(found []match, rows, met []wal.Standing) (kept []match, old []bool) {
	all := make([]wal.Standing, 0, len(found)+len(rows)+len(met))
	for _, m := range found {
		all = append(all, m.state)
	}
	old = wal.Superseded(append(append(all, rows...), met...))
	for i, m := range found {
		if !old[i] {
			kept = append(kept, m)
		}
	}
	return kept, old[len(found):]
}
