package catalog

import (
	"cmp"
	"context"
	"iter"
	"time"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

const (
	// DefaultTop is the number of records that a query returns by default. MaxTop is the maximum.
	DefaultTop = 100
	MaxTop     = 1000
	// fillTime is the time after which a query returns its page and a cursor, even if the page is not full.
	fillTime = 10 * time.Second
	// maxEmpty is the maximum number of consecutive empty pages that a query reads.
	maxEmpty = 20
	// maxAnswer is the maximum number of bytes of an answer's rows. The JSON of the records is smaller. An answer with only one
	// record may be larger.
	maxAnswer = logtail.MaxAnswer
	// readMost is the approximate maximum number of bytes that a query reads with one request.
	readMost = maxAnswer + maxAnswer/4
	// matchBytes is the number of bytes of memory that a match uses in addition to its record.
	matchBytes = 1 << 10
)

// Lookup is a query for records by index values.
type Lookup struct {
	// If ID is not "", only the record with this ID matches. Only writes use ID.
	ID string
	// Keys contains a value for each index key of the query. A record must match all these values. All spellings of a number
	// match.
	Keys map[string]string
	// The field Or contains further values for some keys in Keys. A record matches a key if it has one of the key's values. A
	// write must not use Or.
	Or map[string][]string
	// RowFrom and RowTo limit the sort value; see [index.Schema.Window].
	RowFrom, RowTo string
	Top            int    // maximum number of records, 1 to MaxTop; 0 means DefaultTop
	Cursor         string // the previous page's cursor; "" for the first page

	counts bool // the caller needs only the number of records
}

// Matches is one page of the records that a query has found, in the catalog's order.
type Matches struct {
	rows []storage.Row // the records' rows
	Meta []Meta        // the Meta of each record
	// Cursor is the cursor for the next page, or "" if there is none. Even a page with few or no records may have a cursor,
	// because a page ends after about ten seconds, or before it exceeds 8 MiB of records. If a record exists and does not move
	// while the pages are read, it is returned exactly once. A record that moves between two pages may be returned twice or not at
	// all.
	Cursor string
}

// matchesOf converts a reader's answer to Matches. Meta has one element for each row, and is never nil.
func matchesOf(a answer) Matches {
	r := Matches{Cursor: a.next, rows: make([]storage.Row, len(a.found)), Meta: make([]Meta, len(a.found))}
	for i, f := range a.found {
		r.rows[i], r.Meta[i] = f.row, f.meta()
	}
	return r
}

// Records yields the records. It decodes one record at a time, because a decoded record takes several times the memory of its
// row.
func (m Matches) Records() iter.Seq[record.Record] {
	return func(yield func(record.Record) bool) {
		for _, row := range m.rows {
			if !yield(record.FromProperties(row.Entity().Properties)) {
				return
			}
		}
	}
}

// Reader finds records and lists changes.
type Reader struct {
	*store.Store
	guard *SchemaGuard

	reading  task.Group    // queries whose callers no longer wait for them
	rowSizes logtail.Sizes // sizes of index rows
	logSizes logtail.Sizes // sizes of changes
}

// Find returns the records that match the query. It concurrently makes one request for each index value. If Find must read more
// than 1,000 rows, or if records move while Find reads, it makes more requests.
func (rd *Reader) Find(ctx context.Context, q Lookup) (Matches, error) {
	found, err := rd.search(ctx, q, nil, false)
	return matchesOf(found), err
}

// Get returns the record with the given ID, and the record's current Meta. It costs two requests.
func (rd *Reader) Get(ctx context.Context, id string) (record.Record, Meta, error) {
	for range maxRaces {
		h, err := rd.headOf(ctx, id)
		if err == nil && !h.Live() {
			err = noSuchID()
		}
		if err != nil {
			return record.Record{}, Meta{}, err
		}
		r, found, err := rd.contents(ctx, h)
		if found || err != nil {
			return r, metaOf(h.Write), err
		}
	}
	return record.Record{}, Meta{}, tooManyRaces()
}

// headOf reads the head of the record with the given ID. If the ID is malformed or has no head, headOf returns nil.
func (rd *Reader) headOf(ctx context.Context, id string) (*store.Head, error) {
	first, identity, ok := splitID(id)
	if !ok {
		return nil, nil
	}
	checked := rd.guard.startCheck(ctx)
	h, err := rd.ReadHead(ctx, first, identity)
	return h, cmp.Or(err, checked())
}

func noSuchID() error {
	return problem.NotFoundf("", "there is no record with this id; the record may have been deleted, or its index values or its sort value may have changed")
}

// List returns the records whose sort value lies in the query's window, sorted by the text of the first index key. The query
// must not have Keys. A list costs one request for each 1,000 rows of the first index key.
func (rd *Reader) List(ctx context.Context, q Lookup) (Matches, error) {
	found, err := rd.list(ctx, q)
	return matchesOf(found), err
}

func (rd *Reader) list(ctx context.Context, q Lookup) (answer, error) {
	p, err := planOf(rd.Schema, q, nil, nil)
	var last key.Key // the key of the last row that was taken, by this call or by the call for the previous page
	if err == nil && p.after != "" && store.Decode(p.after, &last) != nil {
		err = problem.Invalidf("cursor", "is not a cursor that this list returned; leave it out to start from the beginning")
	}
	if err != nil {
		return answer{}, err
	}
	checked := rd.guard.startCheck(ctx)
	x := newTrail(rd, p)
	more := func() (answer, error) { return x.answer(p.writeCursor(store.Encode(last))), checked() }
	for _, r := range listRanges(rd.Schema, last) {
		for token := (*key.Token)(nil); ; {
			top := rd.rowSizes.Rows(ctx, min(storage.PageRows, p.top-len(x.found)+1), readMost)
			page, err := rd.readRows(ctx, storage.Query{Range: r, Top: top, Token: token})
			if err != nil {
				return answer{}, cmp.Or(checked(), err)
			}
			x.pages++
			for _, row := range page.Rows {
				if x.isFull(row) {
					return more()
				}
				last = row.Key
				found := rd.candidate(p, wanted{}, row)
				if found.kind == matchingRow {
					err = x.add(ctx, found.match)
				}
				if err != nil {
					return answer{}, cmp.Or(checked(), err)
				}
				if found.kind != tombstoneRow {
					continue
				}
				tombstone := row.Entity()
				if !x.leadsOn(tombstone, false) {
					continue
				}
				m, err := x.follow(ctx, tombstone)
				if err != nil {
					return answer{}, cmp.Or(checked(), err)
				}
				if m != nil { // the record is added even if its new row lies beyond the page, because the next page may lack rows that were written after this page was read
					err = x.add(ctx, *m)
				}
				if err != nil {
					return answer{}, cmp.Or(checked(), err)
				}
			}
			memory.PartIn(ctx).Use(-storage.MemoryOf(page.Bytes, len(page.Rows))) // releases the page's memory
			if token = page.Next; token == nil {
				break
			}
			if last.Partition != "" && (len(x.found) == p.top || time.Since(x.start) > fillTime) {
				return more()
			}
		}
	}
	return x.answer(""), checked()
}

// listRanges returns the key ranges that contain the rows of the first index key. The ranges begin after the key
// `after`.
func listRanges(s index.Schema, after key.Key) []key.Range {
	var ranges []key.Range
	if after.Partition != "" {
		ranges = append(ranges, key.Range{Partition: &after.Partition, Low: &key.Bound{Key: after.Row, Open: true}})
	}
	for _, prefix := range s.FirstPrefixes() {
		r := key.Range{Low: &key.Bound{Key: prefix}, High: key.PrefixEnd(prefix)}
		if after.Partition != "" && r.High != nil && !key.Less(after.Partition, r.High.Key) {
			continue
		}
		if after.Partition != "" && key.Less(prefix, after.Partition) {
			r.Low = &key.Bound{Key: after.Partition, Open: true}
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// pages returns the function that reads a page of the query. The function works like Find if the query has Keys, and like List
// if it has none.
func (rd *Reader) pages(q Lookup) func(context.Context, Lookup) (answer, error) {
	if len(q.Keys) == 0 {
		return rd.list
	}
	return func(ctx context.Context, q Lookup) (answer, error) { return rd.search(ctx, q, nil, false) }
}

// Each calls fn with every record that Find returns for the query, until fn fails. If the query has no Keys, Each uses List
// instead of Find.
func (rd *Reader) Each(ctx context.Context, q Lookup, fn func(record.Record) error) error {
	read := rd.pages(q)
	q.Top = MaxTop
	for {
		a, err := read(ctx, q)
		if err != nil {
			return err
		}
		for r := range matchesOf(a).Records() {
			if err := fn(r); err != nil {
				return err
			}
		}
		if q.Cursor = a.next; q.Cursor == "" {
			return nil
		}
	}
}

// Total is the number of records that a query finds.
type Total struct {
	Count int `json:"count"`
	// Cursor is "" if the count is complete. A count stops after about ten seconds, and the next call continues from the
	// cursor.
	Cursor string `json:"cursor,omitempty"`
}

// Count counts the records that Find returns for the query. If the query has no Keys, Count uses List instead of Find. Counting
// records costs as much as reading them.
func (rd *Reader) Count(ctx context.Context, q Lookup) (Total, error) {
	read := rd.pages(q)
	q.Top, q.counts = MaxTop, true
	var t Total
	part := memory.PartIn(ctx)
	for start := time.Now(); ; {
		before := part.Used()
		a, err := read(ctx, q)
		if err != nil {
			return Total{}, err
		}
		part.SetUsed(before)
		t.Count += len(a.found)
		if q.Cursor = a.next; q.Cursor == "" || time.Since(start) > fillTime {
			t.Cursor = q.Cursor
			return t, nil
		}
	}
}
