package adaptive_test

import (
	"fmt"

	"tablesweep/internal/key"
	"tablesweep/internal/scan/adaptive"
)

// The first page shows a thousand keys from 100000 on. The strategy reads on, and three other
// steps begin where it believes a quarter, a half and three quarters of the rest to lie.
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
	// reads on up to 2587
	// reads from 2587 up to 4755
	// reads from 4755 up to 6923
	// reads from 6923 up to 9
}
