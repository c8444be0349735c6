package scan_test

import (
	"fmt"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
)

// Whoever drives a scan makes the query of each step, asks the strategy what becomes of the page, and
// goes on with the children, in any order and anywhere.
func Example() {
	var strategy scan.Strategy = scan.Prefix{}
	pending := []scan.Step{strategy.Start(key.Bounds{})}
	queries, rows := 0, 0
	for len(pending) > 0 {
		step := pending[0]
		page := readTwo(step)
		queries++
		d, err := strategy.Advance(step, page)
		if err != nil {
			panic(err)
		}
		rows += d.Yield
		pending = append(pending[1:], d.Children...)
	}
	fmt.Println(rows, "rows by", queries, "queries of two rows")
	// Output: 10 rows by 10 queries of two rows
}
