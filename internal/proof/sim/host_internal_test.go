package sim

import (
	"os"
	"testing"

	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/proof"
)

// TestHostMatchesHostJSON compares the model of the host with host.json.
func TestHostMatchesHostJSON(t *testing.T) {
	a, err := hostjson.Load(os.DirFS("../../.."), func(string) string { return "" })
	proof.Must(t, err)
	want := hostQueues
	want.MaxPolling = a.Queues.MaxPolling // plans differ in this setting
	if a.Queues != want || a.FunctionTimeout != functionTimeout {
		t.Errorf("host.json has %+v and %v, but the simulation has %+v and %v", a.Queues, a.FunctionTimeout, want, functionTimeout)
	}
}
