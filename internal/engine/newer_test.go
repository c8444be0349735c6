package engine_test

import (
	"encoding/base64"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/storage"
)

// TestNewerVersion: a scan has what this version does not know, as a newer version writes it: in its request, its hints, or the message of a
// step, which is in the poison queue, too. This version leaves the step alone for as long as an upgrade may take: it neither fails the scan nor
// sends a message. The newer one then reads every row.
func TestNewerVersion(t *testing.T) {
	t.Parallel()
	request := func(text string) storage.Property { return storage.BinaryProperty("Request", []byte(text)) }
	for name, stored := range map[string]storage.Property{
		"field":    request(`{"source":{"table":"Source"},"action":{"type":"count"},"limit":3}`),
		"action":   request(`{"source":{"table":"Source"},"action":{"type":"rename"}}`),
		"mode":     request(`{"source":{"table":"Source"},"action":{"type":"copy","destination":{"table":"Target"},"mode":"newest"}}`),
		"strategy": request(`{"source":{"table":"Source"},"action":{"type":"count"},"strategy":"halving"}`),
		"hints":    storage.BinaryProperty("Data00", gzipped(`{"version":2,"keys":{"in":"another form"}}`)),
		"message":  {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := withSource(t, 100, 6)
				r := copyRequest("Source", "Target")
				r.SegmentSize = 10
				w.run(r) // leaves hints
				id := w.start(r)
				if name == "message" {
					newer := []byte(`{"v":3,"scan":"` + id + `","unknown":{"field":1}}`)
					stored = storage.BinaryProperty("Message", newer)
					q, first := w.take(engine.ScanPrefix, 1)
					poison, text := w.queue(q.Name()+"-poison"), base64.StdEncoding.EncodeToString(newer)
					w.must(q.Delete(t.Context(), first[0]), poison.Create(t.Context()), poison.Put(t.Context(), text), q.Put(t.Context(), text))
				}
				was := w.replaceProperty(id, stored)
				w.restart() // by an older version
				for range 4 {
					w.drain()
					time.Sleep(time.Hour)
					w.must(w.engine.Maintain(t.Context()))
					if n, err := w.queue(engine.Queues[engine.ScanPrefix]).Length(t.Context()); name == "message" && (n != 0 || err != nil) {
						t.Errorf("%d messages, %v; want none sent", n, err)
					}
				}
				w.drain()
				w.replaceProperty(id, was)
				if s := w.status(id); s.State != ledger.Running || s.Steps.Pending != 1 || s.Steps.Done != 0 {
					t.Errorf("%+v; want it running with its step pending", s)
				}
				w.restart() // by the newer
				time.Sleep(time.Hour)
				w.must(w.engine.Maintain(t.Context()))
				w.tidy()
				w.counted(id, ledger.Succeeded, 600, 600, 0)
			})
		})
	}
}

// replaceProperty replaces a property of one of the ledger's rows in a partition, such as a scan's, and returns the one
// that was there.
func (w *world) replaceProperty(partition string, p storage.Property) (was storage.Property) {
	w.Helper()
	for _, row := range w.rows("tablesweep") {
		for i, old := range row.Properties {
			if row.Key.Partition != partition || old.Name != p.Name {
				continue
			}
			row.Properties[i] = p
			w.must(w.account.Table("tablesweep").Write(w.Context(), storage.Op{Kind: storage.Replace, Entity: row}))
			return old
		}
	}
	w.Fatalf("no row has %s", p.Name)
	return was
}
