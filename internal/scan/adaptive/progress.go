package adaptive

import (
	"encoding/json"
	"math"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

// slack is how many pages a strand may have more than its hint told of: this much is left once that is read.
const slack = 0.75

// outgrown reports whether the strand has more. Then what is left is a guess.
func (st strand) outgrown() bool { return st.Due < -slack }

// End returns the key where a pending step of this strategy stops before its range's end, nil if it
// reads to the end. launches tells that it also starts the steps of pieces behind its range.
func End(s scan.Step) (stop *key.Key, launches bool) {
	var st strand
	if json.Unmarshal(s.State, &st) != nil {
		return nil, false
	}
	return st.Stop, st.Group != nil
}

// Outlook is what the pending steps of a scan stand for, as far as hints tell. The zero
// value is that of none. Its fields add up exactly, in any order: what a step that is
// done has changed can be kept as the difference.
type Outlook struct {
	Millipages int64 // left to all steps, in thousandths of a page
	Unknown    int64 // steps of which no hint tells
}

// Ahead returns the outlook of one step: what its hint told of, less what was read. Without a hint that holds, nothing is
// known: pages tell little of the rows to come.
func Ahead(s scan.Step) Outlook {
	var st strand
	if json.Unmarshal(s.State, &st) != nil || !st.Hinted || st.outgrown() {
		return Outlook{Unknown: 1}
	}
	pages := max(slack, st.Due)
	if g := st.Group; g != nil {
		pages += g.Due
	}
	return Pages(pages)
}

// Pages returns the outlook of a step that is known to stand for so many pages.
func Pages(pages float64) Outlook { return Outlook{Millipages: int64(math.Round(1000 * pages))} }

// Plus returns the outlook of the steps of both.
func (o Outlook) Plus(other Outlook) Outlook {
	return Outlook{o.Millipages + other.Millipages, o.Unknown + other.Unknown}
}

// Minus returns the outlook without the steps of another.
func (o Outlook) Minus(other Outlook) Outlook {
	return Outlook{o.Millipages - other.Millipages, o.Unknown - other.Unknown}
}

// Progress returns the share of a scan that is done, from 0 to 1, given how many full pages of rows it has read. ok is false
// if hints don't tell of all that is left. It may fall, since tables grow.
func (o Outlook) Progress(read float64) (share float64, ok bool) {
	const grown = 1.1 // a table that is scanned again has more rows than hints tell of, rather than fewer
	left := grown * float64(o.Millipages) / 1000
	if o.Unknown != 0 || read+left <= 0 {
		return 0, false
	}
	return read / (read + left), true
}
