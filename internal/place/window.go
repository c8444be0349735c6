package place

import (
	"cmp"
	"errors"
	"slices"

	"tablesweep/internal/key/odata"
	"tablesweep/internal/storage"
)

// window is a query for rows that are in files, not in a table.
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

func parseFilter(filter string) (*odata.Filter, error) {
	if filter == "" {
		return nil, nil
	}
	f, err := odata.Parse(filter)
	if err == nil && storage.ComparesTime(filter) {
		err = errors.New("the filter compares Timestamp, which is not possible for the rows of an export; filter by another property")
	}
	return f, err
}

// CheckFilter returns an error if a filter cannot be applied to the rows of an export.
func CheckFilter(filter string) error {
	_, err := parseFilter(filter)
	return err
}

// take examines rows. If a row matches the query, take adds the row to the page p. If the page becomes full, or the
// query's range ends, the result `rest` contains the remaining rows. The result `ended` reports whether the range has ended.
func (w window) take(rows []storage.Row, p *storage.Page) (rest []storage.Row, ended bool) {
	for i, row := range rows {
		side := w.Range.Side(row.Key)
		if side > 0 || len(p.Rows) == w.Top {
			return rows[i:], side > 0
		}
		if side == 0 {
			if chosen, ok := w.choose(row); ok {
				p.Rows = append(p.Rows, chosen)
			}
		}
	}
	return nil, false
}

// choose returns a row with only the properties that the query selects. ok reports whether the row matches.
func (w window) choose(row storage.Row) (chosen storage.Row, ok bool) {
	keysOnly := w.Select != nil && len(w.Select) == 0
	var e storage.Entity
	if w.filter != nil || w.Select != nil && !keysOnly {
		e = row.Entity()
	}
	switch {
	case w.filter != nil && !w.filter.Match(filtered(e)):
		return row, false
	case w.Select == nil:
		return row, true
	case keysOnly:
		return storage.Row{Key: row.Key}, true
	}
	e.Properties = slices.DeleteFunc(e.Properties, func(p storage.Property) bool { return !slices.Contains(w.Select, p.Name) })
	return e.Row(), true
}

// filtered is a row in the form that filters need.
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
