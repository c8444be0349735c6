package bench

import (
	"maps"
	"slices"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

// halving is the crew that follows the work-stealing lister of Google's Dataflux
// client for Cloud Storage, as its documentation describes it: after a page, if a
// worker idles, the rest of the range is halved at the middle between its first
// and last name, reckoned in the alphabet of all characters seen.
//
// A name is a whole key here, with a character between the partition key and the
// row key that sorts before all others.
type halving struct{ seen map[rune]bool }

// interval is what one of its workers reads.
type interval struct {
	from key.Key
	end  *key.Key // nil for none
	last []rune   // of the last page
}

func (*halving) first() *interval { return &interval{} }

func (*halving) query(v *interval) key.Range {
	if v.from.Row != "" {
		r := key.Range{Partition: &v.from.Partition, Low: &key.Bound{Key: v.from.Row}}
		if v.end != nil && v.end.Partition == v.from.Partition {
			r.High = &key.Bound{Key: v.end.Row, Open: true}
		}
		return r
	}
	r := key.Range{Low: &key.Bound{Key: v.from.Partition}}
	if v.end != nil {
		r.High = &key.Bound{Key: v.end.Partition, Open: v.end.Row == ""}
	}
	return r
}

func (x *halving) page(v *interval, p scan.Page) (yield int, more bool) {
	yield = len(p.Keys)
	if v.end != nil {
		yield = table{keys: p.Keys}.lower(*v.end)
	}
	if yield == 0 {
		return 0, false
	}
	if x.seen == nil {
		x.seen = map[rune]bool{}
	}
	for _, k := range p.Keys[:yield] {
		for _, c := range name(k) {
			x.seen[c] = true
		}
	}
	v.last = name(p.Keys[yield-1])
	return yield, p.Next != nil && yield == len(p.Keys)
}

func (x *halving) rob(intervals []*interval, idle int) []*interval {
	alphabet := slices.Sorted(maps.Keys(x.seen))
	var pieces []*interval
	for _, v := range intervals {
		if idle <= 0 {
			break
		}
		cut := keyOf(x.middle(alphabet, v))
		if here := keyOf(v.last); cut.Compare(here) <= 0 || v.end != nil && cut.Compare(*v.end) >= 0 {
			continue
		}
		piece := &interval{from: cut, end: v.end}
		v.end = &cut
		pieces = append(pieces, piece)
		idle--
		after := key.Key{Partition: behind(cut.Partition, true)}
		if cut.Row != "" && (piece.end == nil || after.Compare(*piece.end) < 0) {
			pieces = append(pieces, &interval{from: after, end: piece.end})
			piece.end = &after
			idle--
		}
	}
	return pieces
}

// middle returns the name half-way from the last one read to the end, as a fraction
// in the number system whose digits are the alphabet. It is cut off as soon as it
// lies behind the last one read.
func (*halving) middle(alphabet []rune, v *interval) []rune {
	base := len(alphabet)
	digit := func(text []rune, i, absent int) int {
		if i >= len(text) {
			return absent
		}
		d, _ := slices.BinarySearch(alphabet, text[i])
		return d
	}
	var end []rune
	above := base - 1
	if v.end != nil {
		end, above = name(*v.end), 0
		if v.end.Row == "" {
			end = end[:len(end)-1]
		}
	}
	var sum []int // digits of both, added
	for i := range max(len(v.last), len(end)) + 2 {
		sum = append(sum, digit(v.last, i, 0)+digit(end, i, above))
	}
	for i := len(sum) - 1; i > 0; i-- {
		sum[i-1] += sum[i] / base
		sum[i] %= base
	}
	cut, rest := make([]rune, 0, len(sum)), 0
	for _, d := range sum {
		d += rest * base
		cut, rest = append(cut, alphabet[min(d/2, base-1)]), d%2
		if slices.Compare(cut, v.last) > 0 {
			break
		}
	}
	return cut
}

// between separates the keys in a name. It sorts before every character.
const between rune = -1

func name(k key.Key) []rune {
	return append(append([]rune(k.Partition), between), []rune(k.Row)...)
}

func keyOf(name []rune) key.Key {
	i := slices.Index(name, between)
	if i < 0 {
		return key.Key{Partition: string(name)}
	}
	row := slices.DeleteFunc(slices.Clone(name[i+1:]), func(c rune) bool { return c == between })
	return key.Key{Partition: string(name[:i]), Row: string(row)}
}
