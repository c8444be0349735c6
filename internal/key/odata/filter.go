package odata

import "tablesweep/internal/key"

// The names of the properties that every row has.
const (
	PartitionKey = "PartitionKey"
	RowKey       = "RowKey"
	Timestamp    = "Timestamp"
)

// Row is a row that a filter can match.
type Row interface {
	// Property returns the named property, if the row has it.
	Property(name string) (v Value, ok bool)
}

// Filter is a parsed $filter expression. It is immutable.
type Filter struct {
	root        node
	comparisons int
}

// Comparisons returns the number of comparisons in the filter. The service limits this number.
func (f *Filter) Comparisons() int { return f.comparisons }

// Match reports whether the row satisfies the filter. If a property is missing or has another type, every comparison with it is
// false. For example, if the row has no property "x", both "x eq 1" and "x ne 1" are false, but "not (x eq 1)" is true.
func (f *Filter) Match(row Row) bool { return f.root.match(row) }

// Range returns a range of keys that contains all matching rows. It uses only the comparisons of PartitionKey and RowKey that
// every matching row must satisfy. Therefore, as in the service, comparisons within an "or" do not limit the range.
// Comparisons of RowKey limit the range only if the range lies in one partition.
func (f *Filter) Range() key.Range {
	var partition, row key.Range
	narrow(f.root, &partition, &row)
	if low, high := partition.Low, partition.High; low != nil && high != nil && *low == *high && !low.Open {
		return key.Range{Partition: &low.Key, Low: row.Low, High: row.High}
	}
	return partition
}

// narrow limits the ranges of partition keys and row keys to the keys that can match.
func narrow(n node, partition, row *key.Range) {
	switch n := n.(type) {
	case and:
		narrow(n.left, partition, row)
		narrow(n.right, partition, row)
	case constant:
		if !n {
			*partition = partition.Narrow(nil, &key.Bound{Open: true}) // no key is less than ""
		}
	case comparison:
		switch {
		case n.literal.Type != String:
		case n.property == PartitionKey:
			*partition = partition.Narrow(n.op.bounds(n.literal.Text))
		case n.property == RowKey:
			*row = row.Narrow(n.op.bounds(n.literal.Text))
		}
	}
}

type node interface{ match(Row) bool }

type (
	and        struct{ left, right node }
	or         struct{ left, right node }
	not        struct{ of node }
	constant   bool
	comparison struct {
		property string
		op       operator
		literal  Value
	}
)

func (n and) match(r Row) bool { return n.left.match(r) && n.right.match(r) }
func (n or) match(r Row) bool  { return n.left.match(r) || n.right.match(r) }
func (n not) match(r Row) bool { return !n.of.match(r) }

func (n constant) match(Row) bool { return bool(n) }

func (n comparison) match(r Row) bool {
	v, ok := r.Property(n.property)
	if !ok || v.Type != n.literal.Type && !(v.isNumber() && n.literal.isNumber()) {
		return false
	}
	c, ordered := compare(v, n.literal)
	if !ordered { // NaN is not equal to any value
		return n.op == ne
	}
	return n.op.holds(c)
}

type operator uint8

const (
	eq operator = iota
	ne
	gt
	ge
	lt
	le
)

func parseOperator(s string) (operator, bool) {
	for i, name := range [...]string{"eq", "ne", "gt", "ge", "lt", "le"} {
		if s == name {
			return operator(i), true
		}
	}
	return 0, false
}

// holds reports whether "a operator b" is true. The argument `c` is the result of compare(a, b).
func (o operator) holds(c int) bool {
	switch o {
	case eq:
		return c == 0
	case ne:
		return c != 0
	case gt:
		return c > 0
	case ge:
		return c >= 0
	case lt:
		return c < 0
	}
	return c <= 0
}

// flip returns the operator that gives the same result if the operands are swapped.
func (o operator) flip() operator {
	switch o {
	case gt:
		return lt
	case ge:
		return le
	case lt:
		return gt
	case le:
		return ge
	}
	return o
}

// bounds returns the bounds of the keys for which "KEY operator s" is true.
func (o operator) bounds(s string) (low, high *key.Bound) {
	closed, open := &key.Bound{Key: s}, &key.Bound{Key: s, Open: true}
	switch o {
	case eq:
		return closed, closed
	case gt:
		return open, nil
	case ge:
		return closed, nil
	case lt:
		return nil, open
	case le:
		return nil, closed
	}
	return nil, nil
}
