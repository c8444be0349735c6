package emulator_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"tablesweep/internal/local/emulator"
)

// A client of Microsoft's SDK uses an account in memory. A fault spec makes the client's first request fail, and the counts show that the client has tried
// twice.
func Example() {
	em, err := emulator.New(emulator.Options{Faults: "busy p=1 times=1"})
	if err != nil {
		log.Fatal(err)
	}
	service, err := aztables.NewServiceClientFromConnectionString(em.ConnectionString(), &aztables.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: em.Transport(), Retry: policy.RetryOptions{RetryDelay: time.Millisecond}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := service.CreateTable(context.Background(), "orders", nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(em.Counts().TableTransactions(), em.FaultCounts())
	// Output:
	// 2 map[busy:1]
}
