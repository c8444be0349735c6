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
	"tablesweep/internal/task/memory"
)

// firstRows is the maximum number of rows that a query by several keys first reads under each key.
const firstRows = 64

// match is a record that a query has found.
type match struct {
	row     storage.Row // contains the record; has no key if the record was followed
	id      index.Identity
	version int64 // of the row
	state   wal.VersionClaim
}

func (m match) meta() Meta {
	w := store.WriteFor(m.id)
	w.Version = m.version
	return metaOf(w)
}

// mergedPage is a merged page of an index key's partitions: all their rows in the range, up to last.
type mergedPage struct {
	key   wanted
	rows  []candidate // by RowKey
	bytes int64       // of the memory of its pages
	last  string      // RowKey, unless end
	end   bool        // there are no more rows
	pages int         // number of answers
	err   error
}

// candidate is a row that a query has read, and the result of decoding it. It does not keep the decoded properties, which take
// several times the memory of the row's text.
type candidate struct {
	match
	kind rowKind
}

// rowKind is the meaning of a row for a query.
type rowKind int

const (
	otherRow    rowKind = iota // its record does not match the query
	matchingRow                // its record matches
	tombstoneRow
)

// answer is the result of a search.
type answer struct {
	found []match
	next  string // cursor
}

// search reads a page of the records that match the query. It calls gone, if not nil, for each tombstone that it meets. If all
// is true, it has no time limit: it reads whole pages until it has the page's records or there are no more.
//
// Under each index key of the query, all matching records have the same RowKeys. Therefore search reads a page under every key
// at once, and takes the first page that has enough matches. If no page has enough, it continues under the key that has come
// farthest, because the fewest other records share that key. A cursor is a RowKey, so it is valid under every key. One page
// shows one moment. Before the same call reads the next page, a record may move from the unread rows to the read ones.
// Therefore search follows the tombstones that may be younger than the call; see trail.follow. Several partitions never show
// one moment.
func (rd *Reader) search(ctx context.Context, q Lookup, gone func(storage.Entity), all bool) (answer, error) {
	p, err := newPlan(rd.Schema, q)
	if err != nil {
		return answer{}, err
	}
	checked := rd.guard.checking(ctx)
	x := search{trail: newTrail(rd, p), gone: gone}
	// If the first rows are not enough, matches may be rare, so read whole pages. With several keys, a key that few records share
	// most likely ends at once.
	after, keys, top, next := p.after, p.keys, p.top, ""
	switch {
	case len(keys) > 1 && !all:
		top = min(2*p.top, firstRows)
	case len(keys) > 1:
		top = firstRows
	case all:
		top = storage.PageRows
	}
	for {
		rows, more := p.window.Behind(after)
		if !more {
			break
		}
		s := rd.raceKeys(ctx, p, keys, rows, top, p.top-len(x.found))
		if s.err != nil {
			return answer{}, cmp.Or(checked(), s.err)
		}
		keys, top = []wanted{s.key}, storage.PageRows
		x.pages += s.pages
		last, full, err := x.take(ctx, s, after)
		memory.PartIn(ctx).Use(-s.bytes) // the pages are no longer needed
		switch {
		case err != nil:
			return answer{}, cmp.Or(checked(), err)
		case full:
			next = p.writeCursor(last)
		case s.end:
		case len(x.found) < p.top && (all || time.Since(x.start) < fillTime):
			after = s.last
			continue
		default:
			next = p.writeCursor(s.last)
		}
		break
	}
	return x.answer(next), checked()
}

// search is the state of one call of Reader.search.
type search struct {
	trail
	gone func(storage.Entity)
}

// take adds the matches of a merged page. If there are enough, full is true, and last is the RowKey of the last row taken, or
// the argument after if none was taken. Of the rows with one RowKey, it takes all or none.
func (x *search) take(ctx context.Context, s mergedPage, after string) (last string, full bool, err error) {
	states := make([]wal.VersionClaim, len(s.rows))
	for i, c := range s.rows {
		states[i] = c.state
	}
	var old []bool
	x.found, old = newestOnly(x.found, states, x.met)
	several := len(s.key.partitions) > 1
	last = after
	for i, c := range s.rows {
		if c.row.Key.Row != last && x.full(c.row) {
			return last, true, nil
		}
		last = c.row.Key.Row
		if c.kind == tombstoneRow && x.gone != nil {
			x.gone(c.row.Entity())
		}
		if c.state.Lineage != nil || c.kind == tombstoneRow && several {
			x.met = append(x.met, c.state)
		}
		if c.kind == matchingRow && !old[i] {
			err = x.add(ctx, c.match)
		}
		if err != nil {
			return "", false, err
		}
		if c.kind != tombstoneRow {
			continue
		}
		row := c.row.Entity()
		if !x.leadsOn(row, several) {
			continue
		}
		m, err := x.follow(ctx, row)
		if err != nil {
			return "", false, err
		}
		// A record after the page will be found later if the tombstone and the new row were written at one moment, that is, in
		// one partition.
		if m != nil && (several || s.end || !key.Less(s.last, m.id.Row)) {
			err = x.add(ctx, *m)
		}
		if err != nil {
			return "", false, err
		}
	}
	return "", false, nil
}

// raceKeys reads a page under each index key, all at once. It returns the first page that has need matches or reaches the end.
// Otherwise it returns the page that has come farthest.
func (rd *Reader) raceKeys(ctx context.Context, p plan, keys []wanted, rows index.RowRange, top, need int) mergedPage {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan mergedPage, len(keys))
	for _, k := range keys { // raceKeys does not wait for slower ones, which end with ctx
		rd.reading.Go(func() error {
			s := mergedPage{key: k}
			if err := task.Do(func() error { s = rd.readMergedPage(ctx, p, k, rows, top); return nil }); err != nil {
				s.err = err
			}
			answers <- s
			return nil
		})
	}
	var best mergedPage
	part := memory.PartIn(ctx)
	for i := range keys {
		s := <-answers
		switch {
		case s.err == nil && (s.end || s.matches() >= need):
			part.Use(-best.bytes)
			return s
		case i == 0, best.err != nil, s.err == nil && key.Less(best.last, s.last):
			best, s = s, best
		}
		part.Use(-s.bytes) // of the page that is not the best
	}
	return best
}

func (s mergedPage) matches() int {
	n := 0
	for _, c := range s.rows {
		if c.kind == matchingRow {
			n++
		}
	}
	return n
}

// readMergedPage reads a page of each of the key's partitions, and keeps the rows up to the point that all pages have reached.
func (rd *Reader) readMergedPage(ctx context.Context, p plan, k wanted, rows index.RowRange, top int) mergedPage {
	top = rd.rowSizes.Rows(ctx, top, readMost/int64(len(k.partitions)))
	pages := make([]storage.Page, len(k.partitions))
	tries := make([]int, len(pages))
	var g task.Group
	for i, in := range k.partitions {
		g.Go(func() (err error) {
			pages[i], tries[i], err = rd.readPage(ctx, storage.Query{Range: rows.In(in.Key), Top: top})
			return err
		})
	}
	s := mergedPage{key: k, end: true, err: g.Wait()}
	if s.err != nil {
		return s
	}
	for i, page := range pages {
		s.pages += tries[i]
		s.bytes += storage.MemoryOf(page.Bytes, len(page.Rows))
		for _, row := range page.Rows {
			s.rows = append(s.rows, rd.candidate(p, k, row))
		}
		if page.Next == nil {
			continue
		}
		if last := page.Rows[len(page.Rows)-1].Key.Row; s.end || key.Less(last, s.last) {
			s.end, s.last = false, last
		}
	}
	if len(pages) > 1 {
		slices.SortStableFunc(s.rows, func(a, b candidate) int { return key.Compare(a.row.Key.Row, b.row.Key.Row) })
	}
	if !s.end {
		s.rows = slices.DeleteFunc(s.rows, func(c candidate) bool { return key.Less(s.last, c.row.Key.Row) })
	}
	return s
}

// readPage reads until a page has a row, or the range ends. tries is the number of pages.
func (rd *Reader) readPage(ctx context.Context, q storage.Query) (page storage.Page, tries int, err error) {
	for tries = 1; tries <= maxEmpty; tries++ {
		if page, err = rd.readRows(ctx, q); err != nil {
			return page, tries, err
		}
		if len(page.Rows) > 0 || page.Next == nil {
			return page, tries, nil
		}
		q.Token = page.Next
	}
	return storage.Page{}, tries, problem.Busyf("", "the storage keeps sending empty pages; try again")
}

// readRows reads one page of index rows. It uses the part of the memory in ctx.
func (rd *Reader) readRows(ctx context.Context, q storage.Query) (storage.Page, error) {
	page, err := rd.rowSizes.Query(ctx, rd.Index, q)
	if err != nil {
		return page, fmt.Errorf("catalog %s: %w", rd.Name, err)
	}
	return page, nil
}

// candidate decodes a row. The argument read is the index key under which the row was read.
func (rd *Reader) candidate(p plan, read wanted, row storage.Row) candidate {
	e := row.Entity()
	found := candidate{match: match{row: row, version: e.Int(store.VersionColumn), state: versionClaimOf(e)}}
	if e.Get(store.GoneColumn) != "" {
		found.kind = tombstoneRow
		return found
	}
	id, err := rd.Identify(record.FromProperties(e.Properties))
	if err != nil || !p.window.Contains(id.Sort) {
		return found // not a record; package check reports it
	}
	for _, k := range p.keys {
		if k.rank != read.rank && !k.value(id.Values[k.rank]) {
			return found
		}
	}
	found.id, found.kind = id, matchingRow
	return found
}

// versionClaimOf returns the position of a row among the writes of its record.
func versionClaimOf(row storage.Entity) wal.VersionClaim {
	s := wal.VersionClaim{Identity: store.IdentityOf(row), Version: row.Int(store.VersionColumn)}
	if text := row.Get(store.LineColumn); text != "" {
		s.Lineage = &wal.FormerIdentity{}
		if store.Decode(text, s.Lineage) != nil {
			s.Lineage = nil // another program wrote it
		}
	}
	return s
}
