package scan

import "math"

// Outlook is what the pending steps of a scan stand for, as far as hints tell. The zero
// value is that of none. Its fields add up exactly, in any order: what a step that is
// done has changed can be kept as the difference.
type Outlook struct {
	Millipages int64 // left to all steps, in thousandths of a page
	Unknown    int64 // steps of which no hint tells
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
