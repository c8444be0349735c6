package catalog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/stream/logtail"
	"tablesweep/internal/task"
)

// clearAfter is the age at which tombstones are deleted even if an older write may still be under way. A writer gives up after
// applyTime, which is much shorter.
const clearAfter = 24 * time.Hour

// committer writes the log's transactions. A transaction contains one write or a group of writes.
type committer struct {
	*store.Store
	guard      *SchemaGuard
	background task.Group // finishes writes after their callers have received the answers
}

// commitment contains a decision that is to be committed, and the result of the commit.
type commitment struct {
	decision
	entry store.Entry
	once  claim.ID
	err   error // ErrRaced if a head has changed since it was read
}

var outcomes = map[wal.Kind]Outcome{wal.Insert: Created, wal.Replace: Replaced, wal.Delete: deleted}

func (m *commitment) ops() []storage.Op {
	e := m.entry
	ops := []storage.Op{{Kind: storage.Insert, Row: store.EntryRow(store.EntryPrefix, e).Row()}}
	for _, u := range m.updates {
		op := storage.Op{Kind: storage.Insert, Row: store.HeadRow(u.to, e.ID, u.content, u.from == nil || u.from.Sure).Row()}
		if u.from != nil {
			op.Kind, op.IfMatch = storage.Replace, u.from.ETag
		}
		ops = append(ops, op)
	}
	ops = append(ops, onceOps(m.once, e.Shard, e.ID, e.Writes[len(e.Writes)-1], outcomes[e.Kind])...)
	return append(ops, m.more...)
}

// commitAll commits writes of different identities of one shard. Each entry's time comes from the service's clock, and is
// later than the times of the entry's heads. The commit must follow within a minute of this time, because otherwise followers
// of the changes could miss the entry. The work before the commit may have taken minutes, so commitAll checks the stored
// schema again. A migration to a new schema skips this check, because the check fails until the migration has ended.
func (ct *committer) commitAll(ctx context.Context, all []*commitment) {
	if ct.guard.lastRead() == schemaOurs {
		if err := ct.guard.Writable(ctx); err != nil {
			for _, m := range all {
				m.err = err
			}
			return
		}
	}
	for _, m := range all {
		t := ct.ServiceNow()
		for _, u := range m.updates {
			t = wal.NextTime(t, u.from.State())
		}
		// Use a new clock for each entry, because a clock never goes back. If the time of one head were far in the future, a
		// shared clock would give all later entries times in the future.
		m.entry.ID = wal.EntryID(logtail.NewClock().NextKey(t))
		m.entry.Time = t
	}
	committing, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	ct.commitIn(ctx, committing, all)
}

// commitIn commits writes of different identities of one shard in one transaction. If one write causes a refusal, commitIn
// commits the other writes without this write. Each write gets its own error. The context `committing`, which ends after
// commitTime, is for the transactions. The context ctx is only for finding out whether a transaction was committed.
func (ct *committer) commitIn(ctx, committing context.Context, all []*commitment) {
	again := func(some []*commitment) error {
		ct.commitIn(ctx, committing, some)
		return nil // each write contains its own error
	}
	var ops [][]storage.Op
	for _, m := range all {
		ops = append(ops, m.ops())
	}
	at, err := ct.writeLog(committing, ops)
	switch {
	case err == nil:
	case store.Overtaken(err) && at >= 0:
		// Either another writer was faster, or an earlier try of this request has committed the writes, but the answer
		// to that try was lost.
		_, ours, failed := ct.Recorded(ctx, all[at].entry.Shard, all[at].entry.ID)
		if failed == nil && !ours {
			all[at].err = ErrRaced
			_ = inHalves(all, at, again)
			return
		}
		if err = nil; !ours { // the log cannot be read, so it is unknown whether the writes are committed
			err = &unanswered{failed}
		}
	case len(all) > 1 && (hopeless(err) || store.Overtaken(err) || errors.Is(err, errTooMany)):
		_ = inHalves(all, -1, again)
		return
	case hopeless(err):
		err = unstorable(err)
	default:
		passing := storage.Passing(err)
		if err = fmt.Errorf("catalog %s: the write was not recorded in the log: %w", ct.Name, err); passing {
			err = &unanswered{err}
		}
	}
	for _, m := range all {
		m.err = err
	}
}

// errLost is the error of a write whose commit was interrupted by a panic.
var errLost = &unanswered{errors.New("the commit was interrupted")}

var errTooMany = errors.New("too large for a transaction")

// writeLog sends the operations of several writes as one transaction. If the transaction is refused, the result `failed` is the
// index of the write that caused the refusal, or -1 if that write is unknown.
func (ct *committer) writeLog(ctx context.Context, all [][]storage.Op) (failed int, err error) {
	b := ct.Log.Batch()
	var of []int // for each operation, the index of its write
	for i, ops := range all {
		for _, op := range ops {
			if !b.Add(op) {
				return -1, errTooMany
			}
			of = append(of, i)
		}
	}
	err = b.Do(ctx)
	switch refused := (*storage.Error)(nil); {
	case len(all) == 1:
		return 0, err
	case errors.As(err, &refused) && refused.Index >= 0 && refused.Index < len(of):
		return of[refused.Index], err
	}
	return -1, err
}

// unanswered means that it is unknown whether a write was committed.
type unanswered struct{ error }

func (e *unanswered) Unwrap() error { return e.error }

// finishOps returns the operations that move the entry to the changes. If the entry has deletions, the operations also insert a
// note that lists the entry's tombstones. If a request that writes the entry's index rows was repeated, the operations also mark
// the heads as not Sure, because the service may still carry out the request's first copy. If
// applyPending has applied the entry, the operations do not mark the heads, because newestWrites has already marked them.
func (ct *committer) finishOps(e applied) []storage.Op {
	ops := []storage.Op{deletion(e.Entry)}
	if e.Kind != wal.Undo {
		ops = append(ops, storage.Op{Kind: storage.Insert, Row: store.EntryRow(store.ChangePrefix, e.Entry).Row()})
	}
	if gone := slices.DeleteFunc(slices.Clone(e.Writes), func(w wal.Write) bool { return !w.Gone }); len(gone) > 0 {
		what := storage.StringProperty("Writes", store.Encode(gone))
		later := clearLater(ct.Clock(), e.Shard, e.ID, what)
		ops = append(ops, later, storage.Op{Kind: storage.Replace, Row: storage.Entity{
			Key: e.Shard.EntryKey(store.TombstonePrefix, e.ID),
			Properties: []storage.Property{
				what, storage.StringProperty("Later", later.Row.Key.Row), storage.StringProperty("Rows", store.Encode(e.gone)),
			},
		}.Row()})
	}
	if !e.sure {
		for _, w := range e.Writes {
			ops = append(ops, store.Doubt(w, "*"))
		}
	}
	return ops
}

// toChanges moves applied entries of one shard to the changes, in one transaction. If the service refuses this transaction,
// toChanges divides the entries among smaller transactions. If the service names an entry that it refuses, this entry gets a
// transaction of its own.
func (ct *committer) toChanges(ctx context.Context, all ...applied) error {
	var ops [][]storage.Op
	for _, e := range all {
		ops = append(ops, ct.finishOps(e))
	}
	at, err := ct.writeLog(ctx, ops)
	if len(all) > 1 && err != nil && !storage.Passing(err) {
		err = inHalves(all, at, func(some []applied) error { return ct.toChanges(ctx, some...) })
		if at >= 0 {
			err = errors.Join(err, ct.toChanges(ctx, all[at]))
		}
		return err
	}
	if storage.Conflict(err) {
		e := all[0]
		_, there, getErr := ct.Log.Get(ctx, e.Shard.EntryKey(store.ChangePrefix, e.ID))
		switch {
		case getErr != nil:
			return getErr
		case !there: // the change does not exist, so the conflict concerns a row that another process is writing
			return tooManyRaces()
		}
		err = ct.Log.Write(ctx, ops[0][0]) // the entry was restored from a backup, so its change exists already
	}
	if store.Overtaken(err) { // another process has finished the entry
		return nil
	}
	return err
}

// inHalves calls the function `do` with each half of a list. If omit is not -1, inHalves leaves out the element with that index.
func inHalves[T any](all []T, omit int, do func([]T) error) error {
	if omit >= 0 {
		all = slices.Concat(all[:omit], all[omit+1:])
	}
	var g task.Group
	g.Go(func() error { return do(all[:len(all)/2]) })
	g.Go(func() error { return do(all[len(all)/2:]) })
	return g.Wait()
}

// onceOps returns the operations that store a request's id and its answer. The answer's record is not stored again, because
// the entry contains the record.
func onceOps(o claim.ID, shard store.Shard, entry wal.EntryID, w wal.Write, did Outcome) []storage.Op {
	if o.None() {
		return nil
	}
	return []storage.Op{{Kind: storage.Insert, Row: o.Row(string(shard),
		storage.StringProperty("Outcome", string(did)),
		storage.StringProperty("Write", store.Encode(w)),
		storage.StringProperty("Entry", string(entry)),
	).Row()}}
}

func deletion(e store.Entry) storage.Op {
	return storage.Op{Kind: storage.Delete, Row: storage.Row{Key: e.Shard.EntryKey(store.EntryPrefix, e.ID)}}
}

// clearLater returns the operation that inserts a note. The note is due at now.Add(clearAfter). After this time,
// Maintain deletes the rows that the note lists. The id makes the note's key unique.
func clearLater(now time.Time, shard store.Shard, id wal.EntryID, what storage.Property) storage.Op {
	return storage.Op{Kind: storage.Replace, Row: storage.Entity{
		Key:        shard.Key(store.ClearPrefix + key.Inverted(now.Add(clearAfter)) + "|" + string(id)),
		Properties: []storage.Property{what},
	}.Row()}
}

// unstorable returns the error that the caller gets for a record that the service will always refuse. The error's status is
// below 500, so an import counts the record as refused and continues.
func unstorable(cause error) error {
	if storage.HasCode(cause, "EntityTooLarge", "PropertyValueTooLarge", "TooManyProperties", "RequestBodyTooLarge") {
		return problem.TooLargef("", "the record is too large for a row; shorten the record").Because(cause)
	}
	return problem.Invalidf("", "the storage refuses the record; correct the record as the storage's error says").Because(cause)
}

// hopeless reports whether a write or an entry would fail with the same error if it were tried again. A [problem.Error] is
// meant for the caller, and is never hopeless.
func hopeless(err error) bool {
	var refused *storage.Error
	switch {
	case errors.As(err, new(*problem.Error)):
		return false
	case errors.As(err, &refused):
		return refused.Status == http.StatusBadRequest || refused.Status == http.StatusRequestEntityTooLarge
	}
	return errors.As(err, new(*collision))
}
