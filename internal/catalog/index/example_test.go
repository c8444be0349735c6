package index_test

import (
	"fmt"
	"log"

	"tablesweep/internal/catalog/index"
)

// This example shows the keys of a record's rows, and the range of a query that finds one of the rows.
func Example() {
	schema, err := index.Parse("eid,npi,ssn", "lastname")
	if err != nil {
		log.Fatal(err)
	}
	record := map[string]string{"eid": "F314", "npi": "1414213562", "ssn": "123-45-6789", "lastname": "Faux"}
	id, err := schema.Identity(func(field string) (string, bool) {
		v, ok := record[field]
		return v, ok
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, partition := range id.Partitions {
		fmt.Println(partition, id.Row)
	}

	partitions, err := schema.Partitions("NPI", "1414213562")
	if err != nil {
		log.Fatal(err)
	}
	window, err := schema.Window("e", "fa")
	if err != nil {
		log.Fatal(err)
	}
	rows, _ := window.Behind("")
	fmt.Println("read", partitions[0].Key, "from", rows.Low.Key, "to before", rows.High.Key)
	fmt.Println("wanted:", window.Contains(id.Sort))
	// Output:
	// 3_eidf314 faux:56a9e459
	// 3_npi1414213562 faux:56a9e459
	// 3_ssn123-45-6789 faux:56a9e459
	// read 3_npi1414213562 from e to before fb
	// wanted: true
}
