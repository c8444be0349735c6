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

// deleteTime is how long a deletion of many begins further records: hosts give a call some minutes.
const deleteTime = 100 * time.Second

// Deleted is what a deletion has done.
type Deleted struct {
	Records int  `json:"deleted"`
	More    bool `json:"more,omitzero"` // the time was over, or the memory: the same call goes on
	// Repeated means that another try of the request came before: it did not end, or ended before this one. Records does not
	// count what that has deleted.
	Repeated bool `json:"repeated,omitzero"`

	// After an error, of the others that were found:
	committed int // the index rows are not all written yet
	unknown   int // perhaps committed: the answer was lost
	waiting   int // not started
}

// Summary says after an error what was done, "" if nothing was found.
func (d Deleted) Summary() string {
	all := d.Records + d.committed + d.unknown + d.waiting
	if all == 0 {
		return ""
	}
	text := fmt.Sprintf("of %d records found, %d were deleted", all, d.Records)
	add := func(n int, format string) {
		if n > 0 {
			text += fmt.Sprintf(format, n)
		}
	}
	add(d.committed, ", the deletion of %d is committed and will be completed")
	add(d.unknown, ", the deletion of %d may be committed")
	add(d.waiting, ", the deletion of %d was not started")
	return text + "; the same call goes on"
}

// Delete deletes all records that the query finds. It also completes deletions and moves that a
// crash has left half done. After deleteTime, or if there is no memory for what comes next, it returns More, with at least one record deleted. After
// an error, [Deleted.Summary] says what was done; a retry goes on. With a condition, the query must
// find only one record; with an ID, that record must exist. The query's Top and Cursor must not be
// set. noted, unless nil, gets the number of deleted records whenever it has grown.
//
// With an id, see [Condition], a deletion is carried out once. The first try deletes what it finds, newer writes included, each record
// once. A repetition returns what the first try has returned or, if that did not end, deletes the rest, and counts that
// alone: records that were written since the first try's claim stay.
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

// deleteAll deletes what the query finds, for a request with the id.
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
	x := deleting{Writer: wr, plan: p, start: wr.Clock(), claim: claimed, removed: map[index.IdentityHash]bool{}, noted: noted}
	x.done.Repeated = claimed.Known
	err := x.all(ctx, q)
	if errors.Is(err, memory.ErrFull) && !o.None() && !claimed.Known && x.done.Summary() == "" { // it begins anew, and is no repetition
		err = cmp.Or(claimsIn(wr.Log).Release(ctx, claimed), err)
	}
	if err == nil && !o.None() && !x.done.More {
		switch kept, err := claimsIn(wr.Log).Record(ctx, claimed, store.Encode(x.done)); {
		case err != nil: // then a repetition counts what it finds
			zerolog.Ctx(ctx).Warn().Err(err).Str("catalog", wr.Name).Msg("answer of a deletion not kept")
		case !kept: // a repetition has ended before: its answer is the one
			x.done.Repeated = true
		}
	}
	return x.done, err
}

// deleting is a deletion of many records.
type deleting struct {
	*Writer
	plan  plan
	start time.Time
	claim claim.Claim // zero for none
	noted func(records int)
	heads map[index.IdentityHash]*store.Head // by identity: those of the query's first index value that were not met
	bytes int64                              // of the memory that the heads take

	mu      sync.Mutex
	done    Deleted
	removed map[index.IdentityHash]bool // identities that were deleted: each is once, or writers beside this one would keep it going
	behind  bool                        // rows or heads were met whose records are gone or have moved
	err     error                       // the first; nothing more begins then
}

// all deletes what the query finds.
func (x *deleting) all(ctx context.Context, q Lookup) error {
	q.Top = MaxTop
	for range maxRaces {
		if again, err := x.pass(ctx, q); err != nil || !again {
			return err
		}
	}
	return tooManyRaces()
}

// errStays: a record is not to be deleted.
var errStays = errors.New("the record was written since the deletion was claimed")

// stays returns errStays for a live head whose record is not to be deleted: this deletion has deleted the identity before, or its
// write is newer than the claim, and that is not, or no longer, this try's own. The head was read before the claim is: so a first
// try that stood still deletes nothing that was written after a repetition has taken over. row is the index row in which the record
// was found, empty for none.
func (x *deleting) stays(ctx context.Context, h *store.Head, row storage.Entity, version int64) error {
	x.mu.Lock()
	again := x.removed[h.Identity]
	x.mu.Unlock()
	switch {
	case again:
		return errStays
	case !x.since(h, row, version):
		return nil
	case x.claim.Known:
		return errStays
	}
	if held, err := claimsIn(x.Log).Unchanged(ctx, x.claim); err != nil {
		return fmt.Errorf("catalog %s: %w", x.Name, err)
	} else if !held {
		return errStays
	}
	return nil
}

// since reports whether a live head's write is newer than the claim. Its index rows were written later
// than it was committed, and a process that completes the write touches the head: one of them that is older is proof.
func (x *deleting) since(h *store.Head, row storage.Entity, version int64) bool {
	older := func(written time.Time) bool { return !written.IsZero() && written.Before(x.claim.Made) }
	return !x.claim.Made.IsZero() && !older(h.Written) && !(version == h.Version && older(row.Timestamp))
}

// pass deletes what the query finds, page by page. It returns again if a record may have moved past
// the search.
func (x *deleting) pass(ctx context.Context, q Lookup) (again bool, err error) {
	x.behind = false
	part := memory.PartIn(ctx)
	if err := x.readHeads(ctx); err != nil {
		return false, err
	}
	for more := true; more; more = q.Cursor != "" {
		var gone []index.FirstHash // the first index values of tombstones that were met, as hashes
		page, err := x.reader.search(ctx, q, func(row storage.Entity) { gone = append(gone, store.FirstOf(row)) }, false)
		needs := writingAtOnce(page.found)
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
		ctx := (*memory.Part)(nil).In(ctx) // room is kept for what follows
		for _, m := range page.found {
			hash := m.id.Hash()
			h := x.heads[hash]
			delete(x.heads, hash)
			all = append(all, x.member(m.id.First(), hash, 1+int64(len(m.row.JSON()))/weightBytes, func(ctx context.Context) (bool, error) { return x.removeFound(ctx, h, m) }))
		}
		if page.next == "" { // no row shows these yet
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
		part.Use(-needs) // they may go
		if x.done.More = x.over() && (page.next != "" || x.behind || x.done.waiting > 0); x.done.More {
			return false, nil
		}
		q.Cursor = page.next
	}
	return x.behind, nil
}

// writingAtOnce returns what the deletion of what was found takes of memory: a row in the log, of each that is under way at once.
func writingAtOnce(found []match) int64 {
	all, largest := 0, 0
	for _, m := range found {
		all, largest = all+len(m.row.JSON()), max(largest, len(m.row.JSON()))
	}
	return 2 * storage.MemoryOf(min(all, max(largest, bulkWriters*weightBytes)), min(len(found), bulkWriters))
}

// over reports whether no further record is begun.
func (x *deleting) over() bool {
	return x.err != nil || x.done.Records > 0 && x.Clock().Sub(x.start) >= deleteTime
}

// member returns the deletion of an identity with this first index value by do, unless the deletion is over. do returns as stages.removeAt does.
func (x *deleting) member(first index.FirstHash, identity index.IdentityHash, weight int64, do func(context.Context) (done bool, err error)) member {
	return member{first, weight, func(ctx context.Context) error {
		x.mu.Lock()
		over := x.over()
		if over {
			x.done.waiting++
		}
		x.mu.Unlock()
		if over {
			return nil
		}
		done, err := do(ctx)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.removed[identity] = x.removed[identity] || done
		switch {
		case errors.Is(err, errStays):
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
		return nil // the others under way end in their own time
	}}
}

// readHeads reads the live heads of a query by the first index key. They have the records that are
// committed, of which rows may not be written yet.
func (x *deleting) readHeads(ctx context.Context) error {
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

// removeFound deletes a record that was found in an index row. h is its head, nil if that was not read.
func (x *deleting) removeFound(ctx context.Context, h *store.Head, m match) (done bool, err error) {
	row := m.row.Entity()
	slots := x.readAhead(ctx, store.WriteFor(m.id), row)
	stays := func(h *store.Head) error { return x.stays(ctx, h, row, m.version) }
	done, err = x.stages.removeAt(ctx, h, m.id.First(), m.id.Hash(), record.FromProperties(row.Properties), stays, slots)
	if !done {
		slots() // leaves no reads under way
	}
	return done, err
}

// readAhead begins to read the slots of the write's rows, except that of the row that was read already. The
// function that it returns waits for them. It leaves out those that could not be read, and those of other records, which
// may pass to this one before the write.
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
		_ = g.Wait() // what is missing is read again
		known := knownSlots{}
		for i, s := range slots {
			if s != nil {
				known[w.Partitions[i]] = *s
			}
		}
		return known
	}
}

// removeUnseen deletes the record of a live head, if the query asks for it.
func (x *deleting) removeUnseen(ctx context.Context, h *store.Head) (done bool, err error) {
	stays := func(h *store.Head) error { return x.stays(ctx, h, storage.Entity{}, 0) }
	r, found, err := x.reader.contents(ctx, h)
	if err != nil || !found {
		return false, err
	}
	id, err := x.Identify(r)
	if err != nil || !x.plan.window.Contains(id.Sort) {
		return false, err
	}
	return x.stages.removeAt(ctx, h, h.First, h.Identity, r, stays, nil)
}

// deleteOne deletes the only record that the query finds, for a request with the id. There may be none, unless it asks for
// an ID.
func (wr *Writer) deleteOne(ctx context.Context, q Lookup, on Condition, o claim.ID) (Deleted, error) {
	done, err := wr.writeOne(ctx, q, on, o, func(h *store.Head) (decision, error) {
		r, found, err := wr.reader.contents(ctx, h)
		if err == nil && !found {
			err = ErrRaced
		}
		if err == nil {
			err = wr.room(ctx, storage.MemoryOf(textOf(r), 1)) // for its row in the log
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
