package engine_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/split/strategy"
	"tablesweep/internal/storage"
)

func exportRequest(from, prefix string) scans.Request {
	return scans.Request{
		Source: scans.TableRef{Table: from},
		Action: scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Container: "exports", Prefix: prefix}},
	}
}

func importRequest(prefix, to string) scans.Request {
	return scans.Request{
		Source: scans.TableRef{Container: "exports", Prefix: prefix},
		Action: scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Table: to}},
	}
}

func (w *world) objects(prefix string) *place.Blobs {
	w.Helper()
	b, err := place.InContainer(w.account, "exports", prefix)
	w.must(err)
	return b
}

// blobs returns the content of each object of an export, by the object's name.
func (w *world) blobs(prefix string) map[string]string {
	w.Helper()
	b, all := w.objects(prefix), map[string]string{}
	err := b.List(w.Context(), "", func(name string, bytes int64) error {
		text, err := b.Get(w.Context(), name, 0, bytes+1)
		all[name] = string(text)
		return err
	})
	if err != nil && !storage.NotFound(err) {
		w.Fatal(err)
	}
	return all
}

// putBlob writes a blob below an export's prefix.
func (w *world) putBlob(prefix, name, text string) {
	w.Helper()
	_, err := w.objects(prefix).Put(w.Context(), name, []byte(text))
	w.must(err)
}

// readExport reads an export as a table.
func (w *world) readExport(prefix string) (rows []storage.Entity, m place.Manifest) {
	w.Helper()
	e, err := place.Open(w.Context(), w.objects(prefix))
	w.must(err)
	rows, err = emulatortest.All(w.Context(), e, storage.Query{})
	w.must(err)
	return rows, e.Manifest()
}

// checkExport fails the test unless the export under a prefix is complete, has the rows of a table, and has no other blobs.
func (w *world) checkExport(prefix, table string) {
	w.Helper()
	got, m := w.readExport(prefix)
	if want := w.rows(table); !slices.EqualFunc(got, want, storage.Equal) {
		w.Errorf("the export has %d rows, and table %s has %d, or the rows differ", len(got), table, len(want))
	}
	if all := w.blobs(prefix); len(all) != m.Files.Count+3 {
		w.Errorf("the export has %d objects, want %d files and 3", len(all), m.Files.Count)
	}
}

func TestExportAndImport(t *testing.T) {
	t.Parallel()
	for _, strategy := range testsize.Of(strategy.Names[:1], strategy.Names) {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, emulator.Options{Faults: "seed=4; short-page p=0.3; empty-page p=0.05"})
			w.fill("Source", plainRows(30, 40))
			w.fill("Nasty", nastyRows())
			for _, table := range []string{"Source", "Nasty"} {
				r := exportRequest(table, "backup/"+table+"/")
				r.Strategy, r.SegmentSize, r.SegmentsPerInvocation = strategy, 37, 3
				rows := len(w.rows(table))
				w.checkCounts(w.succeed(r).ID, ledger.Succeeded, rows, rows, 0)
				w.checkExport("backup/"+table, table)
				r = importRequest("/backup/"+table, table+"Again")
				r.Strategy = strategy
				w.checkCounts(w.succeed(r).ID, ledger.Succeeded, rows, rows, 0)
				w.equalTables(table, table+"Again")
				again := exportRequest("", "again/"+table)
				again.Source = r.Source
				w.succeed(again)
				w.checkExport("again/"+table, table)
			}
			r := importRequest("backup/Source", "Some")
			r.Range.Prefix, r.Filter, r.Select = "customer-00", "Number ge 20", []string{"Number"}
			w.succeed(r)
			some := 0
			for _, row := range w.rows("Source") {
				if strings.HasPrefix(row.Key.Partition, "customer-00") && row.Int("Number") >= 20 {
					some++
				}
			}
			if got := w.rows("Some"); len(got) != some || some == 0 || len(got[0].Properties) != 1 {
				t.Errorf("the export has %d rows, want %d", len(got), some)
			}
			count := importRequest("backup/Source", "")
			count.Action = scans.Action{Type: scans.Count}
			w.checkCounts(w.run(count).ID, ledger.Succeeded, 1200, 0, 0)
			nothing := exportRequest("Source", "nothing")
			nothing.Range.Prefix = "nothing"
			w.succeed(nothing)
			if rows, _ := w.readExport("nothing"); len(rows) != 0 {
				t.Errorf("an export without rows has %d rows", len(rows))
			}
		})
	}
}

// An export gets no manifest if a data blob is missing or has another length, or if the ledger's record of a data blob is missing. Then
// no blob is deleted.
func TestMissingBlobsFailTheExport(t *testing.T) {
	t.Parallel()
	for want, damage := range map[string]func(w *world, id ledger.ScanID, name string){
		" is damaged: data/": func(w *world, _ ledger.ScanID, name string) { w.must(w.objects("p").Delete(t.Context(), name)) },
		"damaged: data/": func(w *world, _ ledger.ScanID, name string) {
			w.must(w.objects("p").Delete(t.Context(), name))
			w.putBlob("p", name, "x")
		},
		"the state table lacks rows that list data files of the export": func(w *world, id ledger.ScanID, _ string) { w.remove("tablesweep", w.ledgerRows(id, "w|")[0].Key) },
	} {
		w := withSource(t, 20, 1)
		r := exportRequest("Source", "p")
		r.Strategy, r.SegmentSize, r.SegmentsPerInvocation = "serial", 10, 1
		id := w.start(r)
		w.deliver()
		for name := range w.blobs("p") {
			if strings.HasPrefix(name, place.DataPrefix) {
				damage(w, id, name)
			}
		}
		w.putBlob("p", "data/0123456789abcdefghijklmn-0123456789abcdef.jsonl.zst", "from a late delivery")
		blobs := len(w.blobs("p"))
		w.drain()
		if s := w.status(id); s.State != ledger.Failed || !strings.Contains(s.Error, want) || w.blobs("p")[place.ManifestName] != "" || len(w.blobs("p")) <= blobs {
			t.Errorf("want error %q: got status %+v and %d blobs", want, s, len(w.blobs("p")))
		}
		if err := w.engine.Retry(t.Context(), id); strings.HasPrefix(want, "lacks") && problem.Of(err).Kind != problem.Conflict {
			t.Errorf("a retry: got error %v", err)
		}
	}
}

// Before an export begins, its permissions are checked. If one is missing, the error says so, and no objects are left.
func TestExportWithoutPermission(t *testing.T) {
	t.Parallel()
	for _, lacks := range []string{"list", "get-blob", "put-blob"} {
		w := withSource(t, 1, 3)
		w.refuse(http.StatusForbidden, "AuthorizationPermissionMismatch", func(r *http.Request, _ string) bool {
			blob := strings.Contains(r.URL.Path, "/exports/")
			return map[string]bool{
				"list": r.URL.Query().Get("comp") == "list", "get-blob": blob && r.Method == http.MethodGet, "put-blob": blob && r.Method == http.MethodPut,
			}[lacks]
		})
		_, err := w.engine.Start(t.Context(), exportRequest("Source", "p"))
		if problem.Status(err) != http.StatusBadRequest || !strings.HasPrefix(err.Error(), "action.destination.connection: ") || !strings.Contains(err.Error(), "lists, reads and writes blobs") {
			t.Errorf("without permission to %s: got %v", lacks, err)
		}
		w.process.Next = w.emulator.Transport()
		if list, err := w.engine.List(t.Context(), status.ListQuery{Top: 1}); err != nil || len(list.Scans) != 0 || len(w.blobs("p")) != 0 {
			t.Errorf("without permission to %s: %d scans and %d blobs are left, %v", lacks, len(list.Scans), len(w.blobs("p")), err)
		}
	}
}

func TestRefusedExports(t *testing.T) {
	w := withSource(t, 2, 3)
	w.succeed(exportRequest("Source", "done"))
	w.putBlob("foreign", "readme.txt", "x")
	w.succeed(exportRequest("Source", "deep/er"))
	w.succeed(groupExport("many"))
	w.putBlob("", "manifest.json", `{"format":"of another program"}`)
	running := w.start(exportRequest("Source", "running"))
	ref := func(r scans.TableRef) scans.Request {
		q := exportRequest("Source", "")
		q.Action.Destination = &r
		return q
	}
	remove := importRequest("done", "")
	remove.Action = scans.Action{Type: scans.Delete}
	keys := exportRequest("Source", "keys")
	keys.Action.Type = scans.Keys
	mode := exportRequest("Source", "mode")
	mode.Action.Mode = "skip"
	filtered := func(filter string) scans.Request {
		r := importRequest("done", "Target")
		r.Filter = filter
		return r
	}
	for _, tt := range []struct {
		name    string
		request scans.Request
		status  int
		want    string
	}{
		{"a complete export", exportRequest("Source", "done"), 409, "is taken: it contains"},
		{"a running export", exportRequest("Source", "running/"), 409, "is taken: it contains export.json"},
		{"other blobs", exportRequest("Source", "foreign"), 409, "it contains readme.txt"},
		{"import of a missing export", importRequest("nowhere", "Target"), 404, "not a complete export"},
		{"import of an incomplete export", importRequest("running", "Target"), 404, "manifest.json"},
		{"within an export", exportRequest("Source", "done/Other"), 409, "lies within the export that contains the blob "},
		{"within a running export", exportRequest("Source", "running/a/b"), 409, "running/export.json; name a prefix"},
		{"within an export of many tables", exportRequest("Source", "many/Other"), 409, "many/tables.json"},
		{"around an export", exportRequest("Source", "deep"), 409, "is taken: it contains er/"},
		{"two places", ref(scans.TableRef{Table: "Target", Container: "exports"}), 400, "leave one out"},
		{"no place", ref(scans.TableRef{}), 400, "action.destination.table"},
		{"a prefix of a table", ref(scans.TableRef{Table: "Target", Prefix: "x"}), 400, "is only for an export in a container; name the container"},
		{"container's name", ref(scans.TableRef{Container: "Exports"}), 400, "action.destination.container"},
		{"prefix with an empty part", ref(scans.TableRef{Container: "exports", Prefix: "a//b"}), 400, "action.destination.prefix"},
		{"prefix with dots", ref(scans.TableRef{Container: "exports", Prefix: "a/../b"}), 400, "action.destination.prefix"},
		{"delete", remove, 400, "source.container"},
		{"keys", keys, 400, "copy and verify"},
		{"mode", mode, 400, "action.mode"},
		{"an invalid filter", filtered("Number gtt 3"), 400, "filter: "},
		{"a filter by Timestamp", filtered("Timestamp ge datetime'2020-01-01T00:00:00Z'"), 400, "not possible for the rows of an export"},
	} {
		body, err := json.Marshal(tt.request)
		w.must(err)
		r, err := scans.ParseRequest(body)
		start := err
		if err == nil { // an estimate refuses the same requests as a start
			_, err = w.engine.Estimate(t.Context(), r)
			_, start = w.engine.Start(t.Context(), r)
		}
		for how, err := range map[string]error{"estimated": err, "started": start} {
			if err == nil || problem.Status(err) != tt.status || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s, %s: got %v, want %d and %q", tt.name, how, err, tt.status, tt.want)
			}
		}
	}
	if _, err := w.engine.Start(t.Context(), groupExport("done/all")); problem.Of(err).Kind != problem.Conflict {
		t.Errorf("an export of many tables within another export: got error %v", err)
	}
	if blobs := w.blobs("mode"); len(blobs) != 0 {
		t.Errorf("a refused request left %d blobs", len(blobs))
	}
	w.drain()
	w.checkCounts(running, ledger.Succeeded, 6, 6, 0)
}

// If an object of an export is damaged, the start of the import is refused, or the scan that reads the object fails.
// place.TestChangedBytesAreRefused flips every byte.
func TestImportOfDamagedExport(t *testing.T) {
	t.Parallel()
	w := withSource(t, 3, 10)
	r := exportRequest("Source", "p")
	r.SegmentSize, r.SegmentsPerInvocation = 7, 1
	w.succeed(r)
	replace := func(name, text string) {
		w.must(w.objects("p").Delete(t.Context(), name))
		w.putBlob("p", name, text)
	}
	for name, text := range w.blobs("p") {
		if name == place.ClaimName { // an import does not read the claim
			continue
		}
		bad := []byte(text)
		bad[len(bad)/2] ^= 1
		replace(name, string(bad))
		if id, err := w.engine.Start(t.Context(), importRequest("p", "Target")); err != nil {
			if status := problem.Status(err); status != 400 || strings.HasPrefix(name, place.DataPrefix) {
				t.Errorf("damaged %s: got status %d, error %v", name, status, err)
			}
		} else {
			w.drain()
			if s := w.status(id); s.State != ledger.Failed || !strings.Contains(s.Error, name) {
				t.Errorf("damaged %s: got %+v, want it failed", name, s)
			}
		}
		replace(name, text)
	}
}

// TestExportOfAnExport: an export of an export inherits the first export's restrictions and its times.
func TestExportOfAnExport(t *testing.T) {
	t.Parallel()
	w := withSource(t, 20, 10)
	first := exportRequest("Source", "first")
	first.Range.Prefix, first.Filter, first.Select = "customer-00", "Number ge 2", []string{"Number"}
	then := exportRequest("", "then")
	then.Source = scans.TableRef{Container: "exports", Prefix: "first"}
	then.Range.Prefix, then.Filter = "customer-001", "Number ge 5"
	var of [2]place.Manifest
	for i, r := range []scans.Request{first, then} {
		w.succeed(r)
		_, of[i] = w.readExport(r.Action.Destination.Prefix)
	}
	m := of[1]
	if m.Table != "Source" || m.Range == nil || m.Range.Prefix != "customer-001" || m.Filter != "(Number ge 2) and (Number ge 5)" ||
		len(m.Select) != 1 || !m.StartedAt.Equal(of[0].StartedAt) || !m.FinishedAt.Equal(of[0].FinishedAt) {
		t.Errorf("the second export has %+v, the first has %+v", m, of[0])
	}
}

// TestReplacedSourceExport: a scan of an export does not read another export that later has the same place.
func TestReplacedSourceExport(t *testing.T) {
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
		w.putBlob("p", name, text)
	}
	w.restart() // the new process has not read the first export
	w.drain()
	if s := w.status(id); s.State != ledger.Failed || !strings.Contains(s.Error, "now contains another export") || strings.Count(s.Error, "read the source") != 1 {
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

// TestExportKeepsOtherBlobs: an export below another export's data files is not changed, and neither are other blobs.
func TestExportKeepsOtherBlobs(t *testing.T) {
	t.Parallel()
	w := withSource(t, 3, 40)
	id := w.start(exportRequest("Source", ""))
	w.putBlob("", "data/readme.txt", "x")
	elsewhere := newWorld(t, emulator.Options{})
	elsewhere.fill("Source", plainRows(3, 40))
	elsewhere.succeed(exportRequest("Source", "orders"))
	for name, text := range elsewhere.blobs("orders") { // somebody has copied the export here without the app
		w.putBlob("data/orders", name, text)
	}
	w.drain()
	w.checkCounts(id, ledger.Succeeded, 120, 120, 0)
	w.checkExport("data/orders", "Source")
	if _, ok := w.blobs("")["data/readme.txt"]; !ok {
		t.Error("the export's end has deleted another blob")
	}
}
