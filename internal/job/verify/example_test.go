package verify_test

import (
	"context"
	"fmt"
	"log"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/key"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// The example copies a table and compares the copy. Then a row of the copy is deleted. A comparison finds the missing row, and a sync copies it
// again.
func Example() {
	account := emulatortest.Example()
	ctx := context.Background()
	orders, archive := account.Table("orders"), account.Table("archive")
	batch := orders.Batch()
	for i := range 50 {
		batch.Add(storage.Op{Kind: storage.Insert, Row: storage.Row{Key: key.Key{Partition: "2026", Row: fmt.Sprintf("order-%02d", i)}}})
	}
	for _, do := range []func(context.Context) error{orders.Create, archive.Create, batch.Do} {
		if err := do(ctx); err != nil {
			log.Fatal(err)
		}
	}

	rows := sweep.Spec{Source: orders, Steal: true}
	copying := action.Copy{Destination: archive}
	totals, err := sweep.Do(ctx, rows, sweep.Options{Workers: 8}, copying)
	fmt.Println("copied", totals.Written, err)

	lost := storage.Op{Kind: storage.Delete, Row: storage.Row{Key: key.Key{Partition: "2026", Row: "order-07"}}}
	if err := archive.Write(ctx, lost); err != nil {
		log.Fatal(err)
	}
	r, err := verify.Compare(ctx, rows, archive, verify.Options{})
	fmt.Println("compared", r.Rows, err)
	for _, d := range r.List {
		fmt.Println(d.Kind, d.Key.Partition, d.Key.Row)
	}

	file, err := verify.NewPlanFile()
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	plan := verify.NewPlan(file, false)
	if _, err := verify.Compare(ctx, rows, archive, verify.Options{Plan: plan}); err != nil {
		log.Fatal(err)
	}
	done, err := plan.Apply(ctx, rows, archive, sweep.Options{}, false)
	fmt.Println("written", done.Written, err)

	// Output:
	// copied 50 <nil>
	// compared 50 <nil>
	// missing 2026 order-07
	// written 1 <nil>
}
