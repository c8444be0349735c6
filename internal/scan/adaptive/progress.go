package adaptive

import (
	"encoding/json"
	"math"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

// believer returns the step's state; its Left is how many pages the step is believed to stand for,
// itself and all its descendants, by its hint as long as that holds. ok is false if nothing is known
// yet, as before the first page of a scan, or if another strategy made it.
func believer(s scan.Step) (st strand, ok bool) {
	// Its letters, which no other strategy's state has, are there even if there are none.
	if err := json.Unmarshal(s.State, &st); err != nil || st.First || st.Left <= 0 || st.Letters == nil {
		return strand{}, false
	}
	if st.Hinted && !st.outgrown() {
		st.Left = max(slack, st.Due)
	}
	if g := st.Group; g != nil {
		st.Left += g.Due
	}
	return st, true
}

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

// Outlook is what the pending steps of a scan are believed to stand for. The zero
// value is that of none. Its fields add up exactly, in any order: what a step that is
// done has changed can be kept as the difference.
type Outlook struct {
	Millipages int64 // left to all steps, in thousandths of a page
	Guessed    int64 // steps for which that is a guess, and not from hints
	Unknown    int64 // steps of which nothing is known
}

// Ahead returns the outlook of one step. A step without a hint that holds counts for a page and a half
// more than it is believed to stand for: beliefs are too small far more often than too
// large. Where rows are stepped over, and in a script of thousands of letters, most of which no page has shown yet, they are worth nothing.
func Ahead(s scan.Step) Outlook {
	st, ok := believer(s)
	switch {
	case !ok:
		return Outlook{Unknown: 1}
	case st.Hinted && !st.outgrown():
		return Pages(st.Left)
	case st.Letters.wide(), st.Partitions: // what is stepped over is in no page
		return Outlook{Unknown: 1}
	}
	o := Pages(st.Left + 1.5)
	o.Guessed = 1
	return o
}

// Pages returns the outlook of a step that is known to stand for so many pages.
func Pages(pages float64) Outlook { return Outlook{Millipages: int64(math.Round(1000 * pages))} }

// Plus returns the outlook of the steps of both.
func (o Outlook) Plus(other Outlook) Outlook {
	return Outlook{o.Millipages + other.Millipages, o.Guessed + other.Guessed, o.Unknown + other.Unknown}
}

// Minus returns the outlook without the steps of another.
func (o Outlook) Minus(other Outlook) Outlook {
	return Outlook{o.Millipages - other.Millipages, o.Guessed - other.Guessed, o.Unknown - other.Unknown}
}

// Progress returns the share of a scan that is done, from 0 to 1, given how many
// full pages of rows it has read. It may fall as more comes to light. ok is false if
// it can't be believed: if nothing is known of some step, or too little has been read
// to tell from it what is left.
func (o Outlook) Progress(read float64) (share float64, ok bool) {
	const (
		// From these on, guesses are off by 10 points at most on the mean of real tables' second halves.
		enough, believable = 40, 0.25
		// Steps that believe to be at their end, each after few pages, have not met yet what is large.
		much, many = 1.7, 5
	)
	left := float64(o.Millipages) / 1000
	if o.Unknown > 0 || read+left <= 0 {
		return 0, false
	}
	share = read / (read + left)
	guessed := float64(o.Guessed)
	return share, guessed == 0 || read >= enough && share >= believable && (left >= much*guessed || read >= many*guessed)
}
