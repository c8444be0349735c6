package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

// A write has four stages. First, a function decides on the write: usually insertion, replacement or removal. The function
// relies on heads that were read before. Second, commit records the write in the log. Third, apply writes the index rows.
// Finally, finish answers the caller, and moves the entry to the changes.

// applyTime is the maximum time for writing index rows. Maintain writes the remaining rows.
const applyTime = 5 * time.Minute

// stages carries out the stages of writes: the caller's own writes, and unfinished writes of other writers.
type stages struct {
	*store.Store
	committer *committer
}

// decision describes what a write will do.
type decision struct {
	kind    wal.Kind
	record  record.Record // the written record or, for a deletion, the deleted record
	updates []headUpdate
	more    []storage.Op // further operations of the same transaction
	// If the last write of a head already has the intended result, same is this head, and the decision is to
	// complete only that last write. Otherwise, same is nil.
	same  *store.Head
	slots func() knownSlots // returns the slots that were already read; may be nil
}

// knownSlots are the slots of a write's index rows that were already read.
type knownSlots map[index.PartitionKey]store.Slot

// headUpdate describes the update of a head: the write `to` becomes the newest write of its identity.
type headUpdate struct {
	from    *store.Head // the head as it was read; nil if there was no head
	to      wal.Write
	content wal.ContentHash // "" for a deletion
}

var (
	// ErrRaced means that another writer was faster, and this write was not done.
	ErrRaced = errors.New("overtaken")
	// errRepeated means that another try of the request was faster and has done the write.
	errRepeated = problem.Busyf("", "another attempt at this request has already done the write; repeat the request to get the answer")
)

// refused is the error of a write that was refused because of other writers' commits. The log contains these commits, but the
// index rows that readers use may not contain them yet.
type refused struct {
	error
	firstHashes []index.FirstHash // for each record that caused the refusal, the hash of its first index value
}

func (e *refused) Unwrap() error { return e.error }

// refuse returns a [refused] that contains err and the given hashes. If err is nil, refuse returns nil.
func refuse(err error, firstHashes ...index.FirstHash) error {
	if err == nil {
		return nil
	}
	return &refused{err, firstHashes}
}

// write carries out the decision that the function `decide` returns, for the request with the id o. If another writer is faster,
// the function `decide` is called again. If decide refuses, write completes the index rows of the records that caused the
// refusal, and calls `decide` again. Therefore a client that reads after a refusal sees these records.
func (st *stages) write(ctx context.Context, o claim.ID, decide func() (decision, error)) (Written, error) {
	for range maxRaces {
		var done Written
		d, err := decide()
		if err == nil {
			done, err = st.do(ctx, d, o)
		}
		r := (*refused)(nil)
		switch {
		case err == nil:
			return done, nil
		case errors.As(err, &r):
			if some, failed := st.applyFor(ctx, r.firstHashes); failed != nil || !some {
				return Written{}, cmp.Or(failed, err)
			}
		case !errors.Is(err, ErrRaced):
			return Written{}, err
		}
	}
	return Written{}, tooManyRaces()
}

func (st *stages) do(ctx context.Context, d decision, o claim.ID) (Written, error) {
	if d.same != nil {
		return st.completeLast(ctx, d, o)
	}
	e, err := st.committer.commit(ctx, d, o)
	if err != nil {
		return Written{}, err
	}
	var known knownSlots
	if d.slots != nil {
		known = d.slots()
	}
	done, err := st.apply(ctx, e, e.Writes, known)
	if err = st.finish(ctx, done, err); err != nil {
		return Written{}, err
	}
	return Written{outcomes[e.Kind], metaOf(e.Writes[len(e.Writes)-1]), e.Record}, nil
}

// removeAt is Remove with more arguments. The argument `read` is the identity's head, or nil if the head was not read. The argument
// `slots` is nil, or a function that returns the slots that were already read. If the function `check` returns an error, the head's
// record is kept. If `done` is true, the deletion is committed, even if err is not nil.
func (st *stages) removeAt(ctx context.Context, read *store.Head, first index.FirstHash, identity index.IdentityHash, r record.Record, check func(*store.Head) error, slots func() knownSlots) (done bool, err error) {
	w, err := st.write(ctx, claim.ID{}, func() (decision, error) {
		h := read
		if read = nil; h == nil {
			var err error
			if h, err = st.ReadHead(ctx, first, identity); err != nil {
				return decision{}, err
			}
		}
		switch {
		case h == nil:
			return decision{}, unknownToLog()
		case h.Gone:
			return decision{same: h}, nil
		case check != nil:
			if err := check(h); err != nil {
				return decision{}, err
			}
		}
		return st.removal(ctx, h, r, slots)
	})
	return w.Outcome == deleted || errors.As(err, new(*committed)), err
}

// writeMemory returns how many bytes of memory a write of the record needs, for a row under each index key and a row in the log.
func (wr *Writer) writeMemory(r record.Record) int64 {
	return int64(1+len(wr.Schema.Keys)) * storage.MemoryOf(textOf(r), 1)
}

// textOf returns the number of bytes that the names and values of a record have in a row.
func textOf(r record.Record) (bytes int) {
	for _, p := range r.Properties() {
		bytes += len(p.Name) + len(p.Value)
	}
	return bytes
}

// reserve changes ctx's [memory.Part]. It keeps the memory of the data that was read, reserves the given number of bytes for a
// write, and releases the rest of the part. The error is [memory.ErrFull].
func (wr *Writer) reserve(ctx context.Context, bytes int64) error {
	part := memory.PartIn(ctx)
	if !part.Use(bytes) {
		return fmt.Errorf("catalog %s: %w", wr.Name, memory.ErrFull)
	}
	part.Use(-bytes) // these bytes are needed only while the write is under way
	part.Keep(part.Used() + bytes)
	return nil
}

// insertion decides whether to insert the record. The argument h is the head of the record's identity.
func insertion(now time.Time, h *store.Head, id index.Identity, r record.Record) (decision, error) {
	switch w, verdict := wal.Insertion(h.State(), store.WriteFor(id), store.HashOf(r), now); verdict {
	case wal.Same:
		return decision{record: r, same: h}, nil
	case wal.Taken:
		return decision{}, refuse(identityTaken(id.Row), id.First())
	default:
		return insertDecision(h, w, r), nil
	}
}

func insertDecision(h *store.Head, w wal.Write, r record.Record) decision {
	return decision{kind: wal.Insert, record: r, updates: []headUpdate{{h, w, store.HashOf(r)}}}
}

// replacement decides whether the record r replaces an old record. The argument `old` is the live head of the old record, and w
// describes the index rows of r.
func (st *stages) replacement(ctx context.Context, old *store.Head, w wal.Write, r record.Record) (decision, error) {
	var target *store.Head
	if old.Identity != w.Identity {
		var err error
		if target, err = st.ReadHead(ctx, w.First, w.Identity); err != nil {
			return decision{}, err
		}
	}
	content := store.HashOf(r)
	writes, verdict := wal.Replacement(old.State(), target.State(), w, content, st.Clock())
	switch verdict {
	case wal.Same:
		return decision{record: r, same: old}, nil
	case wal.Taken:
		// After `old` was read, another writer may have moved the old record to the new identity. If so, decide again.
		now, err := st.ReadHead(ctx, old.First, old.Identity)
		if err == nil && (now == nil || now.ETag != old.ETag) {
			return decision{}, ErrRaced
		}
		return decision{}, cmp.Or(err, refuse(identityTaken(w.Row), w.First))
	}
	updates := []headUpdate{{old, writes[0], content}}
	if len(writes) == 2 {
		if err := st.checkRowKey(ctx, writes[1]); err != nil {
			return decision{}, err
		}
		updates = []headUpdate{{old, writes[0], ""}, {target, writes[1], content}}
	}
	return decision{kind: wal.Replace, record: r, updates: updates}, st.afterMove(ctx, old)
}

// checkRowKey checks that no other record has the write's row key. In rare cases, another record takes the key between this
// check and the writing of the rows.
func (st *stages) checkRowKey(ctx context.Context, w wal.Write) error {
	all, err := st.Copies(ctx, w)
	for _, x := range all {
		if err == nil && wal.Decide(x.Slot.IndexRow, w) == wal.Collide {
			err = rowKeyTaken(st.Schema, &collision{x.At})
		}
	}
	return err
}

// removal returns the decision to delete the record r, whose head h must be live. The argument `slots` is nil, or a function that
// returns the slots that were already read.
func (st *stages) removal(ctx context.Context, h *store.Head, r record.Record, slots func() knownSlots) (decision, error) {
	return decision{kind: wal.Delete, record: r, updates: []headUpdate{{h, wal.Removal(h.State()), ""}}, slots: slots}, st.afterMove(ctx, h)
}

// afterMove must be called before a write that replaces or removes a record. If the record's last write was a move, afterMove
// writes the rows of the move. The package comment explains the reason.
func (st *stages) afterMove(ctx context.Context, old *store.Head) error {
	if old.Instead == nil {
		return nil
	}
	if err := st.complete(ctx, store.ShardOf(old.First), old.Entry); !settled(err) { // an entry that will never succeed must not block a deletion
		return err
	}
	return nil
}

// completeLast completes the last write of the head d.same. No new write is needed, because this
// last write already has the intended result.
func (st *stages) completeLast(ctx context.Context, d decision, o claim.ID) (Written, error) {
	h, shard := d.same, store.ShardOf(d.same.First)
	err := st.complete(ctx, shard, h.Entry)
	if err == nil && !o.None() {
		err = st.Log.Write(ctx, onceOps(o, shard, h.Entry, h.Write, Unchanged)...)
	}
	switch {
	case storage.Conflict(err):
		return Written{}, errRepeated
	case err != nil:
		return Written{}, err
	}
	return Written{Unchanged, metaOf(h.Write), d.record}, nil
}

// applied is an entry whose index rows are written.
type applied struct {
	store.Entry
	sure bool                          // no request was repeated, so no late copy of a request can still be carried out
	gone map[index.PartitionKey]string // by partition: the ETag of the tombstone that was written there; missing if the partition had several writes, or if the service sent no ETag
}

// apply writes the index rows of an entry's writes, in all partitions concurrently. If some partitions fail, it still writes
// the others, and returns one of the errors. The argument `known` contains the slots of those
// rows that the caller has already read. If there are several writes, known must be empty.
func (st *stages) apply(ctx context.Context, e store.Entry, writes []wal.Write, known knownSlots) (applied, error) {
	partitions := map[index.PartitionKey][]wal.Write{}
	for _, w := range writes {
		for _, p := range w.Partitions {
			partitions[p] = append(partitions[p], w)
		}
	}
	for p, in := range partitions {
		if len(in) == 2 && in[0].Row == in[1].Row {
			partitions[p] = in[1:] // the former and the new identity share this row, so only the write for the new identity is needed; see wal.Write.Instead
		}
	}
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	var g task.Group
	var repeated atomic.Bool
	var mu sync.Mutex
	gone := map[index.PartitionKey]string{}
	for p, writes := range partitions {
		g.Go(func() error {
			etag, err := st.applyTo(ctx, p, writes, known, e.Record, &repeated)
			if err != nil {
				return fmt.Errorf("catalog %s, index partition %q: %w", st.Name, p, err)
			}
			if len(writes) == 1 && writes[0].Gone && etag != "" {
				mu.Lock()
				defer mu.Unlock()
				gone[p] = etag
			}
			return nil
		})
	}
	err := g.Wait()
	return applied{e, !repeated.Load(), gone}, err
}

// applyTo writes the rows of one partition in one transaction. So if a record moves within the partition, each page shows the
// partition either before or after the move. If applyTo sends the transaction more than once, it sets repeated to true. The
// result etag is the ETag of the only row that was written. If no row or several rows were written, or if the service sent no
// ETag, etag is "".
func (st *stages) applyTo(ctx context.Context, partition index.PartitionKey, writes []wal.Write, known knownSlots, r record.Record, repeated *atomic.Bool) (etag string, err error) {
	slots := make([]store.Slot, len(writes))
	for i, w := range writes {
		if w.Fresh {
			continue // most likely no row exists; if a row exists, the service refuses the insertion
		}
		var ok bool
		if slots[i], ok = known[partition]; ok {
			continue
		}
		if slots[i], err = st.readSlot(ctx, partition, w); err != nil {
			return "", err
		}
	}
	for range maxRaces {
		ops, err := rowOps(partition, writes, slots, r)
		if err != nil || len(ops) == 0 {
			return "", err
		}
		var tries storage.Counter
		batch := st.Index.With(storage.RequestOptions{Counter: &tries}).Batch()
		for _, op := range ops {
			batch.Add(op) // at most two rows
		}
		err = batch.Do(ctx)
		if tries.Requests() > 1 {
			repeated.Store(true)
		}
		if err == nil || !store.Overtaken(err) {
			return batch.ETag(), err
		}
		for i, w := range writes {
			if slots[i], err = st.readSlot(ctx, partition, w); err != nil {
				return "", err
			}
		}
	}
	return "", tooManyRaces()
}

// readSlot reads the slot of the write's row in a partition. The record may be large, so readSlot reads it only for a row of
// another program. For such a row, the identity is computed from the record.
func (st *stages) readSlot(ctx context.Context, partition index.PartitionKey, w wal.Write) (store.Slot, error) {
	at := w.At(partition)
	row, found, err := st.Index.Get(ctx, at, store.SlotColumns...)
	if found && store.IdentityOf(row) == "" {
		row, found, err = st.Index.Get(ctx, at)
	}
	if err != nil || !found {
		return store.Slot{}, err
	}
	return st.SlotOf(row), nil
}

// rowOps returns the operations that carry out the writes in a partition. The argument `slots` contains the present state of the
// writes' rows. The error is a [collision].
func rowOps(partition index.PartitionKey, writes []wal.Write, slots []store.Slot, r record.Record) (ops []storage.Op, err error) {
	for i, w := range writes {
		row := store.IndexRow(w, partition, r)
		switch wal.Decide(slots[i].IndexRow, w) {
		case wal.Create:
			ops = append(ops, storage.Op{Kind: storage.Insert, Row: row.Row()})
		case wal.Overwrite:
			ops = append(ops, storage.Op{Kind: storage.Replace, Row: row.Row(), IfMatch: slots[i].ETag})
		case wal.Collide:
			return nil, &collision{w.At(partition)}
		}
	}
	return ops, nil
}

// collision is the error of a write whose row key belongs to another record. The section "Several identities" of the package
// comment explains why two records can have the same row key.
type collision struct{ at key.Key }

func (e *collision) Error() string {
	return fmt.Sprintf("another record has the row key %q in the index partition %q", e.at.Row, e.at.Partition)
}

// finish ends the write of an entry that this process has committed. The arguments e and err are the results of apply. If apply
// has succeeded, a background task moves the entry to the changes.
func (st *stages) finish(ctx context.Context, e applied, err error) error {
	switch {
	case err == nil:
		st.committer.finishLater(ctx, e)
		return nil
	case errors.As(err, new(*collision)), e.Kind == wal.Insert && hopeless(err):
		return st.applyPending(ctx, e.Entry) // another record may have taken the row key in the meantime
	}
	return &committed{problem.Busyf("", "the write is committed and will be completed, but the record is not yet visible under every key; you may send the write again").Because(err)}
}

// committed is the error of a write that was committed, but has not written all its index rows.
type committed struct{ error }

func (e *committed) Unwrap() error { return e.error }

// The functions below apply entries of other writers.

// complete applies an entry of another writer, if the entry is still pending.
func (st *stages) complete(ctx context.Context, shard store.Shard, id wal.EntryID) error {
	row, found, err := st.Log.Get(ctx, shard.EntryKey(store.EntryPrefix, id))
	if err != nil || !found {
		return err
	}
	e, err := store.EntryOf(row)
	if err != nil {
		return err
	}
	return st.applyPending(ctx, e)
}

// applyFor applies the pending entries of records whose first index value has one of the given hashes. It makes one request for
// each shard that contains such records. A shard may contain large entries of other records. Therefore applyFor reads the
// shard's entries without their records, and then reads each needed entry. If at least one of these entries was applied or
// withdrawn, `found` is true.
func (st *stages) applyFor(ctx context.Context, firstHashes []index.FirstHash) (found bool, err error) {
	var shards []store.Shard
	for _, first := range firstHashes {
		shards = append(shards, store.ShardOf(first))
	}
	slices.Sort(shards)
	var any atomic.Bool
	err = store.EachOf(slices.Compact(shards), func(shard store.Shard) error {
		q := shard.Query(store.EntryPrefix)
		q.Select = store.EntryColumns
		return st.Log.All(ctx, q, func(p storage.Page) error {
			for _, row := range p.Entities() {
				e, err := store.EntryOf(row)
				if err != nil || !slices.ContainsFunc(e.Writes, func(w wal.Write) bool { return slices.Contains(firstHashes, w.First) }) {
					continue // package check reports entries that cannot be read
				}
				err = st.complete(ctx, shard, e.ID)
				if !settled(err) { // an entry that will never succeed must not block other entries
					return err
				}
				if !hopeless(err) {
					any.Store(true)
				}
			}
			return nil
		})
	})
	return any.Load(), err
}

// settled reports whether an entry was applied or withdrawn, or is hopeless. The argument err is the error of applyPending.
func settled(err error) bool {
	return err == nil || hopeless(err) || errors.As(err, new(*withdrawn))
}

// applyPending applies an entry of any writer. It withdraws an insertion that can never be applied: another record has taken
// the row key, or the service will always refuse the rows. The error is then [withdrawn].
func (st *stages) applyPending(ctx context.Context, e store.Entry) error {
	writes, newer, err := st.newestWrites(ctx, e)
	if err != nil {
		return err
	}
	for _, id := range newer { // complete newer entries first: they may replace rows of e, and e leaves the log only when each of its rows is written or replaced
		if err := st.complete(ctx, e.Shard, id); !settled(err) {
			return err
		}
	}
	done, err := st.apply(ctx, e, writes, nil)
	if e.Kind == wal.Insert && hopeless(err) {
		return st.withdraw(ctx, e, err)
	}
	if err != nil {
		return err
	}
	done.sure = true // newestWrites has already marked the heads as not Sure, so toChanges need not mark them again
	return st.committer.toChanges(ctx, done)
}

// newestWrites returns those writes of an entry that are still the newest writes of their identities. Another writer may
// have made the entry, so newestWrites marks the heads of the returned writes as not Sure. If an identity has a newer write,
// the result `newer` contains the entry of that write.
func (st *stages) newestWrites(ctx context.Context, e store.Entry) (writes []wal.Write, newer []wal.EntryID, err error) {
	for _, w := range e.Writes {
		h, err := st.headInDoubt(ctx, e, w)
		switch {
		case err != nil:
			return nil, nil, err
		case h != nil && h.Entry == e.ID:
			writes = append(writes, w)
		case h != nil:
			newer = append(newer, h.Entry)
		}
	}
	return writes, newer, nil
}

// headInDoubt returns the head of the write's identity, or nil. If the entry e has written the head, headInDoubt marks the head as not
// Sure.
func (st *stages) headInDoubt(ctx context.Context, e store.Entry, w wal.Write) (*store.Head, error) {
	for {
		h, err := st.ReadHead(ctx, w.First, w.Identity)
		if err != nil || h == nil || h.Entry != e.ID || !h.Sure {
			return h, err
		}
		if err := st.Log.Write(ctx, store.Doubt(w, h.ETag)); !store.Overtaken(err) {
			return h, err
		}
	}
}

// withdraw undoes an insertion that cannot be applied. One transaction deletes the insertion's entry and commits a removal. If
// another process changes the record or completes the insertion before this transaction, withdraw undoes nothing.
func (st *stages) withdraw(ctx context.Context, e store.Entry, cause error) error {
	w := e.Writes[0]
	h, err := st.ReadHead(ctx, w.First, w.Identity)
	if err != nil {
		return err
	}
	if h != nil && h.Entry == e.ID {
		undo := decision{kind: wal.Undo, record: e.Record, updates: []headUpdate{{h, wal.Removal(h.State()), ""}}, more: []storage.Op{deletion(e)}}
		if _, err := st.do(ctx, undo, claim.ID{}); err == nil {
			return withdrawnFor(cause, st.Schema)
		} else if !errors.Is(err, ErrRaced) {
			return err
		}
	}
	if _, there, err := st.Recorded(ctx, e.Shard, e.ID); there || err != nil {
		return err
	}
	// Another process has withdrawn the insertion, and may have died before it deleted the rows.
	if h, err = st.ReadHead(ctx, w.First, w.Identity); err == nil && h != nil {
		err = st.complete(ctx, e.Shard, h.Entry)
	}
	if !settled(err) {
		return err
	}
	return withdrawnFor(cause, st.Schema)
}

// withdrawn is the error of an insertion that was withdrawn because it could not be applied.
type withdrawn struct{ error }

func (e *withdrawn) Unwrap() error { return e.error }

func withdrawnFor(cause error, s index.Schema) error {
	if errors.As(cause, new(*collision)) {
		return &withdrawn{rowKeyTaken(s, cause)}
	}
	return &withdrawn{unstorable(cause)}
}
