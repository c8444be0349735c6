package scan_test

import (
	"fmt"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
)

// A program that runs a scan makes the query of each step, lets the strategy decide about the page, and continues with the children, in any order and
// on any machine.
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
