package place

import (
	"errors"
	"slices"
	"strconv"

	"tablesweep/internal/key"
	"tablesweep/internal/odata"
	"tablesweep/internal/storage"
)

// window is what a query wants of an export's rows.
type window struct {
	query  storage.Query
	low    key.Key // the least key that may lie in the range
	top    int
	filter *odata.Filter
	raw    bool // rows are parsed without their properties
}

func newWindow(q storage.Query) (*window, error) {
	w := &window{query: q, low: low(q.Range), top: q.Top, raw: q.Filter == "" && (q.Raw && q.Select == nil || q.Select != nil && len(q.Select) == 0)}
	if w.top == 0 {
		w.top = storage.PageRows
	}
	if q.Filter == "" {
		return w, nil
	}
	var err error
	w.filter, err = parseFilter(q.Filter)
	return w, err
}

// parseFilter parses a filter of rows that have lost their Timestamps.
func parseFilter(filter string) (*odata.Filter, error) {
	f, err := odata.Parse(filter)
	if err == nil && storage.ComparesTime(filter) {
		err = errors.New("an export keeps no Timestamps, by which the filter chooses")
	}
	return f, err
}

// CheckFilter refuses a filter that the rows of an export can't be asked for.
func CheckFilter(filter string) error {
	if filter == "" {
		return nil
	}
	_, err := parseFilter(filter)
	return err
}

func low(r key.Range) key.Key {
	var k key.Key
	switch {
	case r.Partition != nil:
		k.Partition = *r.Partition
		if r.Low != nil {
			k.Row = r.Low.Key
		}
	case r.Low == nil:
	case r.Low.Open:
		return key.BehindPartition(r.Low.Key)
	default:
		k.Partition = r.Low.Key
	}
	return k
}

// beyond reports whether a key lies behind all of the range.
func (w *window) beyond(k key.Key) bool {
	r, is := w.query.Range, k.Partition
	if r.Partition != nil {
		if is != *r.Partition {
			return key.Less(*r.Partition, is)
		}
		is = k.Row
	}
	return r.High != nil && (key.Less(r.High.Key, is) || r.High.Open && r.High.Key == is)
}

func (w *window) match(row storage.Entity) bool {
	return w.filter == nil || w.filter.Match(filtered(row))
}

// choose leaves the properties that the query selects.
func (w *window) choose(row storage.Entity) storage.Entity {
	if w.query.Select == nil {
		return row
	}
	if len(w.query.Select) == 0 {
		return storage.Entity{Key: row.Key}
	}
	chosen := storage.Entity{Key: row.Key, Timestamp: row.Timestamp}
	for _, p := range row.Properties {
		if slices.Contains(w.query.Select, p.Name) {
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
			return valueOf(p), true
		}
	}
	return v, false
}

func valueOf(p storage.Property) odata.Value {
	v := odata.Value{Text: p.Text()}
	v.Type, _ = odata.ParseType(p.Type.String())
	switch v.Type {
	case odata.Boolean:
		v, _ = odata.ParseBoolean(v.Text)
	case odata.Int32, odata.Int64:
		v.Int, _ = strconv.ParseInt(v.Text, 10, 64)
	case odata.Double:
		v.Float, _ = strconv.ParseFloat(v.Text, 64)
	case odata.DateTime:
		v.Int, _ = odata.ParseDateTime(v.Text)
	case odata.Guid:
		v.Text, _ = odata.ParseGuid(v.Text)
	case odata.Binary:
		v.Text, _ = odata.ParseBinary(v.Text)
	}
	return v
}
