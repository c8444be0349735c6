package job

import (
	"context"
	"fmt"

	"tablesweep/internal/action"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// Delete prepares a job that deletes the rows of a table.
func Delete(ctx context.Context, o Options) (*Job, error) {
	s, err := o.specOf(o.From)
	if err != nil {
		return nil, err
	}
	table := o.From.Table()
	if table == nil {
		return nil, Refuse("table", ": delete removes rows of a table, not of files")
	}
	s.Select = []string{}
	return prepare(ctx, o, s, work{
		action: action.Delete{Table: table}, phase: "deleting", places: []string{table.Address()},
		intent: intent{"delete", action.Transactions, func(ctx context.Context) (string, bool, error) {
			if err := table.MayDelete(ctx); err != nil {
				return "", false, fmt.Errorf("the permission to delete could not be checked: %w", err)
			}
			return fmt.Sprintf("rows of %s can be deleted", table), false, nil
		}},
	})
}

// Enqueue prepares a job that puts a message into a queue for each row. The queue is created if it is missing.
func Enqueue(ctx context.Context, o Options, w action.Enqueue) (*Job, error) {
	s, err := o.specOf(o.From)
	if err != nil {
		return nil, err
	}
	queue := w.Queue
	// The function `try` makes the messages for the rows of the first page, but does not send them. It fails if the template fails for each of these
	// rows.
	try := func(rows []storage.Row) error {
		rows, err := o.tryMap(ctx, rows)
		if err != nil {
			return err
		}
		if err := w.Try(rows); err != nil {
			return Refuse("message", " fails for each of the first %s: %w", problem.Plural(len(rows), "row"), err)
		}
		return nil
	}
	if o.Resumed || o.List != "" {
		try = nil
	}
	return prepare(ctx, o, s, work{
		action: w, phase: "enqueuing", places: []string{s.Source.Address(), queue.Address()}, prepare: queue.Create,
		intent: intent{"enqueue", func(rows []storage.Row) int { return len(rows) }, func(ctx context.Context) (string, bool, error) {
			_, err := queue.Length(ctx)
			missing := storage.Gone(err)
			if err != nil && !missing {
				return "", false, fmt.Errorf("check the queue: %w", err)
			}
			return leadsTo("queue "+queue.Name(), "messages", missing), missing, nil
		}},
		try: try,
	})
}
