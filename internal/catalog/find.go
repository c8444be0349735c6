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

// A query by several keys first reads at most firstRows rows under each key.
const firstRows = 64

// match is a record that a query has found.
type match struct {
	row     storage.Row // contains the record; has no key if the record was found through a tombstone
	id      index.Identity
	version int64 // the row's version
	state   wal.VersionClaim
}

func (m match) meta() Meta {
	w := store.WriteFor(m.id)
	w.Version = m.version
	return metaOf(w)
}

// mergedPage contains the rows of an index key in a range. The rows come from all of the key's partitions, and are sorted by
// RowKey. Rows whose RowKeys are greater than the field `last` are not included.
type mergedPage struct {
	key   wanted
	rows  []candidate // sorted by RowKey
	bytes int64       // memory of the pages
	last  string      // RowKey up to which all rows are known; not set if end is true
	end   bool        // there are no more rows
	pages int         // number of pages read
	err   error
}

// candidate describes a row that a query has read, and states whether the row's record matches. A candidate does not keep the
// decoded properties, because they take several times the memory of the row's text.
type candidate struct {
	match
	kind rowKind
}

type rowKind int

const (
	otherRow rowKind = iota // the row's record does not match the query
	matchingRow
	tombstoneRow
)

type answer struct {
	found []match
	next  string // the next page's cursor
}

// search returns a page of the records that match the query. If the function `gone` is not nil, search calls it for each
// tombstone that it reads. If `all` is true, search has no time limit: it reads until the page is full or there are no more
// records.
//
// A matching record has the same RowKey under each index key of the query. Therefore search reads a page under every key
// concurrently, and uses the first page that has enough matches. If no page has enough matches, search continues with the key
// whose page ends at the greatest RowKey, because this key's value is probably the rarest. A cursor is a RowKey, so it is valid
// under every key. Between two pages, a record may move to rows already read. Therefore search follows tombstones; see
// trail.follow.
func (rd *Reader) search(ctx context.Context, q Lookup, gone func(storage.Entity), all bool) (answer, error) {
	p, err := newPlan(rd.Schema, q)
	if err != nil {
		return answer{}, err
	}
	checked := rd.guard.startCheck(ctx)
	x := search{trail: newTrail(rd, p), gone: gone}
	// For a query by several keys, first read only a few rows under each key, because few records may have one of the values. If
	// these rows are not enough, matches may be rare, so read whole pages.
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
		last, full, err := x.takeRows(ctx, s, after)
		memory.PartIn(ctx).Use(-s.bytes) // releases the pages' memory
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

type search struct {
	trail
	gone func(storage.Entity)
}

// takeRows adds the matches of a merged page to the answer. It takes either all rows with the same RowKey, or none of these
// rows. The result `full` is true if the answer is complete. The result `last` is the RowKey of the last row that was taken.
// If no row was taken, `last` equals `after`.
func (x *search) takeRows(ctx context.Context, s mergedPage, after string) (last string, full bool, err error) {
	states := make([]wal.VersionClaim, len(s.rows))
	for i, c := range s.rows {
		states[i] = c.state
	}
	var old []bool
	x.found, old = newestOnly(x.found, states, x.met)
	several := len(s.key.partitions) > 1
	last = after
	for i, c := range s.rows {
		if c.row.Key.Row != last && x.isFull(c.row) {
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
		// Leave out a record whose row comes later in the same partition, because a later page will contain the row.
		if m != nil && (several || s.end || !key.Less(s.last, m.id.Row)) {
			err = x.add(ctx, *m)
		}
		if err != nil {
			return "", false, err
		}
	}
	return "", false, nil
}

// raceKeys reads a page under each index key, concurrently. It returns the first page that reaches the end of the range, or
// that contains enough matches. If there is no such page, it returns the page that ends at the greatest RowKey.
func (rd *Reader) raceKeys(ctx context.Context, p plan, keys []wanted, rows index.RowRange, top, need int) mergedPage {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan mergedPage, len(keys))
	for _, k := range keys { // raceKeys cancels the requests that are still running when it returns
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
		part.Use(-s.bytes) // releases the memory of s, which is not the best page so far
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

// readMergedPage reads a page of each of the key's partitions, and merges the pages' rows in the order of their RowKeys.
// If a partition has more rows, the result contains no RowKey greater than the last RowKey on this partition's page.
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

// readPage reads pages until a page has a row, or the range ends. The result `tries` is the number of pages read.
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
	return storage.Page{}, tries, problem.Busyf("", "the storage sends only empty pages; try again")
}

// readRows reads one page of index rows. The page's memory is counted in ctx's [memory.Part].
func (rd *Reader) readRows(ctx context.Context, q storage.Query) (storage.Page, error) {
	page, err := rd.rowSizes.Query(ctx, rd.Index, q)
	if err != nil {
		return page, fmt.Errorf("catalog %s: %w", rd.Name, err)
	}
	return page, nil
}

// candidate decodes a row that was read under the given index key.
func (rd *Reader) candidate(p plan, read wanted, row storage.Row) candidate {
	e := row.Entity()
	found := candidate{match: match{row: row, version: e.Int(store.VersionColumn), state: versionClaimOf(e)}}
	if e.Get(store.GoneColumn) != "" {
		found.kind = tombstoneRow
		return found
	}
	id, err := rd.Identify(record.FromProperties(e.Properties))
	if err != nil || !p.window.Contains(id.Sort) {
		return found // the row does not match, or does not contain a record (package check reports such rows)
	}
	for _, k := range p.keys {
		if k.rank != read.rank && !k.includes(id.Values[k.rank]) {
			return found
		}
	}
	found.id, found.kind = id, matchingRow
	return found
}

// versionClaimOf reads which of a record's writes an index row contains.
func versionClaimOf(row storage.Entity) wal.VersionClaim {
	s := wal.VersionClaim{Identity: store.IdentityOf(row), Version: row.Int(store.VersionColumn)}
	if text := row.Get(store.LineColumn); text != "" {
		s.Lineage = &wal.FormerIdentity{}
		if store.Decode(text, s.Lineage) != nil {
			s.Lineage = nil // another program has changed the row
		}
	}
	return s
}
