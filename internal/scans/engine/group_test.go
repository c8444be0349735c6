package engine_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
)

// withTables returns a world with the given number of small tables: Table00, Table01 and so on.
func withTables(t *testing.T, tables int) *world {
	w := newWorld(t, emulator.Options{})
	for n := range tables {
		w.fill(fmt.Sprintf("Table%02d", n), plainRows(1+n%3, 2))
	}
	return w
}

// groupExport returns a request to export all tables to a prefix.
func groupExport(prefix string) scans.Request {
	r := exportRequest("", prefix)
	r.Source.Tables = "*"
	return r
}

// tablesAt reads tables.json.
func (w *world) tablesAt(prefix string) (t place.Tables, err error) {
	return place.OpenTables(w.Context(), w.objects(prefix))
}

// runToEnd runs Maintain and delivers messages until a scan has ended.
func (w *world) runToEnd(id ledger.ScanID) status.Status {
	w.Helper()
	for range 300 {
		w.drain()
		if s := w.status(id); s.State != ledger.Running {
			return s
		}
		time.Sleep(time.Minute)
		w.must(w.engine.Maintain(w.Context()))
	}
	w.Fatalf("%+v", w.status(id))
	return status.Status{}
}

func (w *world) members(id ledger.ScanID, state ledger.State) (all []status.Status) {
	w.Helper()
	for cursor := ""; ; {
		page, err := w.observer.Members(w.Context(), id, 7, cursor, state)
		w.must(err)
		all = append(all, page.Scans...)
		if cursor = page.Cursor; cursor == "" {
			return all
		}
	}
}

// A group exports each table of the account, at most eight at the same time, and then writes the manifest of all tables. The
// group is one row of the list. An import restores all tables in another account.
func TestGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const tables = 20
		w := withTables(t, tables)
		w.fill("AzureWebJobsHostLogs2026", plainRows(1, 1)) // a table of the Functions host
		id := w.start(groupExport("nightly"))
		most := int64(0)
		w.onMessage = func([]byte) { most = max(most, w.status(id).Members.Running) }
		w.drain() // this does not run Maintain
		s := w.status(id)
		rows := 0
		for n := range tables {
			w.checkExport(fmt.Sprintf("nightly/Table%02d", n), fmt.Sprintf("Table%02d", n))
			rows += len(w.rows(fmt.Sprintf("Table%02d", n)))
		}
		w.checkCounts(id, ledger.Succeeded, rows, rows, 0)
		if m := *s.Members; m != (ledger.Members{All: tables, Succeeded: tables}) || most != 8 {
			t.Errorf("members %+v, of which at most %d ran at the same time; want 8", m, most)
		}
		all, err := w.tablesAt("nightly")
		if err != nil || len(all.Tables) != tables || all.Tables[7].Name != "Table07" {
			t.Errorf("tables.json has %+v, %v", all, err)
		}
		list, err := w.list(10)
		if err != nil || len(list) != 1 || list[0].ID != id || *list[0].Members != *s.Members || list[0].Rows != s.Rows {
			t.Errorf("the list has %+v, %v, want only the group", list, err)
		}
		w.must(w.emulator.SetFaults("seed=1; empty-page p=0.9"))
		m := w.members(id, "")
		if w.must(w.emulator.SetFaults("")); len(m) != tables || m[19].ID != id+"-00020" || m[19].Source.Table != "Table19" {
			t.Errorf("got members %+v, want 20 in order", m)
		}
		w.must(w.engine.Cancel(t.Context(), w.start(scans.Request{Source: scans.TableRef{Table: "Table00"}, Action: scans.Action{Type: scans.Count}})))
		ofAll, err := w.observer.List(t.Context(), status.ListQuery{Top: 1})
		w.must(err)
		ofMembers, err := w.observer.Members(t.Context(), id, 1, "", "")
		w.must(err)
		if _, err := w.observer.Members(t.Context(), id, 1, ofAll.Cursor, ""); ofAll.Cursor == "" || problem.Of(err).Field != "cursor" {
			t.Errorf("members with cursor %q of the list of scans: got error %v", ofAll.Cursor, err)
		}
		if _, err := w.observer.List(t.Context(), status.ListQuery{Cursor: ofMembers.Cursor}); ofMembers.Cursor == "" || problem.Of(err).Field != "cursor" {
			t.Errorf("the list with cursor %q of members: got error %v", ofMembers.Cursor, err)
		}
		if _, err := w.engine.Start(t.Context(), groupExport("nightly")); problem.Of(err).Kind != problem.Conflict {
			t.Errorf("a second export to the same place: got error %v", err)
		}

		_, other := emulatortest.NewAccount(t, emulator.Options{})
		e := w.newEngine(w.account, func(o *options) { o.Accounts["OTHER"] = other })
		w.engine = e
		back := scans.Request{
			Source: scans.TableRef{Container: "exports", Prefix: "nightly", Tables: "*"},
			Action: scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Connection: "OTHER"}, Map: `.PartitionKey |= "x" + .`},
		}
		back.Source.Prefix = "nightly/"
		id, err = e.Start(t.Context(), back)
		w.must(err)
		w.drain()
		w.checkCounts(id, ledger.Succeeded, rows, rows, 0)
		for n := range tables {
			name := fmt.Sprintf("Table%02d", n)
			want := w.rows(name)
			for i := range want {
				want[i].Key.Partition = "x" + want[i].Key.Partition
			}
			if got := emulatortest.Rows(t, other.Table(name)); !slices.EqualFunc(got, want, storage.Equal) {
				t.Errorf("table %s was restored with %d rows, or they differ", name, len(got))
			}
		}
		again := back
		if _, err := e.Start(t.Context(), again); problem.Of(err).Kind != problem.Conflict || !strings.Contains(err.Error(), "20 of 20 destination tables (Table00, Table01,") || !strings.Contains(err.Error(), "Table09 and 10 more)") {
			t.Errorf("a copy that would write over rows: got error %v", err)
		}
		for _, named := range []func(*scans.Action){func(a *scans.Action) { a.Overwrite = true }, func(a *scans.Action) { a.Mode = action.Skip }} {
			again.Action = back.Action
			named(&again.Action)
			id, err := e.Start(t.Context(), again)
			w.must(err)
			w.must(e.Cancel(t.Context(), id))
		}
		w.putBlob("nightly", "New/export.json", "{}")
		if _, err := e.Start(t.Context(), back); problem.Of(err).Kind != problem.Invalid {
			t.Errorf("an import of an incomplete export: got error %v", err)
		}
	})
}

// Two exports whose names differ only in case would become one table, so no copy writes both into it.
func TestTablesThatDifferInCase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 2, 1)
		_, other := emulatortest.NewAccount(t, emulator.Options{})
		w.engine = w.newEngine(w.account, func(o *options) { o.Accounts["OTHER"] = other })
		for _, name := range []string{"Orders", "orders"} {
			w.succeed(exportRequest("Source", "p/"+name))
		}
		_, err := w.engine.Start(t.Context(), scans.Request{
			Source: scans.TableRef{Container: "exports", Prefix: "p", Tables: "o*"},
			Action: scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Connection: "OTHER"}},
		})
		if problem.Of(err).Kind != problem.Invalid || !strings.Contains(err.Error(), "source.tables: Orders and orders would become the same table") {
			t.Error(err)
		}
	})
}

// A copy of many tables with overwrite can be verified, although the verification has no use for overwrite.
func TestOverwritingGroupIsVerified(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withTables(t, 3)
		_, other := emulatortest.NewAccount(t, emulator.Options{})
		w.engine = w.newEngine(w.account, func(o *options) { o.Accounts["OTHER"] = other })
		w.runToEnd(w.start(groupExport("p")))
		id := w.start(scans.Request{
			Source: scans.TableRef{Container: "exports", Prefix: "p", Tables: "*"},
			Action: scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Connection: "OTHER"}, Overwrite: true},
			Verify: true,
		})
		if s := w.runToEnd(id); s.State != ledger.Succeeded {
			t.Fatalf("the copy is %+v, want it succeeded", s)
		}
		if s := w.runToEnd(id + "-v"); s.State != ledger.Succeeded || s.Members.Succeeded != 3 {
			t.Errorf("the verification is %+v, want it succeeded", s)
		}
	})
}

// If a table fails, the other tables continue, and the error names the failed table. A retry runs the failed tables, and then
// the export is complete.
func TestGroupFails(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withTables(t, 12)
		id := w.start(groupExport("p"))
		w.refuse(403, "AuthorizationFailure", func(r *http.Request, _ string) bool { return strings.Contains(r.URL.Path, "Table11") })
		w.must(w.emulator.SetFaults("seed=1; busy p=1 on=query table=Table03"))
		w.drain() // the messages of Table03 go to the poison queue
		if s := w.status(id); s.State != ledger.Running || s.Members.Succeeded != 10 || s.Members.Failed != 1 {
			t.Errorf("got members %+v, want 10 succeeded and 1 failed", s.Members)
		}
		s := w.runToEnd(id) // this takes four hours
		if !strings.HasPrefix(s.Error, "2 of 12 tables failed: Table03, Table11. Table03: ") || !strings.Contains(s.Error, "; Table11: source.connection: the Table service refuses to read it") || s.State != ledger.Failed {
			t.Errorf("the group is %s with error %q", s.State, s.Error)
		}
		if m := w.members(id, ledger.Failed); len(m) != 2 || m[1].ID != id+"-00012" || w.status(m[1].ID).Error == "" {
			t.Errorf("got failed members %+v, want two", m)
		}
		for _, try := range []error{w.engine.Retry(t.Context(), id+"-00012"), w.engine.Cancel(t.Context(), id+"-00012")} {
			if try == nil || !strings.Contains(try.Error(), "was not started; retry its group") {
				t.Errorf("a retry or cancellation of a refused member: got error %v", try)
			}
		}
		if _, err := w.tablesAt("p"); err == nil {
			t.Error("a failed group has a manifest")
		}
		w.process.Next = w.emulator.Transport()
		w.must(w.emulator.SetFaults(""))
		time.Sleep(time.Minute)
		w.must(w.engine.Retry(t.Context(), id))
		w.restart() // the new process does not remember that the group had ended
		w.drain()
		if s := w.status(id); s.State != ledger.Succeeded || s.Members.Succeeded != 12 {
			t.Errorf("the retried group is %s with members %+v and error %q", s.State, s.Members, s.Error)
		}
		if _, err := w.tablesAt("p"); err != nil {
			t.Error(err)
		}
		// Somebody deletes one table's export while others are made. No retry can repair this.
		id = w.start(groupExport("p2"))
		w.onMessage = func([]byte) { w.must(w.objects("p2").Delete(t.Context(), "Table00/manifest.json")) }
		w.drain()
		if s := w.status(id); s.State != ledger.Failed || !strings.Contains(s.Error, "Table00/manifest.json") || !strings.HasSuffix(s.Error, "; start a new scan with another prefix") {
			t.Errorf("without a table's manifest, the group is %s with error %q", s.State, s.Error)
		}
	})
}

// A canceled group begins no more members, and its members are canceled, whichever process dies. A retry runs the remaining
// members.
func TestGroupCanceled(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	for n := 0; n < 12; n += testsize.Of(4, 1) {
		synctest.Test(t, func(t *testing.T) {
			w := withTables(t, 10)
			id := w.start(groupExport("p"))
			w.deliver()
			w.process.DieWith(n, true)
			if err := w.engine.Cancel(t.Context(), id); err != nil {
				w.restart()
				w.must(w.engine.Cancel(t.Context(), id))
			}
			time.Sleep(2 * time.Second)
			puts := 0
			w.process.Next = transport(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.Path, "/exports/") {
					puts++
				}
				return w.emulator.Transport().Do(r)
			})
			w.drain()
			time.Sleep(time.Minute)
			w.must(w.engine.Maintain(t.Context()))
			if s := w.status(id); s.State != ledger.Canceled || s.Members.Running != 0 || puts != 0 {
				t.Errorf("the canceled group is %s with members %+v, and sent %d requests to the data", s.State, s.Members, puts)
			}
			if err := w.engine.Retry(t.Context(), id+"-00001"); problem.Of(err).Kind != problem.Conflict {
				t.Errorf("a retry of a member of an ended group: got error %v", err)
			}
			w.must(w.engine.Retry(t.Context(), id))
			w.restart()
			if s := w.runToEnd(id); s.State != ledger.Succeeded {
				t.Errorf("the retried group is %s with members %+v and error %q", s.State, s.Members, s.Error)
			}
		})
	}
}

// A group waits for a member that was canceled and then retried by itself, although the group has recorded the member's end.
func TestGroupWaitsForRetriedMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withTables(t, 3)
		id := w.start(groupExport("p"))
		w.deliver() // this starts the scans
		first := id + "-00001"
		w.must(w.engine.Cancel(t.Context(), first))
		time.Sleep(2 * time.Second)
		w.must(w.engine.Retry(t.Context(), first))
		for function := range scans.Queues {
			q, messages := w.takeMessages(function, 32)
			for _, m := range messages {
				if body := w.bodyOf(m); !strings.Contains(string(body), string(first)) {
					_, err := w.engine.Run(t.Context(), body, 1)
					w.must(err, q.Delete(t.Context(), m))
				}
			}
		}
		if s := w.status(id); s.State != ledger.Running || s.Members.Succeeded != 2 || s.Members.Running != 1 {
			t.Errorf("while a member runs, the group is %s with members %+v and error %q", s.State, s.Members, s.Error)
		}
		time.Sleep(lease + time.Second)
		if s := w.runToEnd(id); s.State != ledger.Succeeded || s.Members.Succeeded != 3 {
			t.Errorf("the group is %s with members %+v and error %q", s.State, s.Members, s.Error)
		}
	})
}

// When a group's retention is over, its members are removed with it.
func TestRetentionRemovesGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withTables(t, 30)
		w.start(groupExport("p"))
		w.drain()
		time.Sleep(200 * 24 * time.Hour)
		for range 20 {
			w.must(w.engine.Maintain(t.Context()))
		}
		left := slices.DeleteFunc(w.rows("tablesweep"), func(e storage.Entity) bool { return e.Key.Partition == "hints" || e.Key.Partition == "maintain" })
		if len(left) > 0 {
			t.Errorf("these rows are left: %v", left)
		}
	})
}

func TestGroupRequests(t *testing.T) {
	t.Parallel()
	w := withTables(t, 1)
	for _, tt := range []struct{ body, want string }{
		{`{"source":{"table":"A","tables":"*"},"action":{"type":"count"}}`, "has both a table and a pattern"},
		{`{"source":{"tables":"["},"action":{"type":"count"}}`, "is not a pattern"},
		{`{"source":{"tables":"*"},"action":{"type":"delete"}}`, "is not possible for delete"},
		{`{"source":{"tables":"*"},"action":{"type":"copy","destination":{"table":"A"}}}`, "leave it out"},
		{`{"source":{"tables":"*"},"action":{"type":"copy","destination":{}}}`, "is the account of the source"},
		{`{"source":{"container":"none","tables":"*"},"action":{"type":"copy","destination":{}}}`, "action.destination.connection: is missing: many tables are copied only to a connection"},
		{`{"source":{"table":"A"},"action":{"type":"copy","overwrite":true,"destination":{"table":"BBB"}}}`, "action.overwrite: is only for a copy of many tables"},
		{`{"source":{"tables":"*"},"action":{"type":"count","overwrite":true}}`, "action.overwrite: is only for a copy of many tables"},
		{`{"source":{"table":"A"},"action":{"type":"copy","destination":{"tables":"*"}}}`, "is only for a source"},
		{`{"source":{"tables":"none*"},"action":{"type":"count"}}`, "no table of the source's account matches \"none*\""},
		{`{"source":{"tables":"tablesweep"},"action":{"type":"count"}}`, "no table of the source's account matches"},
		{`{"source":{"container":"none","tables":"*"},"action":{"type":"count"}}`, "is not a complete export of many tables"},
		{`{"source":{"tables":"table*"},"action":{"type":"count"}}`, ""},
	} {
		r, err := scans.ParseRequest([]byte(tt.body))
		if err == nil {
			_, err = w.engine.Start(t.Context(), r)
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("request %s: got error %v", tt.body, err)
		}
	}
	if body, err := json.Marshal(groupExport("p")); err != nil || !strings.Contains(string(body), `"tables":"*"`) {
		t.Errorf("request %s: got error %v", body, err)
	}
}
