package engine_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
)

// exportOfTables returns a world with the given number of tables and a table Wide of 40 rows. It also returns a started export of all tables and its request.
// A step reads 10 rows.
func exportOfTables(t *testing.T, tables int) (w *world, id ledger.ScanID, r scans.Request) {
	w = withTables(t, tables)
	w.fill("Wide", plainRows(40, 1))
	r = groupExport("p")
	r.Verify, r.SegmentSize, r.SegmentsPerInvocation = true, 10, 1
	return w, w.start(r), r
}

// beforeMessage calls do once, before the n-th message of a scan is handled. If n is 0, it calls do immediately.
func (w *world) beforeMessage(n int, scan ledger.ScanID, do func()) {
	messages := 0
	if n == 0 {
		do()
	}
	w.onMessage = func(body []byte) {
		if strings.Contains(string(body), `"scan":"`+string(scan)) {
			if messages++; messages == n {
				do()
			}
		}
	}
}

// dropTables deletes tables.
func (w *world) dropTables(tables ...string) {
	w.Helper()
	for _, table := range tables {
		w.must(w.account.Table(table).Delete(w.Context()))
	}
}

// checkLeftOut fails the test unless a group has succeeded without the tables in out, its note names them, and its proof has succeeded with all other tables.
func (w *world) checkLeftOut(id ledger.ScanID, tables int, out ...string) {
	w.Helper()
	s := w.runToEnd(id)
	m := ledger.Members{All: int64(tables), Succeeded: int64(tables - len(out)), LeftOut: int64(len(out))}
	note := ""
	if len(out) > 0 {
		note = "left out, because somebody has deleted them since the scan began: " + strings.Join(out, ", ")
	}
	if s.State != ledger.Succeeded || *s.Members != m || s.Note != note || s.Error != "" || s.Steps.Pending != 0 {
		w.Errorf("the group is %s with error %q, members %+v, note %q and %d pending steps, want members %+v and note %q", s.State, s.Error, s.Members, s.Note, s.Steps.Pending, m, note)
	}
	all, err := w.tablesAt("p")
	rows := int64(0)
	for _, one := range all.Tables {
		rows += one.Rows
	}
	if err != nil || len(all.Tables) != tables-len(out) || rows != s.Rows.Written || rows != s.Rows.Scanned {
		w.Errorf("the export has %d tables and %d rows, %v, want rows %+v", len(all.Tables), rows, err, s.Rows)
	}
	for name := range w.blobs("p") {
		if table, object, _ := strings.Cut(name, "/"); slices.Contains(out, table) && !strings.HasPrefix(object, place.DataPrefix) {
			w.Errorf("%s is left", name)
		}
	}
	for tries := 0; tries < 60; tries++ { // the proof may be about to start
		if _, err = w.observer.Status(w.Context(), id+"-v"); err == nil {
			break
		}
		time.Sleep(time.Minute)
		w.must(w.engine.Maintain(w.Context()))
		w.drain()
	}
	if v := w.runToEnd(id + "-v"); v.State != ledger.Succeeded || v.Members.Succeeded != m.Succeeded || v.Members.All != m.Succeeded {
		w.Errorf("the proof is %s with error %q and members %+v", v.State, v.Error, v.Members)
	}
}

// passDay lets a day pass, in which the app tidies up ended scans.
func (w *world) passDay() {
	w.Helper()
	for _, pause := range []time.Duration{time.Hour, 25 * time.Hour} {
		time.Sleep(pause)
		for range 5 {
			w.must(w.engine.Maintain(w.Context()))
		}
	}
}

// A group's export leaves out tables that are deleted before or while their scans read them, and the group's note names them. A retry still leaves them
// out.
func TestGroupLeavesOutDeletedTables(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	for _, tt := range []struct {
		name, table string
		member      ledger.ScanID // the end of its scan's id
		behind      int           // the number of messages of its scan before the table is deleted; 0 for before the scan begins
	}{
		{"before its scan begins", "Table09", "-00010", 0},
		{"one of the first", "Table00", "-00001", 0},
		{"when its scan has begun", "Wide", "-00011", 1},
		{"while it is read", "Wide", "-00011", 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, id, _ := exportOfTables(t, 10)
			member := id + tt.member
			w.beforeMessage(tt.behind, member, func() { w.dropTables(tt.table) })
			w.checkLeftOut(id, 11, tt.table)
			if s := w.status(member); s.State != ledger.Failed || !s.LeftOut || !strings.Contains(s.Error, "404 TableNotFound") {
				t.Errorf("%s: the member is %s with error %q, want failed and left out", tt.name, s.State, s.Error)
			}
			for _, err := range []error{w.engine.Retry(t.Context(), member), w.engine.RetryFailed(t.Context(), member)} {
				if problem.Of(err).Kind != problem.Conflict || !strings.Contains(err.Error(), "table is gone") {
					t.Errorf("%s: a retry of the member: got error %v", tt.name, err)
				}
			}
			list, err := w.list(10)
			if i := slices.IndexFunc(list, func(s status.Status) bool { return s.ID == id }); err != nil || i < 0 || list[i].Note == "" || list[i].Members.LeftOut != 1 {
				t.Errorf("%s: the list has %+v, %v, want the group with its note", tt.name, list, err)
			}
			if m := w.members(id, ledger.Failed); len(m) != 1 || m[0].ID != member || !m[0].LeftOut {
				t.Errorf("%s: the failed members are %+v, want only the one left out", tt.name, m)
			}
		})
	}
}

// A table whose deletion is in progress counts as gone.
func TestGroupLeavesOutTablesBeingDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, id, _ := exportOfTables(t, 3)
		w.must(w.emulator.SetFaults("seed=1; deletion=40s"))
		w.dropTables("Table01")
		w.checkLeftOut(id, 4, "Table01")
	})
	synctest.Test(t, func(t *testing.T) {
		w, id, _ := exportOfTables(t, 3)
		w.beforeMessage(3, id+"-00004", func() { // the table is being read
			w.refuse(409, "TableBeingDeleted", func(r *http.Request, _ string) bool { return strings.HasSuffix(r.URL.Path, "/Wide()") })
		})
		began := time.Now()
		if w.checkLeftOut(id, 4, "Wide"); w.status(id).FinishedAt.Sub(began) > time.Minute {
			t.Errorf("the group ended %v later, want at most a minute", w.status(id).FinishedAt.Sub(began))
		}
	})
}

// If a group has failed because of another table, its retry still leaves out the deleted tables. If no table remains, the group has failed.
func TestRetryLeavesOutDeletedTables(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, id, _ := exportOfTables(t, 3)
		w.dropTables("Table01")
		w.refuse(403, "AuthorizationFailure", func(r *http.Request, _ string) bool { return strings.Contains(r.URL.Path, "Table02") })
		if s := w.runToEnd(id); s.State != ledger.Failed || !strings.HasPrefix(s.Error, "1 of 4 tables failed: Table02. ") || !strings.Contains(s.Note, "Table01") || s.Members.LeftOut != 1 {
			t.Errorf("the group is %s with error %q, members %+v and note %q", s.State, s.Error, s.Members, s.Note)
		}
		w.process.Next = w.emulator.Transport()
		w.fill("Table01", plainRows(1, 1)) // a new table with the same name
		time.Sleep(2 * time.Second)
		w.must(w.engine.Retry(t.Context(), id))
		w.checkLeftOut(id, 4, "Table01")
	})
	synctest.Test(t, func(t *testing.T) {
		w, id, _ := exportOfTables(t, 1)
		w.dropTables("Table00", "Wide")
		for range 2 {
			if s := w.runToEnd(id); s.State != ledger.Failed || s.Error != "the group has no table left" || s.Members.LeftOut != 2 {
				t.Errorf("the group is %s with error %q and members %+v", s.State, s.Error, s.Members)
			}
			time.Sleep(2 * time.Second)
			w.must(w.engine.Retry(t.Context(), id))
		}
	})
}

// TestCrashAfterTableIsDeleted deletes a table while it is read. From then on, the process dies at each request in turn. The group still ends, without the
// table.
func TestCrashAfterTableIsDeleted(t *testing.T) {
	crashPoints(t, testsize.Slow(61, 19, 9), func(t *testing.T, n int, applied bool) bool {
		n += 5 // bugs_test.go plants a bug that withdraws a place too late, which fails at the sixth request
		w, id, _ := exportOfTables(t, 2)
		first := w.process
		w.beforeMessage(2, id+"-00003", func() {
			w.dropTables("Wide")
			first = w.process
			w.process.DieWith(n, applied)
		})
		w.drain()
		survived := !first.Dead()
		w.process.DieWith(0, false)
		if first.Dead() {
			w.restart()
		}
		w.checkLeftOut(id, 3, "Wide")
		w.passDay()
		for name := range w.blobs("p") {
			if strings.HasPrefix(name, "Wide/") {
				t.Errorf("%s is left", name)
			}
		}
		return survived && n > 20
	})
}

// While one process is about to claim a table's place, another process finds that the table is gone, or begins to read it. The group ends without the
// table, and the late claim is removed.
func TestLateStartOfLeftOutTable(t *testing.T) {
	t.Parallel()
	for _, begun := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, id, _ := exportOfTables(t, 2)
			member := id + "-00003"
			if begun {
				w.beforeMessage(2, member, func() { w.dropTables("Wide") })
			}
			late := false
			w.process.Next = transport(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/p/Wide/export.json") && !late {
					late = true
					if !begun {
						w.dropTables("Wide")
					}
					was := w.engine
					w.engine = w.newEngine(w.account)
					_, err := w.engine.Run(t.Context(), fmt.Appendf(nil, `{"v":1,"start":%q}`, member), 1)
					w.must(err)
					w.drain()
					w.checkLeftOut(id, 3, "Wide")
					w.engine = was
					time.Sleep(2 * time.Second) // by now, no process has a cached state that says that the group is running
				}
				return w.emulator.Transport().Do(r)
			})
			w.drain()
			for range 3 {
				time.Sleep(time.Minute)
				w.must(w.engine.Maintain(t.Context()))
				w.drain()
			}
			if w.checkLeftOut(id, 3, "Wide"); !late {
				t.Error("no process claimed the place late")
			}
		})
	}
}

// A late step writes a blob after its table was left out, or after its export was deleted. The blob is deleted a day later, or with the rest of the
// backup.
func TestLateBlobsAreDeleted(t *testing.T) {
	t.Parallel()
	const late = "data/0123456789abcdefghijklmn-0123456789abcdef.jsonl.zst"
	for _, tt := range []struct {
		name   string
		remove bool // the backup is deleted before a day has passed
	}{{"a day later", false}, {"with the rest", true}} {
		synctest.Test(t, func(t *testing.T) {
			w, id, _ := exportOfTables(t, 2)
			w.beforeMessage(2, id+"-00003", func() { w.dropTables("Wide") })
			w.checkLeftOut(id, 3, "Wide")
			w.putBlob("p", "Wide/"+late, "late")
			w.putBlob("p", "Table00/"+late, "late")
			w.putBlob("p", "Table01/data/notes.txt", "of another program")
			remove := func() {
				left := 1000
				var r place.Removal
				for !r.Done {
					var err error
					r, err = place.Remove(t.Context(), w.objects("p"), place.ExportID(id), true, r, &left)
					w.must(err)
				}
			}
			if tt.remove {
				remove()
				if left := w.blobs("p"); len(left) != 1 {
					t.Errorf("%s: the blobs %v are left, want one", tt.name, left)
				}
				w.putBlob("p", "Table00/"+late, "later")
				w.putBlob("p", "Wide/"+late, "later")
			}
			w.passDay()
			for name := range w.blobs("p") {
				if strings.HasSuffix(name, late) {
					t.Errorf("%s: %s is left", tt.name, name)
				}
			}
			if !tt.remove {
				_, err := w.tablesAt("p")
				w.must(err)
				remove()
			}
			if left := w.blobs("p"); len(left) != 1 {
				t.Errorf("%s: the blobs %v are left, want one", tt.name, left)
			}
		})
	}
}
