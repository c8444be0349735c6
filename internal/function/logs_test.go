package function_test

import (
	"fmt"
	"strings"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// TestLogsOfAStep: a step that is done says so in one line of its answer, which the host
// ties to the invocation, and says nothing of it in the log. The rows that it could not write
// are one warning.
func TestLogsOfAStep(t *testing.T) {
	a := newApp(t)
	target := a.account.Table("Target")
	if err := target.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // in the way of two of three rows
		other := storage.Entity{Key: key.Key{Partition: fmt.Sprint(i)}, Properties: []storage.Property{storage.StringProperty("Other", "x")}}
		if err := target.Write(t.Context(), storage.Op{Kind: storage.Insert, Entity: other}); err != nil {
			t.Fatal(err)
		}
	}
	a.ask(t, "POST", "/api/scans", `{"source":{"table":"Source"},"action":{"type":"copy","destination":{"table":"Target"},"mode":"fail"},"strategy":"serial"}`, nil)
	a.log.Reset()
	if logs := a.deliver(t); len(logs) != 1 || !strings.Contains(logs[0], "read 3 rows in 1 queries, wrote 1, refused 2, sent 0 messages") {
		t.Errorf("Logs %q; want one line with what was done", logs)
	}
	log := a.log.String()
	if strings.Count(log, `"level":"warn"`) != 1 || !strings.Contains(log, `"rows":2,"partitionKey":"0"`) || strings.Contains(log, "read 3 rows") {
		t.Errorf("the log has %s; want one warning with the number of rows and the first key", log)
	}
}
