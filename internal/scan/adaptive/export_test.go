package adaptive

// Knowing returns the strategy that is told the pages ahead, or the places to cut at, in
// place of measuring them. Either may be nil. The partition is nil where keys are those of partitions,
// and the end if there is none.
func Knowing(pages func(partition *string, here string, end *string) float64,
	place func(partition *string, here string, end *string, share float64) (string, bool)) Strategy {
	var x Strategy
	if pages != nil {
		x.truth.pages = func(v view, here string) float64 { return pages(v.partition, here, v.end) }
	}
	if place != nil {
		x.truth.place = func(v view, here string, share float64) (string, bool) {
			return place(v.partition, here, v.end, share)
		}
	}
	return x
}
