package key

import "strings"

// Bound is one end of a [Range].
type Bound struct {
	Key  string `json:"k"`
	Open bool   `json:"o,omitempty"` // the range does not contain the key itself
}

// Range is the set of rows between two bounds. If Partition is set, the bounds are row keys within this partition. Otherwise,
// the bounds are partition keys. In both cases, the service finds the rows with its index. A nil bound means no bound.
type Range struct {
	Partition *string `json:"p,omitempty"`
	Low       *Bound  `json:"l,omitempty"`
	High      *Bound  `json:"h,omitempty"`
}

// Contains reports whether the row lies in the range.
func (r Range) Contains(k Key) bool { return r.Side(k) == 0 }

// Side returns -1 for a row before the range, 0 for a row in the range, and 1 for a row after the range.
func (r Range) Side(k Key) int {
	v := k.Partition
	if r.Partition != nil {
		if c := Compare(k.Partition, *r.Partition); c != 0 {
			return c
		}
		v = k.Row
	}
	if r.Low != nil {
		if c := Compare(v, r.Low.Key); c < 0 || c == 0 && r.Low.Open {
			return -1
		}
	}
	if r.High != nil {
		if c := Compare(v, r.High.Key); c > 0 || c == 0 && r.High.Open {
			return 1
		}
	}
	return 0
}

// Start returns the first key that may lie in the range.
func (r Range) Start() Key {
	var start Key
	if r.Partition != nil {
		start.Partition = *r.Partition
	}
	switch {
	case r.Low == nil:
	case r.Partition == nil && r.Low.Open:
		start = BehindPartition(r.Low.Key)
	case r.Partition == nil:
		start.Partition = r.Low.Key
	case r.Low.Open:
		start = Key{Partition: *r.Partition, Row: r.Low.Key}.Behind()
	default:
		start.Row = r.Low.Key
	}
	return start
}

// End returns the first key after all rows of the range, or nil if the range has no upper bound.
func (r Range) End() *Key {
	var end Key
	switch {
	case r.Partition != nil && r.High == nil:
		end = BehindPartition(*r.Partition)
	case r.Partition != nil && r.High.Open:
		end = Key{Partition: *r.Partition, Row: r.High.Key}
	case r.Partition != nil:
		end = Key{Partition: *r.Partition, Row: r.High.Key}.Behind()
	case r.High == nil:
		return nil
	case r.High.Open:
		end = Key{Partition: r.High.Key}
	default:
		end = BehindPartition(r.High.Key)
	}
	return &end
}

// Empty reports whether no key lies between the bounds. Empty may return false for a range that
// contains only keys which the service refuses. Such a range costs one query, which returns no rows.
func (r Range) Empty() bool {
	if r.Low == nil || r.High == nil {
		return false
	}
	c := Compare(r.Low.Key, r.High.Key)
	return c > 0 || c == 0 && (r.Low.Open || r.High.Open)
}

// Narrow returns the part of r that lies between the bounds low and high. The range r must be a range of partition keys.
func (r Range) Narrow(low, high *Bound) Range {
	if r.Low == nil || low != nil && tighter(*low, *r.Low, 1) {
		r.Low = low
	}
	if r.High == nil || high != nil && tighter(*high, *r.High, -1) {
		r.High = high
	}
	return r
}

// tighter reports whether the bound a excludes more keys than the bound b. The argument `side` is 1 for lower bounds and -1 for
// upper bounds.
func tighter(a, b Bound, side int) bool {
	c := Compare(a.Key, b.Key) * side
	return c > 0 || c == 0 && a.Open
}

// Token is the service's continuation token. It is opaque, and valid only for the query that returned it. Therefore, if one
// step continues the query of another step, both steps have the same range.
type Token struct {
	Partition string `json:"p"`
	Row       string `json:"r,omitempty"` // the service may leave out the row key
	// After is the last key of the earlier pages. If the earlier pages had no row, or if the key was not recorded, After is nil.
	After *Key `json:"a,omitempty"`
}

// Bounds limit a scan to a range of partition keys. "" means no limit.
type Bounds struct {
	Prefix string `json:"prefix,omitempty"` // the keys start with this text
	After  string `json:"after,omitempty"`  // the keys are greater than this key
	Before string `json:"before,omitempty"` // the keys are less than this key
}

// Range returns the range of partition keys within the bounds.
func (b Bounds) Range() Range {
	var r Range
	if b.Prefix != "" {
		r = Range{Low: &Bound{Key: b.Prefix}, High: PrefixEnd(b.Prefix)}
	}
	var low, high *Bound
	if b.After != "" {
		low = &Bound{Key: b.After, Open: true}
	}
	if b.Before != "" {
		high = &Bound{Key: b.Before, Open: true}
	}
	return r.Narrow(low, high)
}

// Intersect returns the bounds of the keys that lie in both b and other.
func (b Bounds) Intersect(other Bounds) Bounds {
	both := Bounds{Prefix: b.Prefix, After: b.After, Before: b.Before}
	if Less(both.After, other.After) {
		both.After = other.After
	}
	if both.Before == "" || other.Before != "" && Less(other.Before, both.Before) {
		both.Before = other.Before
	}
	switch {
	case strings.HasPrefix(b.Prefix, other.Prefix):
	case strings.HasPrefix(other.Prefix, b.Prefix):
		both.Prefix = other.Prefix
	default: // no key is within both bounds
		both.Before = b.Prefix
	}
	return both
}

// PrefixEnd returns the upper bound of the keys that start with prefix. If all keys after prefix start with prefix, it returns
// nil.
func PrefixEnd(prefix string) *Bound {
	if next, ok := Successor(prefix); ok {
		return &Bound{Key: next, Open: true}
	}
	return nil
}

// WithPrefix returns the range of a partition's rows whose keys start with prefix.
func WithPrefix(partition, prefix string) Range {
	return Range{Partition: &partition, Low: &Bound{Key: prefix}, High: PrefixEnd(prefix)}
}
