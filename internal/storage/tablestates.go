package storage

import (
	"context"
	"errors"

	"tablesweep/internal/task"
)

// TableState records whether a table exists and whether it has rows.
type TableState struct {
	Table  string `json:"table"`
	Exists bool   `json:"exists"`
	Rows   bool   `json:"hasRows"`
}

// TableStates returns the state of each table, in the given order. It queries at most the given number of tables
// concurrently. A table with an illegal name counts as missing.
func (a *Account) TableStates(ctx context.Context, tables []string, concurrent int) ([]TableState, error) {
	there := make([]TableState, len(tables))
	g, all := task.WithContext(ctx)
	g.SetLimit(concurrent)
	for i, name := range tables {
		there[i].Table = name
		if CheckTableName(name) != nil {
			continue
		}
		g.Go(func() (err error) {
			there[i], err = a.Table(name).readState(all)
			return err
		})
	}
	return there, g.Wait()
}

// WithRows returns the names of those tables that have rows.
func WithRows(all []TableState) (names []string) {
	for _, t := range all {
		if t.Rows {
			names = append(names, t.Table)
		}
	}
	return names
}

// Empty pages may come before the first row, so readState reads pages until a page has a row.
func (t *Table) readState(ctx context.Context) (TableState, error) {
	state, found := TableState{Table: t.Name()}, errors.New("there is a row")
	err := t.All(ctx, Query{Select: []string{}, Top: 1}, func(p Page) error {
		if len(p.Rows) > 0 {
			return found
		}
		return nil
	})
	if Gone(err) {
		return state, nil
	}
	if err == found {
		state.Rows, err = true, nil
	}
	state.Exists = err == nil
	return state, err
}
