package action

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

// Mode decides how to treat a row that exists in the destination.
type Mode string

// The modes of a copy. A repeated step finds rows that its first run has written. So in each mode, a row counts as written
// if the destination has a row with the same key and content.
const (
	Replace Mode = "replace" // overwrite the existing row; the default
	Merge   Mode = "merge"   // overwrite only the properties that the source row has
	Skip    Mode = "skip"    // keep the existing row
	Fail    Mode = "fail"    // keep the existing row, and report the source row as failed
)

// Modes lists all modes.
var Modes = []Mode{Replace, Merge, Skip, Fail}

// maxErrors is the number of answers with status 500 after which a write is not tried again, because its row or its transaction probably causes them.
const maxErrors = 10

// How often and when a write is repeated after a conflict. If another program writes a row at the same time, the service answers 409 even to an upsert.
const (
	maxConflicts  = 5                     // number of answers with status 409 after which a row fails
	conflictPause = 50 * time.Millisecond // pause before the first repetition of an upsert; each further pause is twice as long
)

// Copy writes rows into one table exactly as they were read. It writes the rows of a partition in concurrent entity
// group transactions that are as large as the service allows. A Copy is safe for concurrent use.
type Copy struct {
	Destination *storage.Table
	Mode        Mode
	// Compared must not be set together with a mode. If Compared is set, a row is written only if the destination's row
	// has not changed since the caller compared it with the source row. The caller sets each source row's ETag to the
	// ETag of the destination's row, or to "" if the destination had no row.
	Compared bool
}

// Copy writes the rows, which must be in table order. Copy returns an error if the destination refuses all
// writes ([storage.Permanent]) or does not answer in time. Before Copy returns an error, it may have written some rows.
func (c Copy) Copy(ctx context.Context, rows []storage.Row) (Result, error) {
	return All(ctx, storage.RequestOptions{}, nil, c, rows)
}

// Transactions returns the number of transactions that write the rows if all rows are small.
func Transactions(rows []storage.Row) int { return len(Copy{}.Split(rows)) }

// Changes implements [Changing].
func (c Copy) Changes() *storage.Table { return c.Destination }

// Split divides rows into units for [Copy.Do]. A unit ends where the partition changes or a transaction is full.
func (Copy) Split(rows []storage.Row) [][]storage.Row {
	var all [][]storage.Row
	for start, i := 0, 0; i < len(rows); i++ {
		last := i == len(rows)-1
		if last || rows[i+1].Key.Partition != rows[start].Key.Partition || i+1-start == storage.MaxBatchRows {
			all = append(all, rows[start:i+1])
			start = i + 1
		}
	}
	return all
}

// Do writes rows of one partition in as few transactions as the rows' size allows, and leaves out failed rows. It returns the same errors as [Copy.Copy].
func (c Copy) Do(ctx context.Context, o storage.RequestOptions, rows []storage.Row) (Result, error) {
	c.Destination = c.Destination.With(o)
	o.MaxErrors = maxErrors
	var r Result
	limit := len(rows)
	conflicts := map[key.Key]int{} // number of conflicts of each row; if an answer names no row, its conflict counts for the zero key
	for len(rows) > 0 {
		b := c.Destination.Batch()
		for b.Rows() < min(limit, len(rows)) && b.Add(c.op(rows[b.Rows()])) {
		}
		n := b.Rows()
		err := b.With(o).Do(ctx)
		refusal, index := failedRow(err, n)
		var about key.Key
		if index >= 0 {
			about = rows[index].Key
		}
		switch {
		case err == nil:
			r.Written += int64(n)
			rows = rows[n:]
		case storage.Broken(err) && n > 1: // a single row may be the cause, so try each row alone
			limit = 1
		case storage.Broken(err):
			_, others := c.Destination.With(storage.RequestOptions{Once: true}).MayWrite(ctx)
			if f, ok := brokenRow(rows[0].Key, err, others); ok {
				r.Failed, rows = append(r.Failed, f), rows[1:]
			} else {
				o.MaxErrors = 0
			}
		case c.Compared && storage.HasCode(err, "EntityAlreadyExists", "UpdateConditionNotSatisfied", "ResourceNotFound") && conflicts[about] < maxConflicts:
			if rows, err = c.resolve(ctx, o.Memory, rows, &r); err != nil {
				return r, err
			}
			conflicts[about]++
		case refusal == nil || refusal.Temporary() || storage.Denied(err) || storage.NotFound(err): // the refusal is not about a single row
			return r, err
		case storage.Conflict(err) && conflicts[about] < maxConflicts:
			if c.kind() == storage.Insert {
				if rows, err = c.resolve(ctx, o.Memory, rows, &r); err != nil {
					return r, err
				}
			} else if !task.Sleep(ctx, conflictPause<<conflicts[about]) {
				return r, ctx.Err()
			}
			conflicts[about]++
		case index >= 0:
			r.Failed = append(r.Failed, Failure{Key: about, Reason: reason(refusal)})
			rows = exceptRow(rows, index)
		default: // the transaction is too large, or the answer does not name the refused row
			limit = n / 2
		}
	}
	return r, nil
}

// op returns the operation that writes a row.
func (c Copy) op(row storage.Row) storage.Op {
	if c.Compared && row.ETag() == "" {
		return storage.Op{Kind: storage.Insert, Row: row}
	}
	if c.Compared {
		return storage.Op{Kind: storage.Replace, Row: row, IfMatch: row.ETag()}
	}
	return storage.Op{Kind: c.kind(), Row: row}
}

func (c Copy) kind() storage.OpKind {
	switch c.Mode {
	case Merge:
		return storage.Merge
	case Skip, Fail:
		return storage.Insert
	}
	return storage.Replace
}

// failedRow returns the refusal of a transaction of n rows, or nil if err is not a refusal. The result `index` is the refused row's index,
// or -1 if the refusal names no row.
func failedRow(err error, n int) (refusal *storage.Error, index int) {
	switch {
	case !errors.As(err, &refusal):
		return nil, -1
	case n == 1:
		return refusal, 0
	case refusal.Index >= n:
		return refusal, -1
	}
	return refusal, refusal.Index
}

// brokenRow returns the failure of a row that the service cannot write, although it can write other rows. If the
// service can write no rows, brokenRow returns false, and the rows wait until the service recovers.
func brokenRow(k key.Key, err, others error) (Failure, bool) {
	var e *storage.Error
	if others != nil || !errors.As(err, &e) {
		return Failure{}, false
	}
	return Failure{Key: k, Reason: fmt.Sprintf("%d, %d times in a row: %s", e.Status, maxErrors, reason(e)), Broken: true}, true
}

func reason(e *storage.Error) string {
	if e.Code == "" {
		return e.Message
	}
	return e.Code + ": " + e.Message
}

// exceptRow returns the rows without the row at index i. It makes a copy, because other code uses the page's rows.
func exceptRow(rows []storage.Row, i int) []storage.Row {
	rest := make([]storage.Row, 0, len(rows)-1)
	return append(append(rest, rows[:i]...), rows[i+1:]...)
}

// resolve returns the rows that are still to be written, and records all other rows in r. If c.Compared is false, the
// other rows are the rows that exist in the destination. If c.Compared is true, the other rows are the rows that exist
// there with the same content, and the rows that have changed there since the comparison.
func (c Copy) resolve(ctx context.Context, part *memory.Part, rows []storage.Row, r *Result) ([]storage.Row, error) {
	used := int64(0) // bytes of memory for the existing rows
	defer func() { part.Use(-used) }()
	existing, err := Existing(rows, storage.Query{}, func(q storage.Query) (storage.Page, error) {
		p, err := c.Destination.Query(ctx, q)
		used += storage.MemoryOf(p.Bytes, len(p.Rows))
		return p, err
	})
	if err != nil {
		return rows, fmt.Errorf("compare with existing rows: %w", err)
	}
	var left []storage.Row
	for _, row := range rows {
		there, ok := existing[row.Key]
		switch {
		case !ok && (!c.Compared || row.ETag() == ""):
			left = append(left, row)
		case ok && storage.Equal(row.Entity(), there.Entity()):
			r.Written++
		case ok && c.Compared && there.ETag() == row.ETag(): // another row of the transaction caused the refusal
			left = append(left, row)
		case c.Mode == Fail:
			r.Failed = append(r.Failed, Failure{Key: row.Key, Reason: "the destination has a row with this key and other content"})
		default:
			r.Kept = append(r.Kept, row.Key)
		}
	}
	return left, nil
}

// Existing reads the given rows, which are in one partition and in table order, and leaves out rows that do not exist.
// The first query begins at the first given row. If given rows lie after the page of a query, the next query begins at
// the first of these rows. If q selects properties, for example only the keys, each query reads a full page. If q reads
// all properties, each query after the first reads a single row, because a full page could contain many other rows.
func Existing(rows []storage.Row, q storage.Query, query func(storage.Query) (storage.Page, error)) (map[key.Key]storage.Row, error) {
	found := map[key.Key]storage.Row{}
	for last := rows[len(rows)-1].Key; len(rows) > 0; {
		q.Range = key.Range{Partition: &last.Partition, Low: &key.Bound{Key: rows[0].Key.Row}, High: &key.Bound{Key: last.Row}}
		p, err := query(q)
		if err != nil {
			return nil, err
		}
		reached := 0
		for _, e := range p.Rows {
			at, inRows := slices.BinarySearchFunc(rows, e.Key, func(row storage.Row, k key.Key) int { return row.Key.Compare(k) })
			if reached = at; inRows {
				found[e.Key] = e
				reached++
			}
		}
		if p.Next == nil {
			break
		}
		if q.Token = p.Next; reached > 0 {
			rows, q.Token = rows[reached:], nil
			if q.Select == nil {
				q.Top = 1
			}
		}
	}
	return found, nil
}
