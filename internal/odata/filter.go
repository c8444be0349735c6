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
	// Property returns the named property; ok is false if the row has none.
	Property(name string) (v Value, ok bool)
}

// Filter is a parsed $filter expression. It is immutable.
type Filter struct {
	root        node
	comparisons int
}

// Comparisons returns the number of comparisons in the filter. The service has a limit.
func (f *Filter) Comparisons() int { return f.comparisons }

// Match reports whether the row satisfies the filter. If the row lacks a property, or has it
// with another type, every comparison with it is false: "a eq 1" and "a ne 1" both are, but
// "not (a eq 1)" is true.
func (f *Filter) Match(row Row) bool { return f.root.match(row) }

// Span returns a span of keys that has all matching rows. It uses the comparisons of
// PartitionKey and RowKey that every match must satisfy. So an "or" bounds nothing, as on the
// service.
func (f *Filter) Span() Span {
	var b bounds
	b.narrow(f.root)
	return b.span()
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
	if !ordered { // NaN is unequal to everything
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

// holds reports whether "a op b" is true if c is the result of comparing a with b.
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

// flip returns the operator for exchanged operands.
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

// Span is a contiguous range of keys.
type Span struct {
	Low     key.Key // inclusive
	High    key.Key // exclusive, if Bounded
	Bounded bool
}

// Partition returns the partition of the span, if it has only one.
func (r Span) Partition() (string, bool) {
	if !r.Bounded {
		return "", false
	}
	p := r.Low.Partition
	return p, r.High.Partition == p || r.High == key.Key{Partition: after(p)}
}

// after returns the smallest string greater than s.
func after(s string) string { return s + "\x00" }

// interval is a range of one key: low inclusive, high exclusive.
type interval struct {
	low, high string
	bounded   bool
}

func (i *interval) raise(low string) {
	if key.Less(i.low, low) {
		i.low = low
	}
}

func (i *interval) lower(high string) {
	if !i.bounded || key.Less(high, i.high) {
		i.high, i.bounded = high, true
	}
}

func (i *interval) narrow(op operator, s string) {
	switch op {
	case eq:
		i.raise(s)
		i.lower(after(s))
	case gt:
		i.raise(after(s))
	case ge:
		i.raise(s)
	case lt:
		i.lower(s)
	case le:
		i.lower(after(s))
	}
}

type bounds struct{ partition, row interval }

func (b *bounds) narrow(n node) {
	switch n := n.(type) {
	case and:
		b.narrow(n.left)
		b.narrow(n.right)
	case constant:
		if !n {
			b.partition.lower("") // no key is below
		}
	case comparison:
		if n.literal.Type != String {
			return
		}
		switch n.property {
		case PartitionKey:
			b.partition.narrow(n.op, n.literal.Text)
		case RowKey:
			b.row.narrow(n.op, n.literal.Text)
		}
	}
}

// span combines both intervals. The row keys bound the span only within one partition.
func (b *bounds) span() Span {
	p := b.partition
	r := Span{
		Low:     key.Key{Partition: p.low},
		High:    key.Key{Partition: p.high},
		Bounded: p.bounded,
	}
	if p.bounded && p.high == after(p.low) {
		r.Low.Row = b.row.low
		if b.row.bounded {
			r.High = key.Key{Partition: p.low, Row: b.row.high}
		}
	}
	return r
}
