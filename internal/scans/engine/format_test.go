package engine_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans/ledger"
)

// TestStepFormat: today's messages have every name that messages of format 1 have. Without this test, a renamed
// field could remain unnoticed, because a strategy ignores unknown names.
func TestStepFormat(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	f, err := os.Open("../testdata/format1.jsonl")
	proof.Must(t, err)
	defer f.Close()
	stored := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var line struct{ Message json.RawMessage }
		proof.Must(t, json.Unmarshal(lines.Bytes(), &line))
		if line.Message != nil {
			addNames(t, stored, line.Message)
		}
	}
	if len(stored) < 50 {
		t.Errorf("the stored messages have only %d names: %v", len(stored), stored)
	}
	synctest.Test(t, func(t *testing.T) {
		today := map[string]bool{}
		w := newWorld(t, emulator.Options{})
		w.onMessage = func(body []byte) { addNames(t, today, body) }
		w.fill("Source", plainRows(30, 6))
		w.fill("Wide", plainRows(300, 1))
		w.fill("Deep", plainRows(2, 80))
		for _, strategy := range []string{"adaptive", "adaptive", "prefix"} { // the second scan has hints
			r := copyRequest("Source", "Target")
			r.Strategy, r.SegmentSize, r.Range.Before = strategy, 10, "x"
			w.run(r)
		}
		for table, size := range map[string]int{"Wide": 280, "Deep": 10} {
			r := copyRequest(table, "Target")
			r.SegmentSize = size
			w.run(r)
		}
		few := plainRows(60, 1)
		w.fill("Few", few)
		for i := range few {
			few[i].Properties = nil
		}
		w.fill("Taken", few)
		r := copyRequest("Few", "Taken")
		r.SegmentSize, r.Action.Mode = 1, action.Fail
		failed := w.run(r)
		time.Sleep(time.Second)
		w.must(w.engine.RetryFailed(t.Context(), failed.ID))
		w.restart()
		w.drain()
		w.must(w.engine.RequestStart(t.Context(), ledger.NewScanID(time.Now()), copyRequest("Few", "Target")))
		d := deleteRequest("serial", 1)
		d.Source.Table, d.Range.After = "Wide", "a"
		var deletions atomic.Int32
		w.process.DieWhen(func(r *http.Request) bool { // the process dies in the deletion of the second page
			return r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/Wide(") && deletions.Add(1) == 15
		})
		id := w.start(d)
		w.drain()
		w.must(w.engine.Cancel(t.Context(), id), w.engine.Retry(t.Context(), id))
		w.drain()
		for name := range stored {
			if !today[name] {
				t.Errorf("no message has the name %s", name)
			}
		}
		if before := "adaptive step.token.a.Row"; !today[before] { // this name is newer than the stored messages
			t.Errorf("no message has the name %s, so no token has the key before it", before)
		}
	})
}

// addNames adds the path of each name in a message.
func addNames(t *testing.T, names map[string]bool, message []byte) {
	t.Helper()
	var content any
	proof.Must(t, json.Unmarshal(message, &content))
	strategy := "adaptive "
	if bytes.Contains(message, []byte(`"prefix"`)) {
		strategy = "prefix "
	}
	var add func(path string, v any)
	add = func(path string, v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				add(path, x)
			}
		case map[string]any:
			for name, x := range v {
				names[path+name] = true
				add(path+name+".", x)
			}
		}
	}
	add(strategy, content)
}
