package pace_test

import (
	"fmt"
	"time"

	"tablesweep/internal/storage/pace"
)

// A driver reads the limit, keeps that many requests in progress, and regularly reports their results.
func ExamplePace() {
	p := pace.New(8, 256)
	for _, refused := range []int{0, 0, 100} {
		requests := 10 * p.Limit() // requests in a second, because each takes 100 ms
		p.Observe(pace.Seen{Elapsed: time.Second, Done: requests - refused, Refused: refused, Saturated: true})
		fmt.Println(p.Limit())
	}
	// Output:
	// 12
	// 18
	// 12
}

// A partition that refuses requests gets its own limit. The others are not limited.
func ExamplePartitions() {
	var p pace.Partitions
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p.Throttled("busy", 100, now)
	p.Answered("busy", 100, 100, now)
	p.Started("busy", 100, now)
	fmt.Println(p.Wait("busy", now), p.Wait("other", now))
	// Output: 50.5ms 0s
}
