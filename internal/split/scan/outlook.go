package scan

import "math"

// Outlook estimates from hints how many pages the pending steps of a scan have left. The zero value means that no steps are pending. The fields are
// integers, because sums of integers are exact in any order.
type Outlook struct {
	Millipages int64 // the pages left in all steps, in thousandths of a page
	Unknown    int64 // the number of steps without a valid hint
}

// Pages returns the outlook of a step that has the given number of pages left.
func Pages(pages float64) Outlook { return Outlook{Millipages: int64(math.Round(1000 * pages))} }

// Plus returns the sum of both outlooks.
func (o Outlook) Plus(other Outlook) Outlook {
	return Outlook{o.Millipages + other.Millipages, o.Unknown + other.Unknown}
}

// Minus returns the outlook without the steps of the other outlook.
func (o Outlook) Minus(other Outlook) Outlook {
	return Outlook{o.Millipages - other.Millipages, o.Unknown - other.Unknown}
}

// Progress returns the fraction of a scan that is done, from 0 to 1. The argument `read` is the number of full pages that the rows read so far would
// fill. The result ok is false if hints do not cover all steps. The fraction may fall, because a table may have grown since the hints were made.
func (o Outlook) Progress(read float64) (share float64, ok bool) {
	const grown = 1.1 // a table has usually grown since the scan that made the hints
	left := grown * float64(o.Millipages) / 1000
	if o.Unknown != 0 || read+left <= 0 {
		return 0, false
	}
	return read / (read + left), true
}
