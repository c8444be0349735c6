package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/task"
)

const (
	// groupWrites is the maximum number of writes that are committed together. Most writes have two operations on the log, and a
	// transaction has room for 100.
	groupWrites = 48
	// bulkWriters is the maximum number of concurrent writes. This number of writes keeps a laptop's connection busy, and does
	// not overload the log's shards.
	bulkWriters = 2 * groupWrites
	// weightBytes gives large writes more weight: the write of a record of n bytes counts as 1 + n/weightBytes concurrent
	// writes. The reason is that the write keeps a copy of the record in memory for each index key and for the log.
	weightBytes = 8 << 10
	// Some writes are completed in the background, after their callers have received the answers. At most maxBackground writes
	// are in the background at the same time. If the storage is slow, each of them may take minutes.
	maxBackground = 100
)

// member is one of several writes of different identities. The field `first` is the hash of the write's first index value. The
// write of a large record counts as several writes; the field `weight` is their number.
type member struct {
	first  index.FirstHash
	weight int64
	do     func(context.Context) error
}

func weightOf(r record.Record) int64 { return 1 + int64(r.Size())/weightBytes }

// chunks divides the members into parts, whose members run together. It yields each part together with the part's weight,
// a number of concurrent writes (see weightBytes).
func chunks(all []member) iter.Seq2[[]member, int64] {
	return func(yield func([]member, int64) bool) {
		for len(all) > 0 {
			n, weight := 1, min(all[0].weight, bulkWriters)
			for n < len(all) && n < groupWrites && weight+all[n].weight <= bulkWriters {
				weight += all[n].weight
				n++
			}
			if !yield(all[:n], weight) {
				return
			}
			all = all[n:]
		}
	}
}

// inGroups carries out the writes, many at the same time. When writes to one shard are ready to commit, they wait for each
// other, and one transaction commits them. After the writes, a second transaction finishes their log entries in the background.
// If some of the writes fail, inGroups returns the error of one failed write.
func (ct *committer) inGroups(ctx context.Context, all []member) error {
	shards := map[store.Shard][]member{}
	for _, m := range all {
		shard := store.ShardOf(m.first)
		shards[shard] = append(shards[shard], m)
	}
	room := semaphore.NewWeighted(bulkWriters)
	var g task.Group
	for _, shard := range store.Shards() {
		for some, weight := range chunks(shards[shard]) {
			_ = room.Acquire(context.WithoutCancel(ctx), weight) // the members of a group must run together, because they wait for each other
			of := &group{committer: ct, committed: make(chan struct{})}
			of.coming.Store(int64(len(some)))
			of.staying.Store(int64(len(some)))
			for _, m := range some {
				g.Go(func() error {
					defer room.Release(min(m.weight, bulkWriters))
					t := &turn{group: of}
					defer t.endMember(ctx)
					return m.do(context.WithValue(ctx, turnKey{}, t))
				})
			}
		}
	}
	return g.Wait()
}

// group is several writes to one shard that are committed together.
type group struct {
	*committer
	coming    atomic.Int64  // number of members that may still join the commit
	staying   atomic.Int64  // number of members that have not ended
	committed chan struct{} // closed after the commit

	mu      sync.Mutex // guards the fields below
	joined  []*commitment
	carried []applied
}

// turn belongs to one member of a group. The member uses its turn once: it joins the group's commit, or leaves the group.
type turn struct {
	*group
	over bool
}

type turnKey struct{}

// turnOf returns the turn that ctx contains. If the write does not belong to a group, the turn is nil.
func turnOf(ctx context.Context) *turn {
	t, _ := ctx.Value(turnKey{}).(*turn)
	return t
}

// join adds m to the group's commit, waits until the commit has ended, and returns true. If t is nil, or if the
// member has already used its turn, join returns false.
func (t *turn) join(ctx context.Context, m *commitment) bool {
	if t == nil || t.over {
		return false
	}
	t.mu.Lock()
	t.joined = append(t.joined, m)
	t.mu.Unlock()
	t.leave(ctx)
	<-t.committed
	return true
}

// leave ends the turn, so the group no longer waits for this member. The last member to leave commits the group.
func (t *turn) leave(ctx context.Context) {
	if t == nil || t.over {
		return
	}
	t.over = true
	if t.coming.Add(-1) == 0 {
		defer close(t.committed)
		t.commitAll(ctx, t.joined)
	}
}

// endMember records that the member has ended. When the group's last member has ended, a background task finishes the group's entries.
func (t *turn) endMember(ctx context.Context) {
	t.leave(ctx)
	if t.staying.Add(-1) == 0 && len(t.carried) > 0 {
		t.doLater(ctx, func(ctx context.Context) error { return t.toChanges(ctx, t.carried...) })
	}
}

// commit inserts a new entry, updates the heads, and stores the answer for the request with the id o, all in one transaction.
// The writes of a group are committed together. But a write with several heads, with further operations or with a request's id
// is committed alone.
func (ct *committer) commit(ctx context.Context, d decision, o claim.ID) (store.Entry, error) {
	m := &commitment{decision: d, once: o, err: errLost}
	m.entry = store.Entry{Entry: wal.Entry{Kind: d.kind}, Shard: store.ShardOf(d.updates[0].to.First), Record: d.record}
	for _, u := range d.updates {
		m.entry.Writes = append(m.entry.Writes, u.to)
	}
	t := turnOf(ctx)
	if alone := len(d.updates) > 1 || len(d.more) > 0 || !o.None(); alone || !t.join(ctx, m) {
		t.leave(ctx)
		ct.commitAll(ctx, []*commitment{m})
	}
	if o.None() || !errors.Is(m.err, ErrRaced) {
		return m.entry, m.err
	}
	switch _, repeated, err := ct.Log.Get(ctx, o.Row(string(m.entry.Shard)).Key); {
	case err != nil:
		return m.entry, err
	case repeated:
		return m.entry, errRepeated
	}
	return m.entry, ErrRaced
}

// finishLater finishes the entry in the background. If the write belongs to a group, the entries of the group are finished
// together.
func (ct *committer) finishLater(ctx context.Context, e applied) {
	t := turnOf(ctx)
	if t == nil {
		ct.doLater(ctx, func(ctx context.Context) error { return ct.toChanges(ctx, e) })
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.carried = append(t.carried, e)
}

// doLater calls the function `do` in the background, to finish log entries. If maxBackground calls are already under way, if the
// call fails, or if the process dies before the call has ended, Maintain finishes the entries later.
func (ct *committer) doLater(ctx context.Context, do func(context.Context) error) {
	left := func(err error) {
		zerolog.Ctx(ctx).Warn().Err(err).Str("catalog", ct.Name).Msg("a log entry is not completed yet; the function Maintain will complete the entry")
	}
	started := ct.background.TryGo(func() error {
		ctx, cancel := context.WithTimeout(storage.WithPatience(context.WithoutCancel(ctx), 0), applyTime) // no caller waits for this work
		defer cancel()
		if err := task.Do(func() error { return do(ctx) }); err != nil {
			left(err)
		}
		return nil
	})
	if !started {
		left(fmt.Errorf("%d tasks are already completing writes in the background, which is the maximum", maxBackground))
	}
}
