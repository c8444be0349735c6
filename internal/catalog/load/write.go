package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"tablesweep/internal/catalog"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
)

// Result is what became of a row.
type Result struct {
	Row Row
	catalog.Written
	Refused error // about this row alone; nil if it was written
}

// RowError is an error of the storage when a row was written.
type RowError struct {
	Line int
	Err  error
}

func (e *RowError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *RowError) Unwrap() error { return e.Err }

// Write writes rows by the function write, such as the catalog's Insert, many at once, and those
// of the same record in their order. It calls show with each row's result, in their order. A
// refused row does not stop the others. Any other error is returned, as a [RowError], after the results of
// the other rows were shown.
func Write(ctx context.Context, c *catalog.Catalog, rows []Row, write func(context.Context, record.Record) (catalog.Written, error), show func(Result) error) error {
	var records []record.Record
	for _, row := range rows {
		if row.Err == nil {
			records = append(records, row.Record)
		}
	}
	results := c.WriteAll(ctx, records, write)
	var failed error
	for _, row := range rows {
		result := Result{Row: row, Refused: row.Err}
		if row.Err == nil {
			one := results[0]
			results = results[1:]
			result.Written, result.Refused = one.Written, one.Err
		}
		if result.Refused != nil && row.Err == nil && !refusal(result.Refused) {
			failed = cmp.Or(failed, error(&RowError{row.Line, result.Refused}))
			continue
		}
		if err := show(result); err != nil {
			return err
		}
	}
	return failed
}

// refusal reports whether an error of a write is about its record alone.
func refusal(err error) bool {
	return errors.As(err, new(*problem.Error)) && problem.Status(err) < 500
}
