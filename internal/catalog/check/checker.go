package check

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
)

// Result is the summary of a check.
type Result struct {
	Records   int `json:"records"`   // records that the log knows
	Rows      int `json:"rows"`      // rows of the index table
	Untracked int `json:"untracked"` // rows of records that the log does not know, such as another program's
	Pending   int `json:"pending"`   // pending entries of the log
	Problems  int `json:"problems"`  // findings
	Repaired  int `json:"repaired"`  // findings that were repaired
}

// checker is a check under way.
type checker struct {
	*catalog.Catalog
	repair bool
	found  func(catalog.Finding)

	mu  sync.Mutex
	sum Result
}

// count updates the summary, and reports the finding unless it is empty.
func (k *checker) count(f catalog.Finding, change func(*Result)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(&k.sum)
	if f.Problem != "" {
		k.sum.Problems++
		if f.Repaired {
			k.sum.Repaired++
		}
		k.found(f)
	}
}

// report counts and reports a finding.
func (k *checker) report(at key.Key, repaired bool, format string, args ...any) {
	k.count(catalog.Finding{Partition: at.Partition, Row: at.Row, Problem: fmt.Sprintf(format, args...), Repaired: repaired}, func(*Result) {})
}

// repairing reports a finding. If the check repairs, it repairs first.
func (k *checker) repairing(at key.Key, what string, repair func() error) error {
	if !k.repair {
		k.report(at, false, "%s", what)
		return nil
	}
	switch err := repair(); {
	case err == nil:
		k.report(at, true, "%s", what)
	case store.Overtaken(err), errors.Is(err, catalog.ErrRaced): // it is being written
	case problem.Status(err) < 500:
		k.report(at, false, "%s, and can't be repaired: %v", what, err)
	default:
		return err
	}
	return nil
}

// changing reports whether a write of the head's record is under way.
func (k *checker) changing(ctx context.Context, h *store.Head) (bool, error) {
	_, pending, err := k.Log.Get(ctx, key.Key{Partition: store.ShardOf(h.First), Row: store.EntryPrefix + h.Entry})
	if pending || err != nil {
		return true, err
	}
	now, err := k.ReadHead(ctx, h.First, h.Identity)
	return now == nil || now.ETag != h.ETag, err
}
