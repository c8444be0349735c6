package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// chooser finds the one record that a write concerns.
type chooser struct {
	*store.Store
	guard  *SchemaGuard
	reader *Reader
	stages *stages
}

// choose returns the head of the only record that a write's query finds, if the record meets the condition. If the query
// finds several records, the error is a Conflict.
//
// All heads with the same first index value are in one partition, so they can be read at one moment. Therefore, for a query by
// the first index key, choose reads heads, and finds a record even while other writers move it. For a query by other keys, and
// for a record of another program, choose uses index rows, because heads are not enough.
func (ch *chooser) choose(ctx context.Context, q Lookup, on Condition) (*store.Head, error) {
	h, firstHashes, err := ch.chosen(ctx, q)
	if err != nil {
		return nil, err
	}
	switch err = on.check(h); {
	case err != nil || h.Live():
	case q.ID != "":
		err = noSuchID()
	default:
		err = problem.NotFoundf("", "no record matches the query")
	}
	if h != nil {
		firstHashes = append(firstHashes, h.First)
	}
	return h, refuse(err, firstHashes...)
}

// chosen returns the head of the only record that the query finds, or nil. For a query with an ID, this may be the head of a
// deleted record. The type [refused] explains firstHashes.
func (ch *chooser) chosen(ctx context.Context, q Lookup) (h *store.Head, firstHashes []index.FirstHash, err error) {
	if q.ID != "" {
		h, err = ch.reader.headOf(ctx, q.ID)
		return h, nil, err
	}
	p, err := newPlan(ch.Schema, q)
	if err != nil {
		return nil, nil, err
	}
	if p.keys[0].rank == 0 {
		for _, first := range p.keys[0].partitions {
			firstHashes = append(firstHashes, index.FirstHashOf(first.Value))
		}
		if h, err = ch.chooseHead(ctx, p, firstHashes); h != nil || err != nil {
			return h, firstHashes, err
		}
	}
	h, err = ch.chooseRow(ctx, q, &firstHashes)
	return h, firstHashes, err
}

var errSeveral = problem.Conflictf("", "several records match the query; add other index keys, or row_from and row_to")

// chooseHead returns the head of the only record that matches a query by the first index key, or nil.
func (ch *chooser) chooseHead(ctx context.Context, p plan, firstHashes []index.FirstHash) (*store.Head, error) {
	checked := ch.guard.startCheck(ctx)
	part := memory.PartIn(ctx)
	held := part.Used()
	var chosen *store.Head
	for _, first := range firstHashes {
		part.SetUsed(held) // the heads for the previous hash no longer need memory
		heads, err := ch.headsOf(ctx, p, first)
		if err != nil {
			return nil, err
		}
		for _, h := range heads {
			wanted, err := ch.headMatches(ctx, p, h)
			if err != nil {
				return nil, err
			}
			if wanted && chosen != nil {
				return nil, refuse(errSeveral, firstHashes...)
			}
			if wanted {
				chosen = h
			}
		}
	}
	part.SetUsed(held)
	return chosen, checked()
}

// headMatches reports whether the query matches the record of a head. If the query limits the sort value, headMatches reads the
// record, because a head does not contain the sort value.
func (ch *chooser) headMatches(ctx context.Context, p plan, h *store.Head) (bool, error) {
	if p.window == (index.Window{}) {
		return true, nil
	}
	part := memory.PartIn(ctx)
	held := part.Used()
	r, found, err := ch.reader.contents(ctx, h)
	part.SetUsed(held)        // releases the record's memory
	if err != nil || !found { // a newer write has replaced the record; the caller's write will notice this
		return !found, err
	}
	id, err := ch.Identify(r)
	return err == nil && p.window.Contains(id.Sort), nil
}

// mayMatch reports whether the rows of a write may match the query. It may return true for rows just outside the query's
// window.
func (p plan) mayMatch(w wal.Write) bool {
	for _, k := range p.keys {
		if !slices.ContainsFunc(k.partitions, func(in index.Partition) bool { return slices.Contains(w.Partitions, in.Key) }) {
			return false
		}
	}
	rows, ok := p.window.Behind("")
	return ok && rows.In("").Contains(key.Key{Row: w.Row})
}

// headsOf returns the live heads that have the given first index value and may match the query. All heads are returned as they
// were at one moment. If the heads are on several pages, and a head was written after the first page was read, headsOf reads
// all pages again.
func (ch *chooser) headsOf(ctx context.Context, p plan, first index.FirstHash) ([]*store.Head, error) {
	part := memory.PartIn(ctx)
	held := part.Used()
	for range maxRaces {
		var heads []*store.Head
		var began time.Time
		pages, changed := 0, false
		for q := store.ShardOf(first).Query(store.HeadsPrefix(first)); pages == 0 || q.Token != nil; pages++ {
			start := time.Now()
			page, err := ch.Log.With(charged(ctx)).Query(ctx, q)
			if err != nil {
				return nil, fmt.Errorf("catalog %s: %w", ch.Name, err)
			}
			if pages == 0 { // began is never later than the call's true beginning, because an answer's Date is rounded down to a second
				began = page.Date.Add(-time.Since(start))
			}
			changed = changed || slices.ContainsFunc(page.Rows, func(row storage.Row) bool { return !row.Timestamp().Before(began) })
			some, _, err := p.heads(part, page)
			if err != nil {
				return nil, err
			}
			heads = append(heads, some...)
			q.Token = page.Next
		}
		if pages == 1 || !changed {
			return heads, nil
		}
		part.SetUsed(held)
	}
	return nil, tooManyRaces()
}

// heads returns the page's live heads that may match the query. It releases the memory of the page's other rows. The result
// named `bytes` is the memory that the returned heads occupy.
func (p plan) heads(part *memory.Part, page storage.Page) (heads []*store.Head, bytes int64, err error) {
	for _, row := range page.Rows {
		h, err := store.HeadOf(row.Entity())
		if err != nil {
			return nil, 0, err
		}
		if h.Live() && p.mayMatch(h.Write) {
			heads = append(heads, h)
		}
	}
	if len(heads) > 0 {
		bytes = storage.MemoryOf(page.Bytes*len(heads)/len(page.Rows), len(heads))
	}
	part.Use(bytes - storage.MemoryOf(page.Bytes, len(page.Rows)))
	return heads, bytes, nil
}

// chooseRow searches index rows, and returns the head of the only record that matches, or nil. For each tombstone that it
// reads, it adds the hash of the tombstone's first index value to `firstHashes`. If several records match, it also adds the
// hash of each record's first index value.
func (ch *chooser) chooseRow(ctx context.Context, q Lookup, firstHashes *[]index.FirstHash) (*store.Head, error) {
	q.Top = 2
	for range maxRaces {
		a, err := ch.reader.search(ctx, q, func(gone storage.Entity) { *firstHashes = append(*firstHashes, store.FirstOf(gone)) }, true)
		if err != nil || len(a.found) == 0 {
			return nil, err
		}
		if len(a.found) > 1 {
			for _, m := range a.found {
				*firstHashes = append(*firstHashes, m.id.First())
			}
			return nil, refuse(errSeveral, *firstHashes...)
		}
		m := a.found[0]
		h, err := ch.ReadHead(ctx, m.id.First(), m.id.Hash())
		switch {
		case err != nil:
			return nil, err
		case h == nil:
			return nil, unknownToLog()
		case h.Version == m.version:
			return h, nil
		}
		// The row is out of date, because a later write is under way.
		if err := ch.stages.complete(ctx, store.ShardOf(h.First), h.Entry); !settled(err) {
			return nil, err
		}
	}
	return nil, tooManyRaces()
}
