package estimate_test

import (
	"fmt"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/estimate"
	"tablesweep/internal/scan/keysets"
)

// A sample says which queries to make, and takes in the answers. It has queries for all of
// this table, so it counts the rows.
func ExampleSample() {
	var keys []key.Key
	for i := range 12_345 {
		keys = append(keys, key.Key{Partition: fmt.Sprintf("order-%05d", i)})
	}
	query := keysets.Table{Keys: keys, Page: 1000}.Query
	sample := estimate.New(key.Range{}, 1000, 500)
	for steps := sample.Queries(); len(steps) > 0; steps = sample.Queries() {
		var pages []scan.Page
		for _, step := range steps {
			pages = append(pages, query(step))
		}
		sample.Answer(pages)
	}
	e := sample.Estimate()
	fmt.Println(e.Rows.Low, "to", e.Rows.High, "rows, counted:", e.Exact)
	cost := e.Cost(estimate.Plan{Segment: 1000, Transactions: true, Parallel: 100, Latency: 10 * time.Millisecond, Price: estimate.Price})
	fmt.Println(cost.Requests.High, "requests")
	// Output:
	// 12345 to 12345 rows, counted: true
	// 12360 requests
}
