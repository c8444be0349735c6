package odata_test

import (
	"fmt"
	"log"

	"tablesweep/internal/key/odata"
)

// A filter reports whether a row matches, and returns a range of keys that contains all matching rows.
func Example() {
	filter, err := odata.Parse("PartitionKey eq 'orders' and RowKey ge '2026' and Total gt 9.5")
	if err != nil {
		log.Fatal(err)
	}
	cheap := row{"PartitionKey": text("orders"), "RowKey": text("2026-02"), "Total": {Type: odata.Double, Float: 7}}
	dear := row{"PartitionKey": text("orders"), "RowKey": text("2026-03"), "Total": {Type: odata.Int32, Int: 12}}
	fmt.Println(filter.Match(cheap), filter.Match(dear))

	keys := filter.Range()
	fmt.Println(*keys.Partition, keys.Low.Key)

	_, err = odata.Parse("Total gt")
	fmt.Println(err)
	// Output:
	// false true
	// orders 2026
	// filter at character 9: expected a property or a literal
}
