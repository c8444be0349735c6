package action

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// [Delete] gives up if maxReads consecutive reads find all rows still present. Perhaps another program writes the
// rows again, or the service's answers contradict each other.
const maxReads = 5

// Delete removes rows from a table.
type Delete struct {
	Table *storage.Table
	// If Unchanged is set, a row is deleted only if its ETag in the table is still the given row's ETag. Other rows are
	// skipped.
	Unchanged bool
}

// Changes implements [Changing].
func (d Delete) Changes() *storage.Table { return d.Table }

// Split divides rows into transactions.
func (Delete) Split(rows []storage.Row) [][]storage.Row { return Copy{}.Split(rows) }

// DeleteFound deletes the rows that a query finds. If the function `include` is not nil, it decides from a
// row's key and Timestamp whether to delete the row. Even after an error, the result `removed` is the
// number of deleted rows.
func DeleteFound(ctx context.Context, table *storage.Table, q storage.Query, include func(storage.Row) bool) (removed int64, err error) {
	q.Select = []string{"Timestamp"}
	err = table.All(ctx, q, func(p storage.Page) error {
		rows := p.Rows
		if include != nil {
			rows = slices.DeleteFunc(rows, func(e storage.Row) bool { return !include(e) })
		}
		done, err := All(ctx, storage.RequestOptions{}, nil, Delete{Table: table}, rows)
		removed += done.Written
		if err == nil && len(done.Failed) > 0 {
			err = fmt.Errorf("%s could not be removed; the first failure is: %s", problem.Plural(len(done.Failed), "row"), done.Failed[0])
		}
		return err
	})
	return removed, err
}

// Do deletes rows of one partition. A row that does not exist counts as deleted, because an earlier try without an answer
// may have deleted the row. Unless Unchanged is set, Do also deletes rows that have changed since they were read.
func (d Delete) Do(ctx context.Context, o storage.RequestOptions, rows []storage.Row) (Result, error) {
	o.Memory = nil // queries here read only keys, which need little memory
	d.Table = d.Table.With(o)
	o.MaxErrors = maxErrors
	var r Result
	limit := len(rows)
	reads := 0 // number of consecutive reads that found all rows still present
	for len(rows) > 0 {
		b := d.Table.Batch()
		for b.Rows() < min(limit, len(rows)) && b.Add(d.op(rows[b.Rows()])) {
		}
		n := b.Rows()
		err := b.With(o).Do(ctx)
		var refusal *storage.Error
		switch {
		case err == nil:
			r.Written += int64(n)
			rows = rows[n:]
			reads = 0
		case storage.Broken(err) && n > 1: // a single row may be the cause, so try each row alone
			limit = 1
		case storage.Broken(err):
			if f, ok := brokenRow(rows[0].Key, err, d.Table.With(storage.RequestOptions{Once: true}).MayDelete(ctx)); ok {
				r.Failed, rows = append(r.Failed, f), rows[1:]
			} else {
				o.MaxErrors = 0
			}
		case !errors.As(err, &refusal) || refusal.Temporary() || refusal.Index < 0 || refusal.Index >= n || storage.HasCode(err, "TableNotFound"):
			return r, err
		case storage.NotFound(err) && reads < maxReads:
			reads++
			left, err := d.remaining(ctx, rows)
			if err != nil {
				return r, err
			}
			if len(left) < len(rows) {
				reads = 0
			}
			r.Written += int64(len(rows) - len(left))
			rows = left
		case storage.NotFound(err):
			return r, err
		case d.Unchanged && storage.HasCode(err, "UpdateConditionNotSatisfied"):
			rows = exceptRow(rows, refusal.Index)
		default:
			r.Failed = append(r.Failed, Failure{Key: rows[refusal.Index].Key, Reason: reason(refusal)})
			rows = exceptRow(rows, refusal.Index)
		}
	}
	return r, nil
}

func (d Delete) op(row storage.Row) storage.Op {
	o := storage.Op{Kind: storage.Delete, Row: storage.Row{Key: row.Key}}
	if d.Unchanged {
		o.IfMatch = row.ETag()
	}
	return o
}

func (d Delete) remaining(ctx context.Context, rows []storage.Row) ([]storage.Row, error) {
	there, err := Existing(rows, storage.Query{Select: []string{}}, func(q storage.Query) (storage.Page, error) { return d.Table.Query(ctx, q) })
	return slices.DeleteFunc(slices.Clone(rows), func(e storage.Row) bool {
		_, ok := there[e.Key]
		return !ok
	}), err
}
