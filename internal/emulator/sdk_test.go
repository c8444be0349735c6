package emulator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue"

	"tablesweep/internal/emulator"
)

// sdk returns SDK clients that reach an emulator in process.
func sdk(t *testing.T, o emulator.Options) (*emulator.Emulator, *aztables.ServiceClient, *azqueue.ServiceClient) {
	t.Helper()
	e := newEmulator(t, o)
	options := policy.ClientOptions{Transport: e.Transport()}
	tables, err := aztables.NewServiceClientFromConnectionString(e.ConnectionString(), &aztables.ClientOptions{ClientOptions: options})
	if err != nil {
		t.Fatal(err)
	}
	queues, err := azqueue.NewServiceClientFromConnectionString(e.ConnectionString(), &azqueue.ClientOptions{ClientOptions: options})
	if err != nil {
		t.Fatal(err)
	}
	return e, tables, queues
}

func newEmulator(t testing.TB, o emulator.Options) *emulator.Emulator {
	t.Helper()
	e, err := emulator.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// must fails the test on an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestSDKTables(t *testing.T) {
	t.Parallel()
	e, service, _ := sdk(t, emulator.Options{})
	ctx := t.Context()
	must(service.CreateTable(ctx, "people", nil))(t)
	client := service.NewClient("people")

	var actions []aztables.TransactionAction
	for i := range 100 {
		body := fmt.Sprintf(`{"PartitionKey":"p","RowKey":"%03d","N":%d,"D":1.5,"D@odata.type":"Edm.Double"}`, i, i)
		actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: []byte(body)})
	}
	must(client.SubmitTransaction(ctx, actions, nil))(t)
	must(client.UpsertEntity(ctx, []byte(`{"PartitionKey":"p","RowKey":"it's","N":7}`), nil))(t)
	must(client.UpdateEntity(ctx, []byte(`{"PartitionKey":"p","RowKey":"it's","M":8}`), &aztables.UpdateEntityOptions{IfMatch: to.Ptr(azcore.ETagAny), UpdateMode: aztables.UpdateModeMerge}))(t)
	got := must(client.GetEntity(ctx, "p", "it's", nil))(t)
	var row map[string]any
	if err := json.Unmarshal(got.Value, &row); err != nil {
		t.Fatal(err)
	}
	if row["N"] != 7.0 || row["M"] != 8.0 {
		t.Errorf("merged row is %v", row)
	}

	pager := client.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: to.Ptr("PartitionKey eq 'p' and RowKey lt '1'"), Top: to.Ptr(int32(30))})
	rows := 0
	for pager.More() {
		page := must(pager.NextPage(ctx))(t)
		rows += len(page.Entities)
	}
	if rows != 100 {
		t.Errorf("paged %d rows, want 100", rows)
	}
	must(client.DeleteEntity(ctx, "p", "it's", nil))(t)
	must(client.Delete(ctx, nil))(t)
	want := emulator.Counts{Query: 4, QueryRows: 100, Point: 1, Update: 0, Merge: 2, Delete: 1, Batch: 1, BatchEntities: 100, Tables: 2}
	if got := e.Counts(); got != want {
		t.Errorf("counts are %+v, want %+v", got, want)
	}
}

// A message's life takes hours of virtual time, and none of real time.
func TestSDKQueueInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _, service := sdk(t, emulator.Options{Latency: 10 * time.Millisecond})
		ctx := context.Background()
		must(service.CreateQueue(ctx, "work", nil))(t)
		queue := service.NewQueueClient("work")
		must(queue.EnqueueMessage(ctx, "a <b> & 'c'", nil))(t)

		first := must(queue.DequeueMessage(ctx, &azqueue.DequeueMessageOptions{VisibilityTimeout: to.Ptr(int32(3600))}))(t)
		if n := len(first.Messages); n != 1 || *first.Messages[0].MessageText != "a <b> & 'c'" {
			t.Fatalf("received %d messages", n)
		}
		if hidden := must(queue.DequeueMessage(ctx, nil))(t); len(hidden.Messages) != 0 {
			t.Error("the message is still visible")
		}
		time.Sleep(time.Hour)
		second := must(queue.DequeueMessage(ctx, nil))(t)
		if len(second.Messages) != 1 || *second.Messages[0].DequeueCount != 2 {
			t.Fatalf("not delivered again: %+v", second.Messages)
		}
		m := second.Messages[0]
		must(queue.DeleteMessage(ctx, *m.MessageID, *m.PopReceipt, nil))(t)
		if got := must(queue.GetProperties(ctx, nil))(t); *got.ApproximateMessagesCount != 0 {
			t.Errorf("%d messages left", *got.ApproximateMessagesCount)
		}
		want := emulator.Counts{QueuePut: 1, QueueGet: 3, QueueMessages: 2, QueueDelete: 1, QueueOther: 2}
		if got := e.Counts(); got != want {
			t.Errorf("counts are %+v, want %+v", got, want)
		}
	})
}
