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
func (w window) take(rows []storage.Entity, p *storage.Page) (rest []storage.Entity, ended bool) {
	for i, row := range rows {
		side := w.Range.Side(row.Key)
		if side > 0 || len(p.Entities) == w.Top {
			return rows[i:], side > 0
		}
		if side == 0 && (w.filter == nil || w.filter.Match(filtered(row))) {
			p.Entities = append(p.Entities, w.selected(row))
		}
	}
	return nil, false
}

// selected leaves the properties that the query selects.
func (w window) selected(row storage.Entity) storage.Entity {
	if w.Select == nil {
		return row
	}
	chosen := storage.Entity{Key: row.Key, Timestamp: row.Timestamp}
	for _, p := range row.Properties {
		if slices.Contains(w.Select, p.Name) {
			chosen.Properties = append(chosen.Properties, p)
		}
	}
	return chosen
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
