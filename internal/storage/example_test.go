package storage_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// The rows of one partition are written in one transaction, and read page by page.
func Example() {
	ctx := context.Background()
	orders := emulatortest.Example().Table("orders")
	if err := orders.Create(ctx); err != nil {
		log.Fatal(err)
	}

	batch := orders.Batch()
	for i := range int64(3) {
		batch.Add(storage.Op{Kind: storage.Insert, Row: storage.Entity{
			Key:        key.Key{Partition: "2026", Row: fmt.Sprint("order-", i)},
			Properties: []storage.Property{storage.Int64Property("Total", 100*i)},
		}.Row()})
	}
	if err := batch.Do(ctx); err != nil {
		log.Fatal(err)
	}

	query := storage.Query{Filter: "Total gt 0", Top: 1}
	for more := true; more; more = query.Token != nil {
		page, err := orders.Query(ctx, query)
		if err != nil {
			log.Fatal(err)
		}
		for _, e := range page.Entities() {
			fmt.Println(e.Key.Partition, e.Key.Row, e.Get("Total"))
		}
		query.Token = page.Next
	}

	var refused *storage.Error
	err := orders.Write(ctx, storage.Op{Kind: storage.Insert, Row: storage.Row{Key: key.Key{Partition: "2026", Row: "order-1"}}})
	fmt.Println(errors.As(err, &refused), refused.Code)
	// Output:
	// 2026 order-1 100
	// 2026 order-2 200
	// true EntityAlreadyExists
}
