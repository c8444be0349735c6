package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
)

// Finding is something that is wrong with a catalog.
type Finding struct {
	Partition string `json:"partition"`
	Row       string `json:"row"`
	Problem   string `json:"problem"`
	Repaired  bool   `json:"repaired"`
}

// Checked sums up a check.
type Checked struct {
	Records   int `json:"records"`   // that the log knows
	Rows      int `json:"rows"`      // of the index table
	Untracked int `json:"untracked"` // rows of records that the log doesn't know, such as another program's
	Pending   int `json:"pending"`   // entries in the log
	Problems  int `json:"problems"`  // findings
	Repaired  int `json:"repaired"`  // of the problems
}

// checker is a check under way.
type checker struct {
	*Catalog
	repair bool
	found  func(Finding)

	mu  sync.Mutex
	sum Checked
}

// count changes the sum, and reports a finding unless it is empty.
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

// report counts a finding.
func (k *checker) report(at key.Key, repaired bool, format string, args ...any) {
	k.count(Finding{at.Partition, at.Row, fmt.Sprintf(format, args...), repaired}, func(*Checked) {})
}

// repairing reports a finding, after its repair if repair is asked for.
func (k *checker) repairing(at key.Key, what string, repair func() error) error {
	if !k.repair {
		k.report(at, false, "%s", what)
		return nil
	}
	switch err := repair(); {
	case err == nil:
		k.report(at, true, "%s", what)
	case overtaken(err), errors.Is(err, errRaced): // it changes at this moment
	case problem.Status(err) < 500:
		k.report(at, false, "%s, and can't be repaired: %v", what, err)
	default:
		return err
	}
	return nil
}

// errRaced means that a repair was overtaken by a writer, and nothing was done.
var errRaced = errors.New("overtaken")

// unlessRaced makes an error of a try that did nothing.
func unlessRaced(raced bool, err error) error {
	if raced {
		return errRaced
	}
	return err
}

// changing reports whether the record is being written.
func (k *checker) changing(ctx context.Context, h *head) (bool, error) {
	_, pending, err := k.Log.Get(ctx, key.Key{Partition: shardOf(h.First), Row: entryPrefix + h.Entry})
	if pending || err != nil {
		return true, err
	}
	now, err := k.readHead(ctx, h.First, h.Identity)
	return now == nil || now.etag != h.etag, err
}
