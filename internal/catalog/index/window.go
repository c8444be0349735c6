package index

import (
	"errors"
	"strings"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
)

// Window is a range of sort values within a partition. The zero value contains all sort values.
//
// Rows are in the order of their RowKeys, which sometimes differs from the order of the sort values: "ann-marie:…" comes
// before "ann:…". Therefore other rows may lie between the rows of a window. To read a window, read pages of the range that
// [Window.Behind] returns, and drop the rows that the window does not contain. For the next page, call Behind with the last
// row's RowKey.
type Window struct {
	from, to string // normalised; "" means no bound
	// oneLength is true if all sort values have the same length, so none is a prefix of another.
	oneLength bool
}

// RowRange is a range of RowKeys. A nil bound means no bound.
type RowRange struct{ Low, High *key.Bound }

// In returns the range within a partition.
func (r RowRange) In(partition PartitionKey) key.Range {
	p := string(partition)
	return key.Range{Partition: &p, Low: r.Low, High: r.High}
}

// Window returns the window of the sort values from rowFrom to rowTo, both included. "" means no bound. The window includes all
// values that start with rowTo: "2026-02" means all of February. With the order Newest, rowFrom and rowTo are times in UTC or
// prefixes of times, such as "2026" and "2026-02-15T10". Newer rows come first, but rowFrom is the older time. If the sort
// values are numbers, rowFrom is the least number and rowTo is the greatest number, even if the order is Descending. Errors
// are [problem.Invalid].
func (s Schema) Window(rowFrom, rowTo string) (Window, error) {
	switch s.Sort.Order {
	case Newest:
		return newestWindow(rowFrom, rowTo)
	case Ascending, Descending:
		return s.Sort.numberWindow(rowFrom, rowTo)
	}
	from, err := textBound("row_from", rowFrom)
	if err != nil {
		return Window{}, err
	}
	to, err := textBound("row_to", rowTo)
	return Window{from: from, to: to}, err
}

func newestWindow(rowFrom, rowTo string) (Window, error) {
	w := Window{oneLength: true}
	if rowFrom != "" {
		first, _, err := ticksOf(rowFrom)
		if err != nil {
			return Window{}, problem.Invalidf("row_from", "%v", err)
		}
		w.to = key.Inverted(first)
	}
	if rowTo != "" {
		_, last, err := ticksOf(rowTo)
		if err != nil {
			return Window{}, problem.Invalidf("row_to", "%v", err)
		}
		w.from = key.Inverted(last)
	}
	return w, nil
}

func (s Sort) numberWindow(rowFrom, rowTo string) (Window, error) {
	w := Window{oneLength: true}
	low, high := &w.from, &w.to
	if s.Order == Descending {
		low, high = high, low
	}
	var errs []error
	for _, b := range []struct {
		field, text string
		bound       *string
	}{{"row_from", rowFrom, low}, {"row_to", rowTo, high}} {
		if b.text == "" {
			continue
		}
		value, err := s.value(b.text)
		if err != nil {
			errs = append(errs, problem.Invalidf(b.field, "%v", err))
		}
		*b.bound = value
	}
	return w, errors.Join(errs...)
}

func textBound(field, text string) (string, error) {
	if err := checkText(field, text); err != nil {
		return "", err
	}
	bound := strings.ToLower(text)
	return bound, checkLength(field, "RowKey", rowStem(bound))
}

// Contains reports whether the window contains the normalised sort value. It compares values as the service compares keys, with
// one exception: U+0000 to U+001F sort directly after the space.
func (w Window) Contains(sort string) bool {
	return !before(sort, w.from) && (before(sort, w.to) || strings.HasPrefix(sort, w.to))
}

func before(a, b string) bool { return key.Less(ordered(a), ordered(b)) }

// Behind returns the smallest range that contains all rows of the window with RowKeys greater than rowKey. If rowKey is "", the
// range contains all rows of the window. If no row can be in this range, ok is false.
func (w Window) Behind(rowKey string) (rows RowRange, ok bool) {
	var all interval
	for _, iv := range w.intervals() {
		if iv.high != "" && !key.Less(iv.low, iv.high) || rowKey != "" && iv.high != "" && !key.Less(rowKey, iv.high) {
			continue
		}
		if !ok || key.Less(iv.low, all.low) {
			all.low = iv.low
		}
		if !ok || iv.high == "" || all.high != "" && key.Less(all.high, iv.high) {
			all.high = iv.high
		}
		ok = true
	}
	if !ok {
		return RowRange{}, false
	}
	switch {
	case rowKey != "" && !key.Less(rowKey, all.low):
		rows.Low = &key.Bound{Key: rowKey, Open: true}
	case all.low != "":
		rows.Low = &key.Bound{Key: all.low}
	}
	if all.high != "" {
		rows.High = &key.Bound{Key: all.high, Open: true}
	}
	return rows, true
}

// interval contains the keys from low to high, without high. A high of "" means no bound.
type interval struct{ low, high string }

// intervals returns the intervals that may contain rows of the window.
func (w Window) intervals() []interval {
	if w.from == "" && w.to == "" {
		return []interval{{}}
	}
	// The first interval is for unescaped RowKeys, and the second is for escaped RowKeys. For most windows, both intervals are equal.
	all := []interval{{low: ceil(w.from)}, {low: ordered(w.from)}}
	if w.to != "" {
		all[0].high = ceil(w.to)
		if all[0].high == w.to {
			all[0].high = behind(w.to)
		}
		all[1].high = behind(ordered(w.to))
	}
	if w.oneLength {
		return all
	}
	for i := range w.to {
		// If a sort value is a prefix of w.to, and does not come before w.from, it belongs to the window. But its RowKeys have
		// ":" or "!" after the sort value, so they may sort after w.to. Therefore they get an interval of their own.
		if start := w.to[:i]; i > 0 && !before(start, w.from) {
			stem := rowStem(start)
			all = append(all, interval{stem, behind(stem)})
		}
	}
	return all
}

// behind returns the smallest key after all keys that start with prefix, or "" if there is no such key.
func behind(prefix string) string {
	next, _ := key.Successor(prefix)
	return ceil(next)
}
