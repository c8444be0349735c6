package adaptive

import "tablesweep/internal/scan"

// Left returns how many pages a step is believed to stand for; ok is false if nothing is known.
func Left(s scan.Step) (pages float64, ok bool) {
	st, ok := believer(s)
	return st.Left, ok
}
