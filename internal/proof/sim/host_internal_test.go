package sim

import (
	"os"
	"testing"

	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/proof"
)

// TestHostIsSetAsTheApp compares the model of the host with host.json.
func TestHostIsSetAsTheApp(t *testing.T) {
	a, err := hostjson.Load(os.DirFS("../../.."), func(string) string { return "" })
	proof.Must(t, err)
	want := hostQueues
	want.MaxPolling = a.Queues.MaxPolling // plans differ in it
	if a.Queues != want || a.FunctionTimeout != functionTimeout {
		t.Errorf("host.json has %+v and %v, the simulation %+v and %v", a.Queues, a.FunctionTimeout, want, functionTimeout)
	}
}
