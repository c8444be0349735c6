package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
)

// Finding is one thing that is wrong with a catalog.
type Finding struct {
	Partition string `json:"partition"`
	Row       string `json:"row"`
	Problem   string `json:"problem"`
	Repaired  bool   `json:"repaired"`
}

// Checked is the summary of a check.
type Checked struct {
	Records   int `json:"records"`   // records that the log knows
	Rows      int `json:"rows"`      // rows of the index table
	Untracked int `json:"untracked"` // rows of records that the log does not know, such as another program's
	Pending   int `json:"pending"`   // pending entries of the log
	Problems  int `json:"problems"`  // findings
	Repaired  int `json:"repaired"`  // findings that were repaired
}

// checker is a running check.
type checker struct {
	*Catalog
	repair bool
	found  func(Finding)

	mu  sync.Mutex
	sum Checked
}

// count updates the summary, and reports the finding unless it is empty.
func (k *checker) count(f Finding, change func(*Checked)) {
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
	k.count(Finding{at.Partition, at.Row, fmt.Sprintf(format, args...), repaired}, func(*Checked) {})
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
	case overtaken(err), errors.Is(err, errRaced): // it is being written
	case problem.Status(err) < 500:
		k.report(at, false, "%s, and can't be repaired: %v", what, err)
	default:
		return err
	}
	return nil
}

// errRaced means that a writer was faster, and nothing was done.
var errRaced = errors.New("overtaken")

// unlessRaced returns err, or errRaced if the try raced.
func unlessRaced(raced bool, err error) error {
	if raced {
		return errRaced
	}
	return err
}

// changing reports whether a write of the head's record is under way.
func (k *checker) changing(ctx context.Context, h *head) (bool, error) {
	_, pending, err := k.Log.Get(ctx, key.Key{Partition: shardOf(h.First), Row: entryPrefix + h.Entry})
	if pending || err != nil {
		return true, err
	}
	now, err := k.readHead(ctx, h.First, h.Identity)
	return now == nil || now.etag != h.etag, err
}
