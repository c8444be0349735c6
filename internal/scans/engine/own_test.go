package engine_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// reserveForApp adds a table and a container to those that the app uses itself.
func (w *world) reserveForApp(table, container string) {
	w.Helper()
	a := emulatortest.Open(w, w.emulator, w.process)
	w.engine = w.newEngine(a, func(o *options) {
		o.Accounts["OTHER"] = emulatortest.Open(w, emulatortest.New(w, emulator.Options{Account: "other"}), nil)
		o.Kept, o.Packages = []*storage.Table{a.Table(table)}, scans.Container{Account: a, Name: container}
	})
}

// TestScansChangeNoAppTables: no scan changes tables, queues or containers of the app or its host. A scan may read them. In another account, a scan may change
// objects with the same names, except tables of a Functions host.
func TestScansChangeNoAppTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	w.reserveForApp("People", "packages")
	w.fill("Source", plainRows(2, 2))
	type refused struct{ field, name, reason string }
	for _, tt := range []refused{
		{"table", "TableSweep", "keeps this app's scans"},
		{"table", "PEOPLE", "this app's catalogs or event log"},
		{"table", "AzureWebJobsHostLogs202611", "the Functions host"},
		{"table", "azureWebJobsHostLogsCommon", "the Functions host"},
		{"table", "AzureFunctionsDiagnosticEvents202611", "the Functions host"},
		{"table", "azurewebjobshosts", "the Functions host"},
		{"table", "AzureFunctionsScaleMetrics202611", "the Functions host"},
		{"queue", scans.Queues[scans.CopyRows], "the app's own queue"},
		{"queue", scans.Queues[scans.CopyRows] + "-poison", "gave up"},
		{"queue", "work-poison", "gave up"},
		{"container", "azure-webjobs-hosts", "the Functions host"},
		{"container", "azure-webjobs-secrets", "the Functions host"},
		{"container", "packages", "deployed from"},
	} {
		for _, connection := range []string{"", "OTHER"} {
			requests := map[string]scans.Request{}
			switch tt.field {
			case "table":
				ref := &scans.TableRef{Table: tt.name, Connection: connection}
				requests["action.destination.table"] = scans.Request{Source: scans.TableRef{Table: "Source"}, Action: scans.Action{Type: scans.Copy, Destination: ref}}
				requests["source.table"] = scans.Request{Source: *ref, Action: scans.Action{Type: scans.Delete}}
				if connection == "" {
					w.mayRead(tt.name)
				}
			case "queue":
				requests["action.queue.name"] = request(scans.Action{Type: scans.Enqueue, Queue: &scans.QueueRef{Name: tt.name, Connection: connection}})
			case "container":
				requests["action.destination.container"] = request(scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Container: tt.name, Connection: connection}})
			}
			for field, r := range requests {
				_, startErr := w.engine.Start(t.Context(), r)
				_, estimateErr := w.engine.Estimate(t.Context(), r)
				for _, err := range []error{startErr, estimateErr} {
					ours := err != nil && strings.Contains(err.Error(), tt.reason)
					if want := connection == "" || tt.reason == "gave up" || tt.field == "table" && tt.reason == "the Functions host"; ours != want || ours && problem.Of(err).Field != field {
						t.Errorf("%s %s of connection %q: got error %v, want a refusal: %v", field, tt.name, connection, err, want)
					}
				}
			}
		}
	}
}

// TestScansChangeNoOtherLedger: no scan writes to a table in which another app records its scans, whatever its name is.
func TestScansChangeNoOtherLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	w.fill("Source", plainRows(2, 2))
	other := emulatortest.Open(w, emulatortest.New(w, emulator.Options{Account: "another"}), nil)
	w.engine = w.newEngine(w.account, func(o *options) { o.Accounts["OTHER"] = other })
	there := map[string]*ledger.Ledger{}
	for _, name := range []string{"listed", "maintained"} {
		w.must(other.Table(name).Create(t.Context()))
		there[name] = ledger.New(other.Table(name))
	}
	w.must(there["maintained"].WriteMaintained(t.Context(), 0, nil))
	_, err := there["listed"].AddStartRequest(t.Context(), ledger.StartRequest{ID: "1"})
	w.must(err)
	for name := range there {
		ref := &scans.TableRef{Table: name, Connection: "OTHER"}
		for _, a := range []scans.Action{{Type: scans.Copy, Destination: ref}, {Type: scans.Keys, Destination: ref}} {
			r := request(a)
			_, startErr := w.engine.Start(t.Context(), r)
			_, estimateErr := w.engine.Estimate(t.Context(), r)
			for _, err := range []error{startErr, estimateErr} {
				if err == nil || problem.Of(err).Field != "action.destination.table" || !strings.Contains(err.Error(), "an app keeps its scans") {
					t.Errorf("%s to %s: got error %v, want a refusal", a.Type, name, err)
				}
			}
		}
	}
}

// TestRestoreLeavesOutAppTables: a restore of many tables leaves out the app's own tables, names them, and copies the others.
func TestRestoreLeavesOutAppTables(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withTables(t, 2)
		w.fill("People", plainRows(2, 2))
		w.runToEnd(w.start(groupExport("all")))
		w.reserveForApp("People", "")
		before := w.rows("People")
		for _, row := range w.rows("Table00") {
			w.remove("Table00", row.Key)
		}
		id, err := w.engine.Start(t.Context(), scans.Request{
			Source: scans.TableRef{Container: "exports", Prefix: "all", Tables: "*"},
			Action: scans.Action{Type: scans.Copy, Overwrite: true, Destination: &scans.TableRef{Connection: storage.HostConnection}},
		})
		w.must(err)
		s := w.runToEnd(id)
		if s.State != ledger.Succeeded || s.Note != "left out, because this app or its host uses them for itself: People" || *s.Members != (ledger.Members{All: 3, Succeeded: 2, LeftOut: 1}) {
			t.Errorf("the restore is %s with error %q, note %q and members %+v", s.State, s.Error, s.Note, s.Members)
		}
		if len(w.rows("Table00")) != 2 || !slices.EqualFunc(w.rows("People"), before, storage.Equal) {
			t.Error("rows were not restored, or the app's own rows have changed")
		}
	})
}

// mayRead fails the test unless a table of the app can be counted and exported.
func (w *world) mayRead(table string) {
	w.Helper()
	w.must(w.account.Table(table).Create(w.Context()))
	for _, a := range []scans.Action{{Type: scans.Count}, {Type: scans.Copy, Destination: &scans.TableRef{Container: "exports", Prefix: table}}} {
		if _, err := w.engine.Start(w.Context(), scans.Request{Source: scans.TableRef{Table: table}, Action: a}); err != nil {
			w.Errorf("%s of %s: got error %v", a.Type, table, err)
		}
	}
}

// TestDestinationBecomesACatalogTable: the settings make a scan's destination a catalog's table, while the scan runs or after its end. Then neither the
// scan's steps nor a retry write to it.
func TestDestinationBecomesACatalogTable(t *testing.T) {
	t.Parallel()
	t.Run("running", func(t *testing.T) {
		w := withSource(t, 3, 2)
		id := w.start(copyRequest("Source", "Target"))
		w.reserveForApp("Target", "")
		w.drain()
		s := w.status(id)
		if s.State != ledger.Failed || !strings.Contains(s.Error, "catalogs") || len(w.rows("Target")) != 0 {
			t.Errorf("got status %+v and %d rows, want it failed without rows", s, len(w.rows("Target")))
		}
		if err := w.engine.Retry(t.Context(), id); err == nil || problem.Of(err).Field != "action.destination.table" {
			t.Errorf("a retry: got error %v", err)
		}
	})
	t.Run("failed rows", func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		id, taken := w.failedCopy(6, 5)
		w.remove("Target", taken...)
		before := len(w.rows("Target"))
		w.reserveForApp("Target", "")
		if err := w.engine.RetryFailed(t.Context(), id); err == nil || problem.Of(err).Field != "action.destination.table" {
			t.Errorf("a retry: got error %v", err)
		}
		proof.Must(t, w.observer.RetryFailed(t.Context(), id)) // an instance with the earlier settings accepts the retry
		w.drain()
		if s := w.status(id); s.State != ledger.Failed || len(w.rows("Target")) != before {
			t.Errorf("got status %+v and %d rows, want it failed with %d rows", s, len(w.rows("Target")), before)
		}
	})
	t.Run("sealing", func(t *testing.T) {
		w := withSource(t, 1, 1)
		id := w.start(exportRequest("Source", "p"))
		w.reserveForApp("Nothing", "exports")
		w.drain()
		if s := w.status(id); s.State != ledger.Failed || !strings.Contains(s.Error, "deployed from") || len(w.blobs("p")) != 1 {
			t.Errorf("got status %+v and blobs %v, want it failed with only the claim", s, w.blobs("p"))
		}
	})
}
