package adaptive_test

import (
	"fmt"

	"tablesweep/internal/key"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// One worker has read a page of ten keys. Two idle workers take parts of the following keys. These parts are far away, because the workers have not
// learned yet that all keys begin with order.
func ExampleWorkers_Steal() {
	workers := adaptive.NewWorkers(10)
	piece := adaptive.NewPiece(key.Range{})
	page := scan.Page{Next: &key.Token{Partition: "order110"}}
	for i := range 10 {
		page.Keys = append(page.Keys, key.Key{Partition: fmt.Sprint("order", 100+i)})
	}
	workers.Page(piece, scan.Step{}, page)
	for _, theft := range workers.Steal([]*adaptive.Piece{piece}, 2) {
		fmt.Println("the victim reads up to", theft.Victim.End.Partition)
		for _, thief := range theft.Thieves {
			fmt.Println("a thief reads from", thief.Range().Low.Key)
		}
	}
	// Output:
	// the victim reads up to r22
	// a thief reads from r22
	// a thief reads from z89
}
