package sweep_test

import (
	"context"
	"fmt"
	"log"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/key"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// A sweep deletes the rows of one day, in any order. A second sweep prints the remaining rows in table order.
func Example() {
	account := emulatortest.Example()
	ctx := context.Background()
	orders := account.Table("orders")
	if err := orders.Create(ctx); err != nil {
		log.Fatal(err)
	}
	for _, k := range []key.Key{{Partition: "2026-02-01", Row: "a"}, {Partition: "2026-02-01", Row: "b"}, {Partition: "2026-02-02", Row: "c"}} {
		if err := orders.Write(ctx, storage.Op{Kind: storage.Insert, Row: storage.Row{Key: k}}); err != nil {
			log.Fatal(err)
		}
	}

	old := sweep.Spec{Source: orders, Bounds: key.Bounds{Prefix: "2026-02-01"}, Steal: true}
	deleted, err := sweep.Do(ctx, old, sweep.Options{}, action.Delete{Table: orders})
	fmt.Println("deleted", deleted.Written, err)

	all := sweep.Spec{Source: orders, Steal: true}
	left, err := sweep.Each(ctx, all, sweep.Options{}, func(rows []storage.Row) error {
		for _, row := range rows {
			fmt.Println(row.Key.Partition, row.Key.Row)
		}
		return nil
	})
	fmt.Println("left", left.Rows, err)
	// Output:
	// deleted 2 <nil>
	// 2026-02-02 c
	// left 1 <nil>
}
