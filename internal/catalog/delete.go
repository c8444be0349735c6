package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

// deleteTime is the time after which a deletion of many records stops, because hosts limit a call to some minutes.
const deleteTime = 100 * time.Second

// Deleted is the result of a deletion.
type Deleted struct {
	Records int  `json:"deleted"`
	More    bool `json:"more,omitzero"` // records may remain; repeat the call to delete them
	// Repeated is true if another try of the same request may also have deleted records: an earlier try that did
	// not complete the deletion, or a later try that ended before this one. If Repeated is true, Records counts only this try's
	// deletions.
	Repeated bool `json:"repeated,omitzero"`

	// The fields below count the records that were found but are not counted in Records.
	committed int // records whose deletion is committed, but not yet written to all index rows
	unknown   int // records whose deletion has an unknown outcome, for example because the answer was lost
	waiting   int // records whose deletion was not started
}

// Summary describes the result after an error, or returns "" if no records were found.
func (d Deleted) Summary() string {
	all := d.Records + d.committed + d.unknown + d.waiting
	if all == 0 {
		return ""
	}
	text := fmt.Sprintf("of %s found, %d were deleted", problem.Plural(all, "record"), d.Records)
	add := func(n int, format string) {
		if n > 0 {
			text += fmt.Sprintf(format, n)
		}
	}
	add(d.committed, ", the deletion of %d is committed and will be completed")
	add(d.unknown, ", the deletion of %d may be committed")
	add(d.waiting, ", the deletion of %d was not started")
	return text + "; repeat the call to continue"
}

// Delete deletes all records that the query finds. It also completes deletions and moves that a crash has interrupted. If
// deleteTime is over, or if there is no memory for the next records, Delete ends early, but not before it has deleted a record.
// If Delete ends early, the result's More is true. After an error, [Deleted.Summary] describes the deletions so far, and a
// retry deletes the remaining records. If `on` contains a condition, the query must not find more than one record. If the
// query has an ID, a record with this ID must exist. The query's Top and Cursor must not be set. If the function `noted` is not
// nil, Delete calls it after each deletion, with the number of records deleted so far.
//
// If the condition has an id (see [Condition]), the deletion is carried out once. The first try deletes all records that it
// finds, even records that are written while it runs. But it does not delete a record twice: if a deleted record is written
// again, the new record stays. A repetition returns the first try's result. If the first try did not end, the repetition
// deletes the remaining records, but not records that were written after the first try's claim. The result of the
// repetition counts only the records that the repetition itself has deleted.
func (wr *Writer) Delete(ctx context.Context, q Lookup, on Condition, noted func(records int)) (Deleted, error) {
	if err := wr.guard.Writable(ctx); err != nil {
		return Deleted{}, err
	}
	var p plan
	if q.ID == "" {
		var err error
		if p, err = newPlan(wr.Schema, q); err != nil {
			return Deleted{}, err
		}
	}
	o := on.id("delete", q, on.Match, on.Differ)
	if q.ID == "" && len(on.Match)+len(on.Differ) == 0 {
		return wr.deleteAll(ctx, q, p, o, noted)
	}
	return wr.deleteOne(ctx, q, on, o)
}

func (wr *Writer) deleteAll(ctx context.Context, q Lookup, p plan, o claim.ID, noted func(records int)) (Deleted, error) {
	var claimed claim.Claim
	if !o.None() {
		var err error
		if claimed, err = claimsIn(wr.Log).Take(ctx, o); err != nil {
			return Deleted{}, fmt.Errorf("catalog %s: %w", wr.Name, err)
		}
	}
	if claimed.Known {
		var err error
		if claimed, err = claimsIn(wr.Log).TakeOver(ctx, claimed); err != nil {
			return Deleted{}, fmt.Errorf("catalog %s: %w", wr.Name, err)
		}
	}
	if claimed.Answer != "" {
		var first Deleted
		return first, store.Decode(claimed.Answer, &first)
	}
	x := bulkDeletion{Writer: wr, plan: p, start: wr.Clock(), claim: claimed, removed: map[index.IdentityHash]bool{}, noted: noted}
	x.done.Repeated = claimed.Known
	err := x.run(ctx, q)
	if errors.Is(err, memory.ErrFull) && !o.None() && !claimed.Known && x.done.Summary() == "" { // nothing was done, so the next try is not a repetition
		err = cmp.Or(claimsIn(wr.Log).Release(ctx, claimed), err)
	}
	if err == nil && !o.None() && !x.done.More {
		switch kept, err := claimsIn(wr.Log).Record(ctx, claimed, store.Encode(x.done)); {
		case err != nil: // without the stored answer, a repetition will count only its own deletions
			zerolog.Ctx(ctx).Warn().Err(err).Str("catalog", wr.Name).Msg("the answer to a deletion was not stored; if the request is repeated, its answer will not count the records that are already deleted")
		case !kept: // a repetition of the request has ended first, and its answer is recorded
			x.done.Repeated = true
		}
	}
	return x.done, err
}

type bulkDeletion struct {
	*Writer
	plan  plan
	start time.Time
	claim claim.Claim // the zero value if the request has no id
	noted func(records int)
	heads map[index.IdentityHash]*store.Head // unhandled heads with the query's first index value, by identity
	bytes int64                              // memory of the heads

	mu      sync.Mutex
	done    Deleted
	removed map[index.IdentityHash]bool // identities that were deleted; if an identity could be deleted twice, concurrent writers could prolong the deletion forever
	behind  bool                        // a record was deleted or moved after its row or head was read
	err     error                       // the first error; after it, no further deletion starts
}

func (x *bulkDeletion) run(ctx context.Context, q Lookup) error {
	q.Top = MaxTop
	for range maxRaces {
		if missed, err := x.deletePages(ctx, q); err != nil || !missed {
			return err
		}
	}
	return tooManyRaces()
}

var errNotToDelete = errors.New("the record was written after the deletion had begun")

// checkDeletable returns nil if the record of a live head may be deleted, and errNotToDelete if it may not. A record may not be deleted if this
// deletion has already deleted a record with the same identity. If the head's write may be newer than the deletion's claim, only the try that made
// the claim may delete the record, and only while no repetition has taken over the claim. The head is read before the claim is checked. So if a
// repetition has taken over the claim of a suspended first try, the first try does not delete newer records. The argument `row` is the index row in
// which the record was found, or empty.
func (x *bulkDeletion) checkDeletable(ctx context.Context, h *store.Head, row storage.Entity, version int64) error {
	x.mu.Lock()
	again := x.removed[h.Identity]
	x.mu.Unlock()
	switch {
	case again:
		return errNotToDelete
	case !x.isNewer(h, row, version):
		return nil
	case x.claim.Known:
		return errNotToDelete
	}
	if held, err := claimsIn(x.Log).Unchanged(ctx, x.claim); err != nil {
		return fmt.Errorf("catalog %s: %w", x.Name, err)
	} else if !held {
		return errNotToDelete
	}
	return nil
}

// isNewer reports whether the write of the live head h may be newer than the deletion's claim. If there is no claim, the result
// is false. If the head or the write's index row was updated before the claim was made, the write is older than the claim,
// and the result is false. Otherwise the result is true, because it is unknown when the write was committed: the head and the
// index row may be updated long after the commit.
func (x *bulkDeletion) isNewer(h *store.Head, row storage.Entity, version int64) bool {
	older := func(written time.Time) bool { return !written.IsZero() && written.Before(x.claim.Made) }
	return !x.claim.Made.IsZero() && !older(h.Written) && !(version == h.Version && older(row.Timestamp))
}

// deletePages deletes the records that the query finds, page by page. The result `missed` reports whether the search may
// have missed a record that moved during the search.
func (x *bulkDeletion) deletePages(ctx context.Context, q Lookup) (missed bool, err error) {
	x.behind = false
	part := memory.PartIn(ctx)
	if err := x.readHeads(ctx); err != nil {
		return false, err
	}
	for more := true; more; more = q.Cursor != "" {
		var gone []index.FirstHash // for each tombstone found, the hash of the record's first index value
		page, err := x.reader.search(ctx, q, func(row storage.Entity) { gone = append(gone, store.FirstOf(row)) }, false)
		needs := writingMemory(page.found)
		if err == nil && !part.Use(needs) {
			err = fmt.Errorf("catalog %s: %w", x.Name, memory.ErrFull)
		}
		if x.done.More = errors.Is(err, memory.ErrFull) && x.done.Records > 0; x.done.More {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		var g task.Group
		var all []member
		ctx := (*memory.Part)(nil).In(ctx) // the memory for the following work is already reserved
		for _, m := range page.found {
			hash := m.id.Hash()
			h := x.heads[hash]
			delete(x.heads, hash)
			all = append(all, x.member(m.id.First(), hash, 1+int64(len(m.row.JSON()))/weightBytes, func(ctx context.Context) (bool, error) { return x.removeFound(ctx, h, m) }))
		}
		if page.next == "" { // on the last page, also delete the records that no index row contains yet
			for _, h := range x.heads {
				all = append(all, x.member(h.First, h.Identity, 1, func(ctx context.Context) (bool, error) { return x.removeUnseen(ctx, h) }))
			}
		}
		g.Go(func() error {
			_, err := x.stages.applyFor(ctx, gone)
			return err
		})
		if err := cmp.Or(x.committer.inGroups(ctx, all), g.Wait(), x.err); err != nil {
			return false, err
		}
		for _, m := range page.found {
			needs += m.bytes()
		}
		part.Use(-needs) // releases the records' memory
		if x.done.More = x.isOver() && (page.next != "" || x.behind || x.done.waiting > 0); x.done.More {
			return false, nil
		}
		q.Cursor = page.next
	}
	return x.behind, nil
}

// writingMemory returns the memory that the deletions of the found records need: each concurrent deletion writes its record to
// the log.
func writingMemory(found []match) int64 {
	all, largest := 0, 0
	for _, m := range found {
		all, largest = all+len(m.row.JSON()), max(largest, len(m.row.JSON()))
	}
	return 2 * storage.MemoryOf(min(all, max(largest, bulkWriters*weightBytes)), min(len(found), bulkWriters))
}

func (x *bulkDeletion) isOver() bool {
	return x.err != nil || x.done.Records > 0 && x.Clock().Sub(x.start) >= deleteTime
}

// member returns the deletion of one identity as a member of a group. The argument `first` is the hash of the identity's first
// index value. When the member runs, it calls the function `remove`, unless the whole deletion is over. The function `remove`
// returns the results of stages.removeAt.
func (x *bulkDeletion) member(first index.FirstHash, identity index.IdentityHash, weight int64, remove func(context.Context) (done bool, err error)) member {
	return member{first, weight, func(ctx context.Context) error {
		x.mu.Lock()
		over := x.isOver()
		if over {
			x.done.waiting++
		}
		x.mu.Unlock()
		if over {
			return nil
		}
		done, err := remove(ctx)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.removed[identity] = x.removed[identity] || done
		switch {
		case errors.Is(err, errNotToDelete):
			return nil
		case err == nil && done:
			x.done.Records++
			if x.noted != nil {
				x.noted(x.done.Records)
			}
		case err == nil:
			x.behind = true
		case done:
			x.done.committed++
		case errors.As(err, new(*unanswered)):
			x.done.unknown++
		default:
			x.done.waiting++
		}
		x.err = cmp.Or(x.err, err)
		return nil // other deletions that are under way may continue
	}}
}

// readHeads reads the live heads for a query by the first index key. The heads include records that are committed, but do not
// have index rows yet.
func (x *bulkDeletion) readHeads(ctx context.Context) error {
	part := memory.PartIn(ctx)
	part.Use(-x.bytes)
	x.heads, x.bytes = map[index.IdentityHash]*store.Head{}, 0
	if x.plan.keys[0].rank > 0 {
		return nil
	}
	for _, first := range x.plan.keys[0].partitions {
		hash := index.FirstHashOf(first.Value)
		all := x.Log.With(charged(ctx))
		err := all.All(ctx, store.ShardOf(hash).Query(store.HeadsPrefix(hash)), func(p storage.Page) error {
			some, bytes, err := x.plan.heads(part, p)
			x.bytes += bytes
			for _, h := range some {
				x.heads[h.Identity] = h
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("catalog %s: %w", x.Name, err)
		}
	}
	return nil
}

// removeFound deletes a record that was found in an index row. The argument `h` is the record's head, or nil if the head was
// not read.
func (x *bulkDeletion) removeFound(ctx context.Context, h *store.Head, m match) (done bool, err error) {
	row := m.row.Entity()
	slots := x.readAhead(ctx, store.WriteFor(m.id), row)
	check := func(h *store.Head) error { return x.checkDeletable(ctx, h, row, m.version) }
	done, err = x.stages.removeAt(ctx, h, m.id.First(), m.id.Hash(), record.FromProperties(row.Properties), check, slots)
	if !done {
		slots()
	}
	return done, err
}

// readAhead starts to read the slots of the write's index rows. The argument `row` is the index row that was already read, so
// readAhead does not read this row again. The returned function waits for the slots. It omits slots that could not be read. It
// also omits slots that contain other records, because the record to delete may be written to such a slot in the meantime.
func (wr *Writer) readAhead(ctx context.Context, w wal.Write, row storage.Entity) func() knownSlots {
	slots := make([]*store.Slot, len(w.Partitions))
	var g task.Group
	for i, p := range w.Partitions {
		g.Go(func() error {
			s := wr.SlotOf(row)
			if row.Key != w.At(p) {
				var err error
				if s, err = wr.stages.readSlot(ctx, p, w); err != nil {
					return err
				}
			}
			if s.State == wal.NoRow || s.Identity == w.Identity {
				slots[i] = &s
			}
			return nil
		})
	}
	return func() knownSlots {
		_ = g.Wait() // after an error, slots are missing; the write reads the missing slots
		known := knownSlots{}
		for i, s := range slots {
			if s != nil {
				known[w.Partitions[i]] = *s
			}
		}
		return known
	}
}

// removeUnseen deletes the record of a live head, if the record matches the query.
func (x *bulkDeletion) removeUnseen(ctx context.Context, h *store.Head) (done bool, err error) {
	check := func(h *store.Head) error { return x.checkDeletable(ctx, h, storage.Entity{}, 0) }
	r, found, err := x.reader.contents(ctx, h)
	if err != nil || !found {
		return false, err
	}
	id, err := x.Identify(r)
	if err != nil || !x.plan.window.Contains(id.Sort) {
		return false, err
	}
	return x.stages.removeAt(ctx, h, h.First, h.Identity, r, check, nil)
}

// deleteOne deletes the only record that the query finds. The argument `o` is the request's id. If no record matches, deleteOne
// returns an error for a query with an ID, and the zero value for any other query.
func (wr *Writer) deleteOne(ctx context.Context, q Lookup, on Condition, o claim.ID) (Deleted, error) {
	done, err := wr.writeOne(ctx, q, on, o, func(h *store.Head) (decision, error) {
		r, found, err := wr.reader.contents(ctx, h)
		if err == nil && !found {
			err = ErrRaced
		}
		if err == nil {
			err = wr.reserve(ctx, storage.MemoryOf(textOf(r), 1)) // memory for the row that the deletion adds to the log
		}
		if err != nil {
			return decision{}, err
		}
		return wr.stages.removal(ctx, h, r, nil)
	})
	switch {
	case q.ID == "" && err != nil && problem.Of(err).Kind == problem.NotFound:
		return Deleted{}, nil
	case err != nil || done.Outcome != deleted:
		return Deleted{}, err
	}
	return Deleted{Records: 1}, nil
}
