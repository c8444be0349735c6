package storage

import (
	"context"
	"errors"

	"tablesweep/internal/task"
)

// TableState says what an account has of a table.
type TableState struct {
	Table  string `json:"table"`
	Exists bool   `json:"exists"`
	Rows   bool   `json:"hasRows"`
}

// TableStates returns what the account has of tables, in their order, by one query each, so many at once. A name that no table can have leads
// nowhere: it counts as one that does not exist.
func (a *Account) TableStates(ctx context.Context, tables []string, atOnce int) ([]TableState, error) {
	there := make([]TableState, len(tables))
	g, all := task.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, name := range tables {
		there[i].Table = name
		if CheckTableName(name) != nil {
			continue
		}
		g.Go(func() (err error) {
			there[i].Exists, there[i].Rows, err = a.Table(name).hasRows(all)
			return err
		})
	}
	return there, g.Wait()
}

// WithRows returns the names of the tables that have rows.
func WithRows(all []TableState) (names []string) {
	for _, t := range all {
		if t.Rows {
			names = append(names, t.Table)
		}
	}
	return names
}

// hasRows reports whether the table exists, and whether it has a row. Empty pages may come before one.
func (t *Table) hasRows(ctx context.Context) (exists, rows bool, err error) {
	found := errors.New("there is a row")
	err = t.All(ctx, Query{Select: []string{}, Top: 1}, func(p Page) error {
		if len(p.Rows) > 0 {
			return found
		}
		return nil
	})
	switch {
	case err == found:
		return true, true, nil
	case Gone(err):
		return false, false, nil
	}
	return err == nil, false, err
}
