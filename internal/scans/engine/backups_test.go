package engine_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/schedule"
	"tablesweep/internal/storage"
)

// Each backup shows whether a verification has read it. The newest such backup is kept, whatever happens to later backups.
func TestScheduleProofs(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	for _, source := range []string{`"table":"Source"`, `"tables":"Source"`} {
		synctest.Test(t, func(t *testing.T) {
			w := withSource(t, 9, 3)
			w.startSchedules(strings.NewReplacer(`"request":{`, `"request":{"verify":true,`, `"table":"Source"`, source).Replace(keeping(`,"keep":{"last":1}`)))
			// night lets one night pass, and calls before between the export and its proof.
			night := func(before func(data *place.Blobs)) {
				w.onMessage = func(body []byte) {
					if id := w.schedule().Last.ID.Verification(); before != nil && strings.Contains(string(body), string(id)) {
						at := *w.status(w.schedule().Last.ID).Action.Destination
						if strings.Contains(source, "tables") {
							at.Prefix += "/Source"
						}
						before(w.objects(at.Prefix))
						before = nil
					}
				}
				w.passNight()
			}
			want := func(states ...schedule.ProofState) {
				t.Helper()
				var got []schedule.ProofState
				for _, b := range w.backups() {
					if got = append(got, b.Proof.State); b.Proof.ID != b.ID+"-v" || (b.Proof.Error == "") == (b.Proof.State == schedule.ProofFailed) || b.Outdated {
						t.Errorf("backup %+v has proof %+v", b, b.Proof)
					}
				}
				if s := w.schedule().Success; !slices.Equal(got, states) || s.Proof.State != states[0] {
					t.Errorf("%s: the proofs are %v, want %v; the newest success has %+v", source, got, states, s.Proof)
				}
			}
			night(nil)
			want(schedule.Proved)
			night(func(*place.Blobs) { w.remove("Source", w.rows("Source")[7].Key) })
			want(schedule.Differs)
			damage := func(objects *place.Blobs) {
				name, _ := w.dataOf(objects)
				w.must(objects.Delete(t.Context(), name))
			}
			for range 2 {
				night(damage)
				for range 5 {
					w.passMinute()
				}
				want(schedule.ProofFailed, schedule.Differs)
			}
			night(nil)
			w.passMinute()
			want(schedule.Proved)
			w.checkBackups("2000-01-05T0300")
			w.emulator.ResetCounts()
			w.must(w.engine.AdvanceSchedules(t.Context(), true))
			if n := w.emulator.Counts(); n != (emulator.Counts{Query: 1, QueryRows: 1}) {
				t.Errorf("when every backup is proved, advancing makes %+v, want one query", n)
			}
		})
	}
}

// A schedule that fires each minute keeps the right backups, although a success is recorded each time the schedule is advanced.
func TestScheduleFiresEachMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 3, 2)
		w.startSchedules(strings.Replace(keeping(`,"keep":{"last":2}`), "0 0 3", "0 * *", 1))
		for range 9 {
			w.passMinute()
		}
		if left := w.exportsLeft(); len(left) > 3 || len(w.backups()) != 2 { // the newest export is still running
			t.Errorf("after nine minutes, the exports %v are left, want at most three and two backups", left)
		}
		if s := w.schedule(); s.Skipped.Count > 0 || s.Last.State != ledger.Running {
			t.Errorf("got schedule %+v, want nothing skipped and the last scan running", s)
		}
		w.must(w.engine.AdvanceSchedules(t.Context(), true))
		w.drain()
		w.must(w.engine.AdvanceBeforeReading(t.Context()))
		if s := w.schedule(); s.Last.State != ledger.Succeeded {
			t.Errorf("a reader gets the last scan %+v, want it succeeded", s.Last)
		}
		w.emulator.ResetCounts()
		w.must(w.engine.AdvanceBeforeReading(t.Context()))
		if n := w.emulator.Counts(); n != (emulator.Counts{}) {
			t.Errorf("a second call for readers makes requests %+v, want none", n)
		}
	})
}

// A backup whose claim is lost is deleted like any other. A backup whose list of files is lost stays in the list of backups, with an error.
func TestBackupWithLostList(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ source, lost, want string }{
		{`"table":"Source"`, "export.json", ""},
		{`"table":"Source"`, "files.jsonl", "files.jsonl is missing"},
		{`"tables":"*"`, "tables-claim.json", ""},
		{`"tables":"*"`, "Source/export.json", ""},
		{`"tables":"*"`, "tables.json", "tables.json is missing"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := withSource(t, 9, 3)
			w.startSchedules(strings.Replace(keeping(`,"keep":{"last":1}`), `"table":"Source"`, tt.source, 1))
			w.passNight()
			place := w.backups()[0].Place.Prefix
			w.must(w.objects(place).Delete(t.Context(), tt.lost))
			was := len(w.blobs(place))
			w.passNight()
			b := w.backups()
			if gone := len(b) == 1 && len(w.blobs(place)) == 0; gone != (tt.want == "") {
				t.Errorf("%s is lost: got backups %+v and %d blobs in the deleted one", tt.lost, b, len(w.blobs(place)))
			}
			if tt.want != "" && (len(b) != 2 || !strings.Contains(b[1].Error, tt.want) || len(w.blobs(place)) != was) {
				t.Errorf("%s is lost: got backups %+v, and %d blobs of %d", tt.lost, b, len(w.blobs(place)), was)
			}
		})
	}
}

// A process does not delete a backup that another process changed before the first could mark it.
func TestChangedBackupIsNotDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 3, 2)
		w.startSchedules(keeping(`,"keep":{"last":1}`))
		w.passNight()
		w.sleepUntil(3, 0)
		w.passMinute()
		marks, deletions := 0, 0
		w.process.Next = transport(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Host, "blob") && r.Method == http.MethodDelete {
				deletions++
			}
			if r.Header.Get("If-Match") != "" && strings.Contains(r.URL.Path, "b|nightly|") && marks == 0 {
				marks++
				for _, row := range w.ledgerRows("scans", "b|nightly|") {
					w.must(w.account.Table("tablesweep").Write(t.Context(), storage.Op{Kind: storage.Merge, Row: storage.Row{Key: row.Key}}))
				}
			}
			return w.emulator.Transport().Do(r)
		})
		w.must(w.engine.AdvanceSchedules(t.Context(), true))
		if marks != 1 || deletions != 0 || len(w.exportsLeft()) != 2 {
			t.Errorf("%d marks and %d deletions, want one mark and no deletions", marks, deletions)
		}
		w.must(w.engine.AdvanceSchedules(t.Context(), true))
		w.checkBackups("2000-01-02T0300")
	})
}

// A call that only reads, such as a health check, deletes nothing. A deletion that has begun is completed, even if the schedule has been removed from the
// settings.
func TestDeletionOutlivesItsSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 3, 2)
		w.startSchedules(keeping(`,"keep":{"last":1}`))
		w.passNight()
		w.sleepUntil(3, 0)
		w.passMinute()
		for range 3 {
			w.must(w.engine.AdvanceSchedules(t.Context(), false))
		}
		w.checkBackups("2000-01-01T0300", "2000-01-02T0300")
		w.refuse(500, "InternalError", func(r *http.Request, _ string) bool {
			return r.Method == http.MethodDelete && strings.Contains(r.URL.Host, "blob")
		})
		if err := w.engine.AdvanceSchedules(t.Context(), true); err == nil || len(w.exportsLeft()) != 2 || w.backups()[1].Deleting == nil {
			t.Fatalf("a deletion that cannot continue: got error %v", err)
		}
		w.setSchedules("[]")
		w.must(w.engine.AdvanceSchedules(t.Context(), true))
		w.checkBackups("2000-01-02T0300")
		// In an app without the schedule, the last success does not lead to deletions.
		w.setSchedules(keeping(`,"keep":{"last":1}`))
		w.sleepUntil(3, 0)
		w.must(w.engine.AdvanceSchedules(t.Context(), true))
		w.drain()
		w.setSchedules("[]")
		w.passMinute()
		w.passMinute()
		w.setSchedules(keeping(`,"keep":{"last":1}`))
		w.passMinute()
		w.passMinute()
		w.checkBackups("2000-01-03T0300")
	})
}

// An instance may have older settings, or those of another app with the same state table. Such an instance does not prevent the start of a scan that it
// cannot open. If no instance can open the scan, the schedule shows the error until its next scan.
func TestScheduleWithOtherSettings(t *testing.T) {
	t.Parallel()
	for _, source := range []string{`"table":"Source"`, `"tables":"Source"`} {
		synctest.Test(t, func(t *testing.T) {
			w := withSource(t, 3, 2)
			schedules, err := schedule.ParseSchedules(strings.NewReplacer(`0 0 3 * *`, `0 0 3 1 *`, `"table":"Source"`, source, `"container"`, `"connection":"VAULT","container"`).Replace(keeping("")))
			w.must(err)
			newer := func(o *options) {
				o.Schedules, o.Accounts = schedules, map[string]*storage.Account{"AzureWebJobsStorage": o.Own, "VAULT": o.Own}
			}
			older, app := w.engine, w.newEngine(w.account, newer)
			month := func(within int, do func()) schedule.ScheduleStatus {
				now := time.Now().UTC()
				time.Sleep(time.Until(time.Date(now.Year(), now.Month()+1, 1, 3, 0, 0, 0, time.UTC)))
				for range within {
					w.must(app.AdvanceSchedules(t.Context(), true))
					_, _ = older.AdvanceSchedules(t.Context(), true), older.Maintain(t.Context()) // these calls return errors, because this instance cannot open the scan
					w.engine = older
					w.drain()
					do()
					time.Sleep(time.Minute)
				}
				return w.schedule()
			}
			w.must(app.AdvanceSchedules(t.Context(), true))
			if s := month(3, func() {
				w.engine = app
				w.must(app.Maintain(t.Context()))
				w.drain()
			}); s.Last == nil || s.Last.State != ledger.Succeeded {
				t.Errorf("%s: while an older instance runs, the last scan is %+v, want it succeeded", source, s.Last)
			}
			s := month(20, func() {})
			if s.Last.State != ledger.Failed || !strings.Contains(s.Last.Error, `"VAULT" is not among the app's connections`) {
				t.Errorf("%s: no instance has the connection, and the last scan is %+v, want it failed", source, s.Last)
			}
			time.Sleep(9 * 24 * time.Hour)
			for range 3 {
				w.must(older.Maintain(t.Context()), app.AdvanceSchedules(t.Context(), true))
			}
			if later := w.schedule(); *later.Last != *s.Last || len(w.ledgerRows("scans", "r|")) > 0 {
				t.Errorf("%s: a week later, the last scan is %+v, want it unchanged and no start request", source, later.Last)
			}
		})
	}
}
