package adaptive

import (
	"cmp"
	"encoding/json"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
)

// slack is how many pages a strand may have more than its hint told of: this much is left once that is read.
func (st strand) slack() float64 { return 0.75 * cmp.Or(st.Share, 1) }

// outgrown reports whether the strand has more. Then what is left is a guess.
func (st strand) outgrown() bool { return st.Due < -st.slack() }

// End returns the key where a pending step of this strategy stops before its range's end, nil if it
// reads to the end. launches tells that it also starts the steps of pieces behind its range.
func End(s scan.Step) (stop *key.Key, launches bool) {
	var st strand
	if json.Unmarshal(s.State, &st) != nil {
		return nil, false
	}
	return st.Stop, st.Group != nil
}

// Ahead returns the outlook of one step: what its hint told of, less what was read. Without a hint that holds, nothing is
// known: pages tell little of the rows to come.
func Ahead(s scan.Step) scan.Outlook {
	var st strand
	if json.Unmarshal(s.State, &st) != nil || !st.Hinted || st.outgrown() {
		return scan.Outlook{Unknown: 1}
	}
	pages := max(st.slack(), st.Due)
	if g := st.Group; g != nil {
		pages += g.Due
	}
	return scan.Pages(pages)
}
