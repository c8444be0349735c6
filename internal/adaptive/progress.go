package adaptive

import (
	"encoding/json"

	"tablesweep/internal/scan"
)

// Left returns how many pages a pending step of this strategy is believed to
// stand for, itself and all its descendants. ok is false if nothing is known
// yet, as before the first page of a scan, or if another strategy made it.
func Left(s scan.Step) (pages float64, ok bool) {
	var st strand // its letters, which no other strategy's state has, are there even if there are none
	if err := json.Unmarshal(s.State, &st); err != nil || st.First || st.Left <= 0 || st.Letters == nil {
		return 0, false
	}
	if g := st.Group; g != nil {
		st.Left += float64(hintPages * (g.End - g.First))
	}
	return st.Left, true
}

// Progress returns the share of a scan that is done, from 0 to 1, given how many
// full pages of rows it has read and the sum of what is [Left] to its pending
// steps. It may fall as more comes to light.
func Progress(read, left float64) float64 {
	if read+left <= 0 {
		return 0
	}
	return read / (read + left)
}
