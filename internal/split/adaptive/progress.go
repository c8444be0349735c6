package adaptive

import (
	"cmp"
	"encoding/json"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
)

// slack returns the number of pages that a piece may have in addition to the pages in its hint. [Ahead] never reports fewer unread pages than this
// number.
func (st strand) slack() float64 { return 0.75 * cmp.Or(st.Share, 1) }

// hasOutgrownHint reports whether the piece has more pages than its hint and st.slack() together allow. If so, the number of the piece's unread pages
// is unknown.
func (st strand) hasOutgrownHint() bool { return st.Due < -st.slack() }

// End returns the key at which a pending step of this strategy stops. If the step reads its range to the end, this key is nil. The result
// named `launches` reports whether the step also starts steps for pieces after its range.
func End(s scan.Step) (stop *key.Key, launches bool) {
	var st strand
	if json.Unmarshal(s.State, &st) != nil {
		return nil, false
	}
	return st.Stop, st.Group != nil
}

// Ahead returns the outlook of one step: the number of unread pages in the step's piece according to the hint, but at least the result of slack. If the
// step must also start the steps of a [group] of pieces, the outlook includes the pages of these pieces. Without a valid hint, the outlook is unknown,
// because pages reveal little about the rows to come.
func Ahead(s scan.Step) scan.Outlook {
	var st strand
	if json.Unmarshal(s.State, &st) != nil || !st.Hinted || st.hasOutgrownHint() {
		return scan.Outlook{Unknown: 1}
	}
	pages := max(st.slack(), st.Due)
	if g := st.Group; g != nil {
		pages += g.Due
	}
	return scan.Pages(pages)
}
