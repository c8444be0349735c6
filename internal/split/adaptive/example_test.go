package adaptive_test

import (
	"fmt"

	"tablesweep/internal/key"
	"tablesweep/internal/split/adaptive"
)

// The first page contains a thousand keys from 100000 on. One step continues after the page, and eleven further steps begin at increasing distances.
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
	// reads on up to 10966
	// reads from 10966 up to 13101
	// reads from 13101 up to 16204
	// reads from 16204 up to 19c
	// reads from 19c up to 254V
	// reads from 254V up to 3241
	// reads from 3241 up to 4019
	// reads from 4019 up to 4969
	// reads from 4969 up to 58T
	// reads from 58T up to 68O
	// reads from 68O up to 7964
	// reads from 7964 up to 9
}
