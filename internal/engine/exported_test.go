package engine_test

import (
	"strings"
	"testing"

	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/place"
)

// TestExportOfAnExport: what limits an export limits the exports of it, which have its times.
func TestExportOfAnExport(t *testing.T) {
	t.Parallel()
	w := withSource(t, 20, 10)
	first := exportRequest("Source", "first")
	first.Range.Prefix, first.Filter, first.Select = "customer-00", "Number ge 2", []string{"Number"}
	then := exportRequest("", "then")
	then.Source = engine.TableRef{Container: "exports", Prefix: "first"}
	then.Range.Prefix, then.Filter = "customer-001", "Number ge 5"
	var of [2]place.Manifest
	for i, r := range []engine.Request{first, then} {
		w.succeed(r)
		e, err := place.Open(t.Context(), w.objects(r.Action.Destination.Prefix))
		w.must(err)
		of[i] = e.Manifest()
	}
	m := of[1]
	if m.Table != "Source" || m.Range == nil || m.Range.Prefix != "customer-001" || m.Filter != "(Number ge 2) and (Number ge 5)" ||
		len(m.Select) != 1 || !m.StartedAt.Equal(of[0].StartedAt) || !m.FinishedAt.Equal(of[0].FinishedAt) {
		t.Errorf("got %+v, of %+v", m, of[0])
	}
}

// TestSourceIsExchanged: a scan of an export reads no other one that stands in its place later.
func TestSourceIsExchanged(t *testing.T) {
	t.Parallel()
	w := withSource(t, 3, 40)
	w.fill("Other", plainRows(2, 40))
	for prefix, table := range map[string]string{"p": "Source", "q": "Other"} {
		w.succeed(exportRequest(table, prefix))
	}
	r := importRequest("p", "Target")
	r.SegmentSize = 7
	id := w.start(r)
	w.deliver()
	for name := range w.blobs("p") {
		w.must(w.objects("p").Delete(t.Context(), name))
	}
	for name, text := range w.blobs("q") {
		w.put("p", name, text)
	}
	w.restart() // another process has not read the first one
	w.drain()
	if s := w.status(id); s.State != ledger.Failed || !strings.Contains(s.Error, "has another export now") || strings.Count(s.Error, "read the source") != 1 {
		t.Errorf("%+v", s)
	}
	gone := w.start(importRequest("q", "Target"))
	for name := range w.blobs("q") {
		if strings.HasPrefix(name, place.DataPrefix) {
			w.must(w.objects("q").Delete(t.Context(), name))
		}
	}
	w.drain()
	if s := w.status(gone); s.State != ledger.Failed || strings.Count(s.Error, "read the source") != 1 {
		t.Errorf("%+v", s)
	}
}

// TestExportsAmongDataFiles: an export that stands below another one's data is left alone, and so are other blobs.
func TestExportsAmongDataFiles(t *testing.T) {
	t.Parallel()
	w := withSource(t, 3, 40)
	id := w.start(exportRequest("Source", ""))
	w.put("", "data/readme.txt", "x")
	inner := exportRequest("Source", "data/orders")
	other := w.start(inner)
	w.drain()
	for _, id := range []string{other, id} {
		w.counted(id, ledger.Succeeded, 120, 120, 0)
	}
	w.sealed("data/orders", "Source")
	if _, ok := w.blobs("")["data/readme.txt"]; !ok {
		t.Error("the seal has deleted somebody's blob")
	}
}
