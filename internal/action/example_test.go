package action_test

import (
	"context"
	"fmt"
	"log"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// Work is done one unit at a time. In this example, each row becomes a message. A row that cannot become a message is
// reported, and does not stop the others.
func ExampleAll() {
	ctx := context.Background()
	queue, err := emulatortest.Example().Queue("mails")
	if err != nil {
		log.Fatal(err)
	}
	if err := queue.Create(ctx); err != nil {
		log.Fatal(err)
	}
	message, err := action.ParseTemplate("to {{.Email}}")
	if err != nil {
		log.Fatal(err)
	}
	rows := []storage.Entity{
		{Key: key.Key{Partition: "ann"}, Properties: []storage.Property{storage.StringProperty("Email", "ann@example.com")}},
		{Key: key.Key{Partition: "bob"}},
	}
	result, err := action.All(ctx, storage.RequestOptions{}, nil, action.Enqueue{Queue: queue, Message: message}, storage.Rows(rows))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Written, "sent")
	for _, failure := range result.Failed {
		fmt.Println(failure)
	}
	// Output:
	// 1 sent
	// PartitionKey "bob" RowKey "": the row has no property "Email"
}
