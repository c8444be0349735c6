package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// maxHops is the maximum number of moves of one record that a query follows.
const maxHops = 10

// trail contains the records that a call has found. It also contains what the call needs to find records that move
// during the call.
type trail struct {
	*Reader
	plan  plan
	found []match
	met   []wal.VersionClaim // versions of moved records and tombstones that the call has read; newestOnly uses them to find outdated matches
	start time.Time          // the start of the call, by our clock
	bytes int                // size of the records found, including matches that newer matches have replaced
	pages int                // number of pages read
	led   bool               // a tombstone has led to a record
}

func newTrail(rd *Reader, p plan) trail {
	return trail{Reader: rd, plan: p, start: time.Now()}
}

// leadsOn reports whether a row is a tombstone that the call must follow. The call must follow a tombstone if the record may
// have moved to a page that the call had already read: otherwise the call would miss the record. If the argument `several` is
// true, the call reads several partitions. Such a call may also have read the record's new partition before the record's new
// row was written.
func (t *trail) leadsOn(row storage.Entity, several bool) bool {
	switch {
	case row.Get(store.NextColumn) == "":
		return false
	case several:
		return !t.isOlder(row, applyTime)
	}
	return t.pages > 1 && !t.isOlder(row, 0)
}

// isOlder reports whether the row was last written more than the given margin before the call began.
func (t *trail) isOlder(row storage.Entity, margin time.Duration) bool {
	now, _ := t.Index.Now(t.Clock())
	return row.Timestamp.Before(now.Add(-time.Since(t.start) - time.Second - margin)) // the service dates its answers in whole seconds
}

// follow finds a moved record. It begins at the record's tombstone, and makes one request for each move, and one for the
// record. If the record does not match the query, or was deleted, follow returns nil. If the record cannot be found,
// although it may exist, the error is Busy.
func (t *trail) follow(ctx context.Context, row storage.Entity) (*match, error) {
	lost := tooManyRaces()
	if t.isOlder(row, 0) { // the tombstone is older than the call, so the call has found the record's new row
		lost = nil
	}
	var at, line wal.FormerIdentity
	if store.Decode(row.Get(store.NextColumn), &at) != nil || store.Decode(row.Get(store.LineColumn), &line) != nil {
		return nil, lost // somebody has changed the tombstone
	}
	for hops := maxHops; ; {
		h, err := t.trace(ctx, store.FirstOf(row), at, line, &hops)
		switch {
		case errors.Is(err, errLostTrail):
			return nil, lost
		case err != nil || h == nil:
			return nil, err
		}
		r, found, err := t.contents(ctx, h)
		if err != nil {
			return nil, err
		}
		if !found { // the record has changed or moved again
			at = wal.FormerIdentity{Identity: h.Identity, Version: h.Version}
			continue
		}
		id, err := t.Identify(r)
		if err != nil || !t.plan.matches(id) {
			return nil, nil
		}
		row := storage.Entity{Properties: r.Properties()}.Row()
		m := &match{row: row, id: id, version: h.Version, state: wal.VersionClaim{Identity: h.Identity, Version: h.Version, Lineage: h.Lineage}}
		t.led, t.met = true, append(t.met, m.state)
		return m, nil
	}
}

var errLostTrail = errors.New("the record has moved, and its new identity is unknown")

// trace follows the moves of a record, and returns the live head of the record's current identity, or nil if the record was
// deleted. The argument `start` is the identity at which trace begins. The argument `lineage` is the Lineage of the record's
// writes; see [wal.Write]. For each move, trace makes one request and subtracts 1 from `*hops`. If another record has taken one
// of the identities, or if `*hops` is 0 before the current identity is found, the error is errLostTrail.
func (rd *Reader) trace(ctx context.Context, first index.FirstHash, start, lineage wal.FormerIdentity, hops *int) (*store.Head, error) {
	for *hops > 0 {
		*hops--
		h, err := rd.ReadHead(ctx, first, start.Identity)
		switch {
		case err != nil || h == nil: // if there is no head, the record was deleted at least a day ago
			return nil, err
		case h.Lineage == nil || *h.Lineage != lineage: // another record has this identity now
			return nil, errLostTrail
		case h.Next != nil:
			start = *h.Next
		case h.Gone:
			return nil, nil
		default:
			return h, nil
		}
	}
	return nil, errLostTrail
}

// isFull reports whether the answer must end before this row: the answer has as many records as requested, or no room for the
// row. An empty answer has room for any row.
func (t *trail) isFull(before storage.Row) bool {
	return len(t.found) >= t.plan.top || len(t.found) > 0 && t.bytes+len(before.JSON()) > maxAnswer
}

func (m match) bytes() int64 { return int64(len(m.row.JSON())) + matchBytes }

// add adds a match, unless a match with a newer write of the same identity was found.
func (t *trail) add(ctx context.Context, m match) error {
	if t.plan.counts {
		m.row = storage.Row{}
	} else {
		m.row = m.row.Clone() // a copy, so that the row's page can be freed
		t.bytes += len(m.row.JSON())
	}
	if !memory.PartIn(ctx).Use(m.bytes()) {
		return fmt.Errorf("catalog %s: %w", t.Name, memory.ErrFull)
	}
	if t.led && m.state.Identity != "" { // the record may have been found twice: by its own row, and through a tombstone
		if i := slices.IndexFunc(t.found, func(f match) bool { return f.state.Identity == m.state.Identity }); i >= 0 {
			if t.found[i].version < m.version {
				t.found[i] = m
			}
			return nil
		}
	}
	t.found = append(t.found, m)
	return nil
}

// answer returns the records found. If a record was found in two places, it returns the newer write.
func (t *trail) answer(next string) answer {
	if t.led {
		t.found, _ = newestOnly(t.found, nil, t.met)
		slices.SortStableFunc(t.found, func(a, b match) int {
			if len(t.plan.keys) == 0 { // a list
				return cmp.Or(key.Compare(string(a.id.Partitions[0]), string(b.id.Partitions[0])), key.Compare(a.id.Row, b.id.Row))
			}
			return key.Compare(a.id.Row, b.id.Row)
		})
	}
	return answer{t.found, next}
}

// contents returns the record of a live head. If a later write has replaced the record, `found` is false. The record's memory is
// counted in ctx's [memory.Part].
func (rd *Reader) contents(ctx context.Context, h *store.Head) (r record.Record, found bool, err error) {
	row, found, err := rd.Index.With(charged(ctx)).Get(ctx, h.At(h.Partitions[0]))
	if err == nil && (!found || store.IdentityOf(row) != h.Identity || row.Int(store.VersionColumn) != h.Version) {
		// The head's write may not be in the index row yet. In this case, the log entry of the write contains the record.
		row, found, err = rd.recorded(ctx, store.ShardOf(h.First), h.Entry)
	}
	if err != nil || !found {
		return record.Record{}, false, err
	}
	r = record.FromProperties(row.Properties)
	return r, store.HashOf(r) == h.Content, nil
}

// charged returns options for requests whose memory is counted in ctx's [memory.Part].
func charged(ctx context.Context) storage.RequestOptions {
	return storage.RequestOptions{Memory: memory.PartIn(ctx)}
}

// recorded calls [store.Store.Recorded], and counts the row's memory in ctx's [memory.Part].
func (rd *Reader) recorded(ctx context.Context, shard store.Shard, id wal.EntryID) (row storage.Entity, found bool, err error) {
	s := store.Store{Log: rd.Log.With(charged(ctx))}
	return s.Recorded(ctx, shard, id)
}

// newestOnly returns the matches of `found` that are not outdated. A match or write is outdated if any of the three arguments
// contains a newer write of its record. The result `old[i]` reports whether the write `rows[i]` is outdated.
func newestOnly(found []match, rows, met []wal.VersionClaim) (kept []match, old []bool) {
	all := make([]wal.VersionClaim, 0, len(found)+len(rows)+len(met))
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
