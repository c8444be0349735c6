package adaptive_test

import (
	"fmt"

	"tablesweep/internal/key"
	"tablesweep/internal/scan/adaptive"
)

// The first page shows a thousand keys from 100000 on. The strategy reads on, and seven other
// steps begin behind it, at ever larger distances.
func ExampleStrategy() {
	var strategy adaptive.Strategy
	start := strategy.Start(key.Bounds{Before: "9"})
	d, err := strategy.Advance(start, page(100_000, 101_000, "%d"))
	if err != nil {
		panic(err)
	}
	for _, c := range d.Children {
		stop, _ := adaptive.End(c)
		switch {
		case stop != nil:
			fmt.Println("reads on up to", stop.Partition)
		case c.Range.High != nil:
			fmt.Println("reads from", c.Range.Low.Key, "up to", c.Range.High.Key)
		}
	}
	// Output:
	// reads on up to 11925
	// reads from 11925 up to 16204
	// reads from 16204 up to 2192
	// reads from 2192 up to 3241
	// reads from 3241 up to 4488
	// reads from 4488 up to 58T
	// reads from 58T up to 7377
	// reads from 7377 up to 9
}
