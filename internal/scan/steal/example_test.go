package steal_test

import (
	"fmt"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/steal"
)

// One worker has read a page of ten keys. Two idle ones take what may lie far behind it: no page
// has told yet that all keys begin with order.
func ExampleModel_Steal() {
	model := steal.New(10)
	strand := steal.NewStrand(key.Range{})
	page := scan.Page{Next: &key.Token{Partition: "order110"}}
	for i := range 10 {
		page.Keys = append(page.Keys, key.Key{Partition: fmt.Sprint("order", 100+i)})
	}
	model.Page(strand, page)
	for _, theft := range model.Steal([]*steal.Strand{strand}, 2) {
		fmt.Println("the victim reads up to", theft.Victim.End.Partition)
		for _, thief := range theft.Thieves {
			fmt.Println("a thief reads from", thief.Range().Low.Key)
		}
	}
	// Output:
	// the victim reads up to ormj
	// a thief reads from ormj
	// a thief reads from qh
}
