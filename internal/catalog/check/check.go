// Package check compares a catalog's index rows with each other and with the catalog's log, and repairs the rows.
//
// [Run] reads the index and the heads once, into a tally that needs little memory. If the tally shows differences, Run reads
// the index and the heads again, and checks the suspect records one by one. A write that is under way causes differences.
// Therefore Run reads rows with differences again before it reports them.
package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// Run compares the catalog's index with its log. If `repair` is true, Run also completes unfinished writes, and corrects every
// index row that differs from its record's newest write in the log. Run trusts the log, so it reverts an index row that was
// changed by hand. If the log lacks a record, Run keeps the record's index rows: the log may be lost, or older than the index, so
// only people can judge these rows.
//
// Run calls the function `report` for each problem, never concurrently. If another program wrote the catalog, or if the catalog
// has another schema, the error is a Conflict; see package migrate. Run may be interrupted and repeated.
func Run(ctx context.Context, c *catalog.Catalog, repair bool, report func(catalog.Finding)) (Result, error) {
	k := &checker{Catalog: c, repair: repair, found: report, covered: map[uint64]bool{}}
	if err := k.Writable(ctx); err != nil {
		return k.sum, err
	}
	if repair {
		if err := k.CompleteAll(ctx); err != nil {
			return k.sum, err
		}
	}
	if err := store.EachShard(func(shard store.Shard) error { return k.checkEntries(ctx, shard) }); err != nil {
		return k.sum, err
	}
	suspect, err := k.compare(ctx)
	if err != nil || suspect == nil {
		return k.sum, err
	}
	// Check the heads first. The later check of the index rows skips the rows that are reported here.
	if err := store.EachShard(func(shard store.Shard) error { return k.checkHeads(ctx, shard, suspect) }); err != nil {
		return k.sum, err
	}
	return k.sum, k.checkRows(ctx, suspect)
}

// compare reads the index and the heads once. The result `suspect` reports whether an identity's index rows may differ from the
// log. If no rows differ, `suspect` is nil.
func (k *checker) compare(ctx context.Context) (suspect func(identity index.IdentityHash) bool, err error) {
	t := newTally()
	err = k.Index.All(ctx, storage.Query{}, func(p storage.Page) error {
		k.count(&k.sum.Rows, len(p.Rows))
		for _, row := range p.Entities() {
			t.addRow(k.Catalog, row)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = store.EachShard(func(shard store.Shard) error {
		return k.Log.All(ctx, shard.Query(store.HeadPrefix), func(p storage.Page) error {
			for _, row := range p.Entities() {
				h, err := store.HeadOf(row)
				if err != nil {
					_, identity, _ := strings.Cut(strings.TrimPrefix(row.Key.Row, store.HeadPrefix), "|")
					k.cover(identity) // without a readable head, the record's index rows cannot be checked
					k.report(row.Key, false, "%v", err)
					continue
				}
				k.mu.Lock()
				t.addHead(h)
				if !h.Gone {
					k.sum.Records++
				}
				k.mu.Unlock()
			}
			return nil
		})
	})
	return t.close(), err
}

// checkEntries counts the shard's pending log entries. It reports entries that cannot be read, and entries that Maintain could not
// apply.
func (k *checker) checkEntries(ctx context.Context, shard store.Shard) error {
	return k.Log.All(ctx, shard.Query(store.EntryPrefix), func(p storage.Page) error {
		for _, row := range p.Entities() {
			k.count(&k.sum.Pending, 1)
			if reason := row.Get(store.ParkedColumn); reason != "" {
				k.report(row.Key, false, "a log entry cannot be applied: %s", reason)
			} else if _, err := store.EntryOf(row); err != nil {
				k.report(row.Key, false, "a log entry cannot be applied: %v", err)
			}
		}
		return nil
	})
}

// checkHeads reads the heads in the shard. If a live head's identity is suspect, checkHeads checks the index rows of the
// head's record.
func (k *checker) checkHeads(ctx context.Context, shard store.Shard, suspect func(identity index.IdentityHash) bool) error {
	return store.Each(ctx, k.Log, shard.Query(store.HeadPrefix), func(ctx context.Context, row storage.Entity) error {
		h, err := store.HeadOf(row)
		if err != nil || h.Gone || !suspect(h.Identity) {
			return nil // if the head cannot be read, the method compare has reported it already
		}
		return k.checkHead(ctx, h)
	})
}

func (k *checker) checkHead(ctx context.Context, h *store.Head) error {
	all, err := k.Copies(ctx, h.Write)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(x store.Copy) bool { return !x.Good(h) }) {
		if changing, err := k.isChanging(ctx, h); changing || err != nil {
			return err
		}
		// Read the rows again, because the head's write may have been under way at the first reading, and may have ended
		// before isChanging was called.
		if all, err = k.Copies(ctx, h.Write); err != nil {
			return err
		}
	}
	for _, x := range all {
		if x.Slot.Identity == h.Identity && !x.Good(h) {
			k.cover(x.At.Partition, x.At.Row)
		}
	}
	at := h.At(h.Partitions[0])
	r, found, err := k.Logged(ctx, h, all)
	if err != nil {
		return err
	}
	if !found {
		k.report(at, false, "%s", describeLoss(h, all))
		return nil
	}
	if id, err := k.Identify(r); err != nil || id.Hash() != h.Identity {
		k.cover(string(h.Identity))
		k.report(at, false, "the record's index rows were written with another schema; move the record with: tablesweep catalog migrate")
		return nil
	}
	if x := newestOf(h, all); x.Slot.Version > h.Version && (x.Slot.State == wal.Tombstone || store.HashOf(x.Record) != h.Content) {
		if changing, err := k.isChanging(ctx, h); changing || err != nil {
			return err
		}
		k.report(x.At, false, newerThanLog)
		return nil
	}
	for _, x := range all {
		if !x.Good(h) {
			if err := k.repairRow(ctx, h, x, r); err != nil {
				return err
			}
		}
	}
	return nil
}

const newerThanLog = "the index row is newer than the log; was the log restored from a backup?"

// Of the copies that have the head's identity, newestOf returns the copy with the greatest version.
func newestOf(h *store.Head, all []store.Copy) (newest store.Copy) {
	for _, x := range all {
		if x.Slot.Identity == h.Identity && x.Slot.Version > newest.Slot.Version {
			newest = x
		}
	}
	return newest
}

func (k *checker) repairRow(ctx context.Context, h *store.Head, x store.Copy, r record.Record) error {
	what, allowed := "the index row is missing", k.repair
	op := storage.Op{Kind: storage.Insert, Row: store.IndexRow(h.Write, index.PartitionKey(x.At.Partition), r).Row()}
	if x.Slot.State != wal.NoRow {
		if what = "the index row differs from the record"; x.Slot.Identity != h.Identity {
			why, err := k.placementOf(ctx, x)
			if err != nil {
				return err
			}
			what = "another record's row is in this place"
			switch why {
			case belongs:
				k.report(x.At, false, "another record has this row's key; change the sort value of one of the two records")
				return nil
			case stray:
				what, allowed = what+", and its contents differ from that record in the log", false
			case strayCopy:
				k.cover(x.At.Partition, x.At.Row)
			}
		}
		op.Kind, op.IfMatch = storage.Replace, x.Slot.ETag
	}
	return k.repairAndReport(allowed, x.At, what, func() error {
		if op.Kind == storage.Insert && h.Sure { // an insertion has no condition, so if its answer is lost, the service may still carry it out later
			if err := k.Log.Write(ctx, store.Doubt(h.Write, h.ETag)); err != nil {
				return err
			}
			h.Sure = false
		}
		return k.Index.Write(ctx, op)
	})
}

// describeLoss describes a record that cannot be restored: all its copies differ from its head, and the log no longer contains
// its last change.
func describeLoss(h *store.Head, all []store.Copy) string {
	if slices.ContainsFunc(all, func(x store.Copy) bool { return x.Ours(h) }) {
		return "all of the record's index rows differ from its last write; write the record again"
	}
	return "the record has lost all its index rows and is no longer in the log; restore the index table from a backup"
}

// Result is the summary of a check.
type Result struct {
	Records   int `json:"records"`   // records in the log
	Rows      int `json:"rows"`      // rows of the index table
	Untracked int `json:"untracked"` // rows whose records are not in the log, such as rows of another program
	Pending   int `json:"pending"`   // pending log entries
	Problems  int `json:"problems"`  // findings
	Repaired  int `json:"repaired"`  // findings that were repaired
}

type checker struct {
	*catalog.Catalog
	repair bool
	found  func(catalog.Finding)

	mu  sync.Mutex // guards the fields below
	sum Result
	// covered contains hashes of keys and of identities. The method checkRows skips index rows that have one of these keys or
	// identities.
	covered map[uint64]bool
}

func (k *checker) cover(what ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.covered[sumOf(what...)] = true
}

func (k *checker) isCovered(at key.Key, identities ...index.IdentityHash) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.covered[sumOf(at.Partition, at.Row)] || slices.ContainsFunc(identities, func(identity index.IdentityHash) bool { return k.covered[sumOf(string(identity))] })
}

func (k *checker) count(n *int, d int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	*n += d
}

func (k *checker) report(at key.Key, repaired bool, format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sum.Problems++
	if repaired {
		k.sum.Repaired++
	}
	k.found(catalog.Finding{Partition: at.Partition, Row: at.Row, Problem: fmt.Sprintf(format, args...), Repaired: repaired})
}

// repairAndReport reports a problem. If `allowed` is true, it also repairs the problem.
func (k *checker) repairAndReport(allowed bool, at key.Key, what string, repair func() error) error {
	if !allowed {
		k.report(at, false, "%s", what)
		return nil
	}
	switch err := repair(); {
	case err == nil:
		k.report(at, true, "%s", what)
	case store.Overtaken(err), errors.Is(err, catalog.ErrRaced): // somebody else is writing the record
	case problem.Status(err) < 500:
		k.report(at, false, "%s, and cannot be repaired: %v", what, err)
	default:
		return err
	}
	return nil
}

// isChanging reports whether a write of the head's record is under way.
func (k *checker) isChanging(ctx context.Context, h *store.Head) (bool, error) {
	_, pending, err := k.Log.Get(ctx, store.ShardOf(h.First).EntryKey(store.EntryPrefix, h.Entry))
	if pending || err != nil {
		return true, err
	}
	now, err := k.ReadHead(ctx, h.First, h.Identity)
	return now == nil || now.ETag != h.ETag, err
}
