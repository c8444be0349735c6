package engine_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/storage"
)

// Each message runs a step of the scan, and each step sends the messages of its children. In this example, a loop
// takes the place of the Functions host.
func Example() {
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	account := emulatortest.Example()
	ctx := context.Background()
	orders := account.Table("orders")
	must(orders.Create(ctx))
	batch := orders.Batch()
	for i := range 50 {
		batch.Add(storage.Op{Kind: storage.Insert, Row: storage.Row{Key: key.Key{Partition: "2026", Row: fmt.Sprintf("%02d", i)}}})
	}
	must(batch.Do(ctx))

	app, err := engine.New(scans.Options{
		Own: account, StateTable: "tablesweep", Accounts: map[string]*storage.Account{storage.HostConnection: account},
	})
	must(err)
	must(app.TryPrepare(ctx))
	id, err := app.Start(ctx, scans.Request{
		Source: scans.TableRef{Table: "orders"}, Action: scans.Action{Type: scans.Count}, Strategy: "serial",
		SegmentSize: 20, SegmentsPerInvocation: 1,
	})
	must(err)
	steps, err := account.Queue(scans.Queues[scans.ScanPrefix])
	must(err)
	for {
		messages, err := steps.Get(ctx, 1, time.Minute)
		must(err)
		if len(messages) == 0 {
			break
		}
		body, err := base64.StdEncoding.DecodeString(messages[0].Text)
		must(err)
		_, err = app.Run(ctx, body, messages[0].DequeueCount)
		must(err)
		must(steps.Delete(ctx, messages[0]))
		status, err := app.Status(ctx, id)
		must(err)
		fmt.Println(status.State, status.Rows.Scanned, "rows,", status.Steps.Pending, "pending")
	}
	// Output:
	// running 20 rows, 1 pending
	// running 40 rows, 1 pending
	// succeeded 50 rows, 0 pending
}
