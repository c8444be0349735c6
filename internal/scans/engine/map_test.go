package engine_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// TestMap: a scan writes the rows that its map makes, but counts and lists the source's rows. A retry maps failed rows again. If two rows
// become one, the second fails again.
func TestMap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	var rows []storage.Entity
	for i := range 40 {
		rows = append(rows, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("p%02d", i), Row: fmt.Sprintf("%02d", i)}, Properties: []storage.Property{storage.Int64Property("N", int64(i))}})
	}
	w.fill("Source", rows)
	w.fill("Target", []storage.Entity{{Key: key.Key{Partition: "7", Row: "27"}}}) // this row conflicts with a copied row
	r := copyRequest("Source", "Target")
	r.SegmentSize, r.SegmentsPerInvocation, r.Strategy, r.Action.Mode = 10, 2, "serial", action.Fail // a step reads two pages
	r.Action.Map = `if .N == 15 and .Fixed == null then error("not \(.N)") elif .N == 16 then empty elif .N == 12 then .N = 8 | .RowKey = "08" end | .PartitionKey = (.N % 10 | tostring)`
	id := w.run(r).ID
	const written = 36 // all rows but 12, 15, 16 and 27
	w.checkCounts(id, ledger.Failed, 40, written, 3)
	failed := func(want ...string) {
		t.Helper()
		f, err := w.observer.Failed(t.Context(), id, 100, "")
		w.must(err)
		var got []string
		for _, row := range f.Rows {
			got = append(got, row.RowKey+" "+row.Reason)
		}
		all := strings.Join(got, "\n")
		for _, one := range want {
			if !strings.Contains(all, one) {
				t.Errorf("the failed rows are %s, want %s", all, one)
			}
		}
		if len(got) != len(want) {
			t.Errorf("the failed rows are %s", all)
		}
	}
	const twice = `12 map: the map gives PartitionKey "8" RowKey "08" to this row and to another row of the same page: PartitionKey "p08" RowKey "08"`
	failed("15 map: error: not 15", twice, `27 PartitionKey "7" RowKey "27": the destination has a row with this key and other content`)
	w.remove("Target", key.Key{Partition: "7", Row: "27"})
	fixed := rows[15].Clone()
	fixed.Properties = append(fixed.Properties, storage.StringProperty("Fixed", "x"))
	w.must(w.account.Table("Source").Write(t.Context(), storage.Op{Kind: storage.Replace, Row: fixed.Row()}))
	w.must(w.engine.RetryFailed(t.Context(), id))
	w.restart()
	w.drain()
	w.checkCounts(id, ledger.Failed, 40, written+2, 1)
	failed(twice)
	for _, row := range w.rows("Target") {
		if n := row.Int("N"); row.Key.Row != fmt.Sprintf("%02d", n) || row.Key.Partition != fmt.Sprint(n%10) {
			t.Errorf("the scan wrote %s", row.AppendJSON(nil))
		}
	}
	if s := w.status(id); s.Action.MapHash != fmt.Sprintf("%x", sha256.Sum256([]byte(r.Action.Map))) {
		t.Errorf("the scan's row has the hash %q", s.Action.MapHash)
	}
}

// TestMapOfExports: an export accepts mapped rows that keep their keys, and fails if the map changes a key. A map with a forbidden use is
// refused before the scan begins.
func TestMapOfExports(t *testing.T) {
	t.Parallel()
	w := withSource(t, 3, 20)
	r := exportRequest("Source", "kept")
	r.Action.Map = `select(.RowKey | endswith("1") | not) | .New = "x"`
	s := w.run(r)
	w.checkCounts(s.ID, ledger.Succeeded, 60, 54, 0)
	if _, m := w.readExport("kept"); !m.Mapped {
		t.Errorf("the manifest does not say that a map made the rows: %+v", m)
	}
	back := copyRequest("", "Back")
	back.Source = *r.Action.Destination
	w.checkCounts(w.run(back).ID, ledger.Succeeded, 54, 54, 0)
	if rows := w.rows("Back"); len(rows) != 54 || rows[0].Get("New") != "x" {
		t.Errorf("the import has %d rows, want 54 with property New", len(rows))
	}
	r = exportRequest("Source", "moved")
	r.Action.Map = `.PartitionKey = "x"`
	if s := w.run(r); s.State != ledger.Failed || !strings.Contains(s.Error, "the map changes the key of the row to") {
		t.Errorf("the export is %v with error %q, want it failed", s.State, s.Error)
	}
	for program, want := range map[string]string{"now": "uses now", "nothing": "is not a jq program", ".A = \"AccountKey=c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0\"": "remove this text, because requests are stored"} {
		r := copyRequest("Source", "Target")
		r.Action.Map = program
		if _, err := parsed(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("map %s: got error %v, want %s", program, err, want)
		}
	}
	other := copyRequest("Source", "Target")
	other.Action.Map, other.Action.MapHash = ".", "that of another program"
	if _, err := parsed(other); err == nil || !strings.Contains(err.Error(), "action.mapHash") {
		t.Errorf("a request with another map's hash: got error %v", err)
	}
	count := scans.Request{Source: scans.TableRef{Table: "Source"}, Action: scans.Action{Type: scans.Count, Map: "."}}
	if _, err := parsed(count); err == nil || !strings.Contains(err.Error(), "is not a field of count") {
		t.Errorf("a count with a map: got error %v", err)
	}
}

// parsed encodes a request, and reads it as the API does.
func parsed(r scans.Request) (scans.Request, error) {
	body, _ := json.Marshal(r)
	return scans.ParseRequest(body)
}
