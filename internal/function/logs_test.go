package function_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/engine"
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
	a.call(t, "POST", "/api/scans", `{"source":{"table":"Source"},"action":{"type":"copy","destination":{"table":"Target"},"mode":"fail"},"strategy":"serial"}`, nil)
	q, err := a.account.Queue(engine.Queues[engine.ScanPrefix])
	if err != nil {
		t.Fatal(err)
	}
	m, err := q.Get(t.Context(), 1, time.Minute)
	if err != nil || len(m) != 1 {
		t.Fatalf("%d messages, %v", len(m), err)
	}
	body, err := base64.StdEncoding.DecodeString(m[0].Text)
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := json.Marshal(map[string]any{"Data": map[string]string{"item": string(body)}})
	if err != nil {
		t.Fatal(err)
	}
	a.log.Reset()
	var answer struct{ Logs []string }
	w := a.call(t, "POST", "/ScanPrefix", string(envelope), &answer)
	if w.Code != 200 || len(answer.Logs) != 1 || !strings.Contains(answer.Logs[0], "read 3 rows in 1 queries, wrote 1, refused 2, sent 0 messages") {
		t.Errorf("status %d, Logs %q; want one line with what was done", w.Code, answer.Logs)
	}
	log := a.log.String()
	if strings.Count(log, `"level":"warn"`) != 1 || !strings.Contains(log, `"rows":2,"partitionKey":"0"`) || strings.Contains(log, "read 3 rows") {
		t.Errorf("the log has %s; want one warning with the number of rows and the first key", log)
	}
}
