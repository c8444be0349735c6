package place

import (
	"cmp"
	"errors"
	"slices"

	"tablesweep/internal/odata"
	"tablesweep/internal/storage"
)

// window is what a query wants of rows outside of tables.
type window struct {
	storage.Query
	filter *odata.Filter // nil for all rows
}

func newWindow(q storage.Query) (w window, err error) {
	w.Query = q
	w.Top = cmp.Or(q.Top, storage.PageRows)
	w.filter, err = parseFilter(q.Filter)
	return w, err
}

// parseFilter parses a filter of rows that have lost their Timestamps.
func parseFilter(filter string) (*odata.Filter, error) {
	if filter == "" {
		return nil, nil
	}
	f, err := odata.Parse(filter)
	if err == nil && storage.ComparesTime(filter) {
		err = errors.New("an export keeps no Timestamps, by which the filter chooses")
	}
	return f, err
}

// CheckFilter refuses a filter that the rows of an export can't be asked for.
func CheckFilter(filter string) error {
	_, err := parseFilter(filter)
	return err
}

// take adds those of the rows that the query wants to a page. It returns the rows that it has not looked at, since the page
// is full, and whether the query's range ends among the others.
func (w window) take(rows []storage.Row, p *storage.Page) (rest []storage.Row, ended bool) {
	for i, row := range rows {
		side := w.Range.Side(row.Key)
		if side > 0 || len(p.Rows) == w.Top {
			return rows[i:], side > 0
		}
		if side == 0 && (w.filter == nil || w.filter.Match(filtered(row.Entity()))) {
			p.Rows = append(p.Rows, w.selected(row))
		}
	}
	return nil, false
}

// selected leaves the properties that the query selects.
func (w window) selected(row storage.Row) storage.Row {
	if w.Select == nil {
		return row
	}
	if len(w.Select) == 0 {
		return storage.Row{Key: row.Key}
	}
	chosen := row.Entity()
	chosen.Properties = slices.DeleteFunc(chosen.Properties, func(p storage.Property) bool { return !slices.Contains(w.Select, p.Name) })
	return chosen.Row()
}

// filtered is a row as filters see it.
type filtered storage.Entity

// Property implements [odata.Row].
func (f filtered) Property(name string) (v odata.Value, ok bool) {
	switch name {
	case odata.PartitionKey:
		return odata.Value{Text: f.Key.Partition}, true
	case odata.RowKey:
		return odata.Value{Text: f.Key.Row}, true
	}
	for _, p := range f.Properties {
		if p.Name == name {
			return odata.ValueOf(p.Type, p.Text()), true
		}
	}
	return v, false
}
