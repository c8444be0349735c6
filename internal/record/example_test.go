package record_test

import (
	"fmt"
	"log"

	"tablesweep/internal/record"
)

// A record contains every value with its type, and a merge patch changes single fields.
func Example() {
	r, err := record.Parse([]byte(`{
		"name": "Ann", "age": 41, "rate": 3.0, "tags": ["a", "b"], "first name": "Ann",
		"hired": "2020-02-03T04:05:06Z", "hired@odata.type": "Edm.DateTime"
	}`))
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range r.Properties() {
		fmt.Printf("%-22s %-12v %s\n", p.Name, p.Type, p.Value)
	}
	r, err = r.Merge([]byte(`{"age": 42, "name": null, "first name": null, "tags": null}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(r.AppendJSON(nil)))

	_, err = record.Parse([]byte(`{"when": "today", "when@odata.type": "Edm.DateTime"}`))
	fmt.Println(err)
	// Output:
	// age                    Edm.Int32    41
	// tsw_x_first_20_name    Edm.String   "Ann"
	// hired                  Edm.DateTime "2020-02-03T04:05:06Z"
	// name                   Edm.String   "Ann"
	// rate                   Edm.Double   3.0
	// tsw_j_tags             Edm.String   "[\"a\",\"b\"]"
	// {"age":42,"hired@odata.type":"Edm.DateTime","hired":"2020-02-03T04:05:06Z","rate":3.0}
	// when: must be a time in UTC such as 2026-02-03T04:05:06.1234567Z, in the years 1601 to 9999
}
