package emulator_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"tablesweep/internal/emulator"
)

// sdk returns an SDK client that reaches an emulator in process.
func sdk(t *testing.T) (*emulator.Emulator, *aztables.ServiceClient) {
	t.Helper()
	e := newEmulator(t, emulator.Options{})
	options := policy.ClientOptions{Transport: e.Transport()}
	tables, err := aztables.NewServiceClientFromConnectionString(e.ConnectionString(), &aztables.ClientOptions{ClientOptions: options})
	if err != nil {
		t.Fatal(err)
	}
	return e, tables
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
	e, service := sdk(t)
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
