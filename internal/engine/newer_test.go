package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/storage"
)

// TestNewerScan starts a scan as a newer version would, with a request or hints that this version does not
// know. This version leaves the steps alone for as long as an upgrade may take. The newer one
// then reads every row.
func TestNewerScan(t *testing.T) {
	t.Parallel()
	request := func(text string) storage.Property { return storage.BinaryProperty("Request", []byte(text)) }
	for name, stored := range map[string]storage.Property{
		"field":    request(`{"source":{"table":"Source"},"action":{"type":"count"},"limit":3}`),
		"action":   request(`{"source":{"table":"Source"},"action":{"type":"rename"}}`),
		"mode":     request(`{"source":{"table":"Source"},"action":{"type":"copy","destination":{"table":"Target"},"mode":"newest"}}`),
		"strategy": request(`{"source":{"table":"Source"},"action":{"type":"count"},"strategy":"halving"}`),
		"hints":    storage.BinaryProperty("Data00", gzipped(`{"version":2,"keys":{"in":"another form"}}`)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, emulator.Options{})
				w.fill("Source", plainRows(100, 6))
				r := copyRequest("Source", "Target")
				r.SegmentSize = 10
				w.run(r) // leaves hints
				id := w.start(r)
				was := w.replaceProperty(id, stored)
				w.restart() // by an older version
				w.drain()
				for range 3 {
					time.Sleep(time.Hour)
					if err := w.engine.Maintain(t.Context()); err != nil {
						t.Fatal(err)
					}
					w.drain()
				}
				w.replaceProperty(id, was)
				if s := w.status(id); s.State != ledger.Running || s.Steps.Pending != 1 || s.Steps.Done != 0 {
					t.Errorf("%+v; want it running with its step pending", s)
				}
				w.restart() // by the newer
				time.Sleep(time.Hour)
				if err := w.engine.Maintain(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.drain()
				if s := w.status(id); s.State != ledger.Succeeded || s.Rows.Scanned != 600 {
					t.Errorf("%+v; want 600 rows", s)
				}
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
			if err := w.account.Table("tablesweep").Write(w.Context(), storage.Op{Kind: storage.Replace, Entity: row}); err != nil {
				w.Fatal(err)
			}
			return old
		}
	}
	w.Fatalf("no row has %s", p.Name)
	return was
}
