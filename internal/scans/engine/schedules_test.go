package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/calendar"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/schedule"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/task"
)

// nightly is a schedule that exports at three o'clock each night.
const nightly = `[{"name":"nightly","cron":"0 0 3 * * *","request":{"source":{"table":"Source"},"action":{"type":"copy","destination":{"container":"exports","prefix":"nightly/{date}"}}}%s}]`

// keeping returns nightly with more JSON members.
func keeping(members string) string { return fmt.Sprintf(nightly, members) }

// startSchedules gives the app schedules, and advances them for the first time.
func (w *world) startSchedules(text string) {
	w.Helper()
	w.setSchedules(text)
	w.must(w.engine.AdvanceSchedules(w.Context(), true))
}

// setSchedules gives the app schedules.
func (w *world) setSchedules(text string) {
	w.Helper()
	schedules, err := schedule.ParseSchedules(text)
	w.must(err)
	w.options = []func(*options){func(o *options) { o.Schedules = schedules }}
	w.observer = w.newEngine(w.account)
	w.restart()
	w.must(w.engine.CheckSchedules())
}

// sleepUntil lets time pass until the given time of day.
func (w *world) sleepUntil(hour, minute int) {
	now := time.Now().UTC()
	at := time.Date(now.Year(), now.Month(), now.Day(), hour, minute, 0, 0, time.UTC)
	if !at.After(now) {
		at = at.AddDate(0, 0, 1)
	}
	time.Sleep(time.Until(at))
}

// passMinute does what the app does in a minute. If the process dies, it continues with a new one.
func (w *world) passMinute() {
	w.Helper()
	for _, err := range []error{w.engine.AdvanceSchedules(w.Context(), true), w.engine.Maintain(w.Context())} {
		if err != nil && !w.process.Dead() {
			w.Error(err)
		}
	}
	if w.process.Dead() {
		w.restart()
	}
	w.drain()
	time.Sleep(time.Minute)
}

// passNight lets time pass until three o'clock, and lets the app do the due work.
func (w *world) passNight() {
	w.Helper()
	w.sleepUntil(3, 0)
	for range 4 { // the scan starts, the scan ends, backups are marked, backups are deleted
		w.passMinute()
	}
}

func (w *world) schedule() schedule.ScheduleStatus {
	w.Helper()
	l, err := w.observer.Schedules(w.Context())
	w.must(err)
	if len(l.Schedules) != 1 {
		w.Fatalf("%+v", l)
	}
	return l.Schedules[0]
}

func (w *world) backups() []schedule.BackupStatus {
	w.Helper()
	l, err := w.observer.Backups(w.Context(), "nightly", 1000, "")
	w.must(err)
	return l.Backups
}

// exportsLeft returns the occurrences whose exports have objects, in order.
func (w *world) exportsLeft() []string {
	w.Helper()
	left := map[string]bool{}
	for name := range w.blobs("nightly") {
		occurrence, _, _ := strings.Cut(name, "/")
		left[occurrence] = true
	}
	return slices.Sorted(maps.Keys(left))
}

// checkBackups fails the test unless exactly the given backups remain, and each is complete.
func (w *world) checkBackups(want ...string) {
	w.Helper()
	var listed []string
	for _, b := range w.backups() {
		listed = append(listed, b.Occurrence.Format("2006-01-02T1504"))
		prefix := b.Place.Prefix
		if b.Tables > 0 {
			if _, err := place.OpenTables(w.Context(), w.objects(prefix)); err != nil {
				w.Error(err)
			}
			prefix += "/Source"
		}
		w.checkExport(prefix, "Source")
	}
	slices.Reverse(listed)
	if left := w.exportsLeft(); !slices.Equal(listed, want) || !slices.Equal(left, want) {
		w.Errorf("the ledger has backups %v, and the container has %v, want %v", listed, left, want)
	}
}

// A schedule exports once each night, and deletes backups that are no longer kept. Its status is correct, and a minute without work costs one request.
func TestSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 5, 3)
		w.startSchedules(keeping(`,"keep":{"last":2}`))
		w.must(w.objects("").Make(t.Context()))
		w.putBlob("nightly", "1999-12-31T0300/export.json", "of another program")
		w.putBlob("nightly", "notes/readme.txt", "of another program")
		if s := w.schedule(); s.Last != nil || s.Next.Hour() != 3 || s.Overdue {
			t.Errorf("at first, the schedule is %+v", s)
		}
		for range 4 {
			w.passNight()
		}
		w.emulator.ResetCounts()
		w.passNight()
		if n := w.emulator.Counts(); n.TableTransactions() != 61 || n.QueuePut+n.QueueDelete != 4 || n.BlobPut != 4 {
			t.Errorf("a night without changes makes %d table transactions and %+v; docs/backup.md has the figures", n.TableTransactions(), n)
		}
		for _, b := range w.backups() {
			w.checkExport(b.Place.Prefix, "Source")
			if want := "tablesweep import --from blob:exports/" + b.Place.Prefix + " --to NEW_TABLE --to-connection WHERE --verify"; b.Restore != want || b.Rows != 15 || b.Outdated || b.Deleting != nil || b.FinishedAt == nil {
				t.Errorf("got backup %+v, want the restore command %s", b, want)
			}
		}
		if left := w.exportsLeft(); !slices.Equal(left, []string{"1999-12-31T0300", "2000-01-04T0300", "2000-01-05T0300", "notes"}) || len(w.backups()) != 2 {
			t.Errorf("exports left: %v", left)
		}
		s := w.schedule()
		if s.Last == nil || s.Last.State != ledger.Succeeded || *s.Last != *s.Success || s.Missed.Count+s.Skipped.Count != 0 || s.Overdue || w.status(s.Last.ID).Name != "nightly" {
			t.Errorf("got schedule %+v, want the last scan succeeded", s)
		}
		w.emulator.ResetCounts()
		w.must(w.engine.AdvanceSchedules(t.Context(), true))
		if n := w.emulator.Counts(); n != (emulator.Counts{Query: 1, QueryRows: 1}) {
			t.Errorf("advancing a schedule without work makes %+v, want one query", n)
		}
		// After missed nights, only the newest occurrence starts. While its scan runs, other occurrences are skipped.
		time.Sleep(72 * time.Hour)
		w.must(w.engine.AdvanceSchedules(t.Context(), true))
		if s = w.schedule(); s.Missed.Count != 2 || s.Last.State != ledger.Running || !s.Overdue {
			t.Errorf("after three nights, the schedule is %+v", s)
		}
		time.Sleep(24 * time.Hour)
		w.must(w.engine.AdvanceSchedules(t.Context(), true))
		if s = w.schedule(); s.Skipped.Count != 1 || s.Last.State != ledger.Running || s.Skipped.Last.Sub(s.Last.Occurrence) != 24*time.Hour {
			t.Errorf("while its scan runs, the schedule is %+v", s)
		}
		for range 3 {
			w.must(w.engine.AdvanceSchedules(t.Context(), true))
		}
		if left := w.exportsLeft(); len(left) != 4 || len(w.backups()) != 2 {
			t.Errorf("while the scan runs, only %v is left", left)
		}
		w.drain()
		w.passNight()
		if s = w.schedule(); s.Last.State != ledger.Succeeded || s.Overdue || s.Success.Occurrence.Sub(s.Skipped.Last) != 24*time.Hour {
			t.Errorf("after the scan, the schedule is %+v", s)
		}
		// The schedule is removed from the settings while its scan runs. The scan still becomes a backup. No other scan starts, and no backup is deleted.
		w.sleepUntil(3, 0)
		w.must(w.engine.AdvanceSchedules(t.Context(), true))
		before := len(w.backups())
		w.setSchedules("[]")
		for range 3 {
			w.passNight()
		}
		if s = w.schedule(); !s.Removed || s.Last.State != ledger.Succeeded || len(w.backups()) != before+1 {
			t.Errorf("a removed schedule is %+v, with %d backups", s, len(w.backups()))
		}
	})
}

// A user can start a schedule's scan, at most once a minute. It makes a backup like any other, and the due occurrences do not change.
func TestRunNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 5, 3)
		w.setSchedules(keeping(`,"keep":{"last":2}`)) // no process has advanced it yet
		refused := func(why string) {
			t.Helper()
			_, err := w.engine.RunNow(t.Context(), "nightly", claim.Sent{})
			if p := problem.Of(err); p.Kind != problem.Conflict || !strings.Contains(p.Detail, why) {
				t.Errorf("got error %v, want a conflict: %s", err, why)
			}
		}
		w.sleepUntil(2, 58)
		sent := claim.Sent{Invocation: "0d26e0c9-3c8c-4c2c-9e53-30a9e8d4c5a1"}
		id, err := w.engine.RunNow(t.Context(), "nightly", sent)
		w.must(err)
		if again, err := w.engine.RunNow(t.Context(), "nightly", sent); again != id || err != nil {
			t.Errorf("a repeated request starts %s, %v; want %s", again, err, id)
		}
		refused(string(id) + ", is still running")
		w.drain()
		refused("the schedule already has an occurrence at 02:58 UTC")
		if s := w.schedule(); s.Last.ID != id || s.Next.Hour() != 3 || w.status(id).Name != "nightly" || s.Missed.Count+s.Skipped.Count != 0 {
			t.Errorf("got schedule %+v, want scan %s as the last", s, id)
		}
		w.sleepUntil(3, 0) // before any process has advanced the schedule
		refused("the schedule already has an occurrence at 03:00 UTC")
		for range 4 {
			w.passMinute()
		}
		w.checkBackups("2000-01-01T0258", "2000-01-01T0300")
		w.sleepUntil(11, 59) // several requests at the same time
		var g task.Group
		ids := map[ledger.ScanID]bool{}
		var mu sync.Mutex
		for range 4 {
			g.Go(func() error {
				if id, err := w.engine.RunNow(t.Context(), "nightly", claim.Sent{}); err == nil {
					mu.Lock()
					ids[id] = true
					mu.Unlock()
				}
				return nil
			})
		}
		w.must(g.Wait())
		if len(ids) != 1 {
			t.Errorf("four concurrent requests start %v, want one scan", ids)
		}
		for range 4 {
			w.passMinute()
		}
		w.checkBackups("2000-01-01T0300", "2000-01-01T1159")
		if _, err := w.engine.RunNow(t.Context(), "other", claim.Sent{}); problem.Of(err).Kind != problem.NotFound {
			t.Error(err)
		}
	})
}

// TestScheduleWithRandomFaults lets nights pass in which processes die, requests fail, and tables are made and deleted. A seed decides what happens. In some
// nights, no process advances the schedule. In the others, the export succeeds with the existing tables, and exactly the right backups are kept.
func TestScheduleWithRandomFaults(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	out := int64(0)
	for seed := uint64(1); seed <= testsize.Slow[uint64](1, 4, 2000); seed++ { // at first an export of many tables, then of one
		synctest.Test(t, func(t *testing.T) { out += scheduleSeed(t, seed) })
		if t.Failed() {
			t.Fatalf("failed with seed %d", seed)
		}
	}
	if out == 0 {
		t.Error("no table was left out")
	}
}

// changeTables makes some tables. At one message of twenty, it deletes one of them, or makes it again.
func (w *world) changeTables(r *rand.Rand) {
	tables := make([]bool, 3+r.IntN(9))
	change := func(n int) {
		name := fmt.Sprintf("Table%02d", n)
		if tables[n] {
			w.dropTables(name)
		} else {
			w.fill(name, plainRows(r.IntN(30), 1))
		}
		tables[n] = !tables[n]
	}
	for n := range tables {
		change(n)
	}
	w.onMessage = func([]byte) {
		if r.IntN(20) == 0 {
			change(r.IntN(len(tables)))
		}
	}
}

// scheduleSeed runs the nights of one seed, and returns how many tables were left out.
func scheduleSeed(t *testing.T, seed uint64) (out int64) {
	r := rand.New(rand.NewPCG(seed, 47))
	w := withSource(t, 1+r.IntN(4), 1+r.IntN(3))
	keep := calendar.Keep{Last: 1 + r.IntN(3), Daily: r.IntN(4), Weekly: r.IntN(3)}
	text := keeping(fmt.Sprintf(`,"keep":{"last":%d,"daily":%d,"weekly":%d}`, keep.Last, keep.Daily, keep.Weekly))
	if seed%2 > 0 { // a verified export of many tables
		w.changeTables(r)
		text = strings.NewReplacer(`"table":"Source"`, `"tables":"Source,Table*"`, `"request":{`, `"request":{"verify":true,"segmentSize":10,"segmentsPerInvocation":1,`).Replace(text)
	}
	w.startSchedules(text)
	const on = " on=query,insert,update,merge,delete,batch,put-blob,get-blob,list-blobs,delete-blob" // no faults for queues, because the test itself takes messages
	faults := fmt.Sprintf("seed=%d; latency=1ms..20ms; short-page p=0.2; busy p=%.2f%s; reset-before p=%.2f%[3]s; reset-after p=%.2[5]f%[3]s; delay p=0.05 by=20s%[3]s", seed, r.Float64()/20, on, r.Float64()/20, r.Float64()/20)
	minute := func() {
		_, _ = w.engine.AdvanceSchedules(t.Context(), true), w.engine.Maintain(t.Context()) // errors are expected in such nights
		if w.process.DieWith(0, false); w.process.Dead() {
			w.restart()
		}
		w.drain()
		time.Sleep(time.Minute)
	}
	var asleep int
	for range 8 {
		w.sleepUntil(3, 0)
		if r.IntN(6) == 0 {
			asleep++
			continue
		}
		w.must(w.emulator.SetFaults(faults))
		for range 5 {
			if r.IntN(2) == 0 {
				w.process.DieWith(1+r.IntN(60), r.IntN(2) == 0)
			}
			minute()
		}
		w.must(w.emulator.SetFaults(""))
		w.restart()
		time.Sleep(11 * time.Minute) // a message may be hidden for ten minutes
		for range 6 {
			minute()
		}
	}
	list, err := w.list(100)
	w.must(err)
	list = slices.DeleteFunc(list, func(s status.Status) bool { return s.Action.Type == scans.Verify })
	if len(list) > 8-asleep {
		t.Errorf("got %d scans in %d nights", len(list), 8-asleep)
	}
	var left []time.Time
	for _, s := range slices.Backward(list) { // oldest first
		lost := int64(0)
		if s.Members != nil {
			lost = s.Members.LeftOut
		}
		if out += lost; s.State != ledger.Succeeded || (s.Note == "") != (lost == 0) {
			t.Errorf("the scan is %s with error %q, members %+v and note %q", s.State, s.Error, s.Members, s.Note)
		}
		occurrence, err := time.Parse("2006-01-02T1504", path.Base(s.Action.Destination.Prefix))
		w.must(err)
		left = append([]time.Time{occurrence}, left...)
		for _, i := range slices.Backward(keep.Outdated(left)) {
			left = slices.Delete(left, i, i+1)
		}
	}
	var want []string
	for _, b := range slices.Backward(left) {
		want = append(want, b.Format("2006-01-02T1504"))
	}
	w.checkBackups(want...)
	for _, b := range w.backups() {
		if b.Deleting != nil || seed%2 > 0 && b.Proof.State != schedule.Proved && b.Proof.State != schedule.Differs {
			t.Errorf("backup %+v has proof %+v", b, b.Proof)
		}
	}
	return out
}

// Many instances of two apps with one state table advance a schedule at the same time. Each occurrence starts one scan.
func TestOccurrenceStartsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{Faults: "seed=1; latency=1ms..20ms"}) // so that instances read the row before others have written it
		w.fill("Source", plainRows(3, 2))
		const text = `[{"name":"nightly","cron":"0 * * * * *","request":{"source":{"table":"Source"},"action":{"type":"count"}}}]`
		w.setSchedules(text)
		others, err := schedule.ParseSchedules(strings.ReplaceAll(text, "nightly", "other"))
		w.must(err)
		for range 6 {
			var g task.Group
			for i := range 10 {
				e := w.newEngine(w.account)
				if i%2 > 0 {
					e = w.newEngine(w.account, func(o *options) { o.Schedules = others })
				}
				g.Go(func() error { return e.AdvanceSchedules(t.Context(), true) })
			}
			w.must(g.Wait())
			w.drain()
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(61 * time.Second)))
		}
		if list, err := w.list(100); err != nil || len(list) != 10 {
			t.Errorf("got %d scans of two schedules in five minutes, %v; want 10", len(list), err)
		}
	})
}

// A schedule's errors are shown. If a backup cannot be deleted, it stays, and its deletion is tried again after the next success.
func TestScheduleErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 3, 2)
		w.startSchedules(keeping(`,"keep":{"last":1}`))
		w.passNight()
		w.refuse(409, "BlobImmutableDueToPolicy", func(r *http.Request, _ string) bool {
			return r.Method == http.MethodDelete && strings.Contains(r.URL.Host, "blob")
		})
		w.passNight()
		b := w.backups()
		if len(b) != 2 || b[1].Deleting == nil || !strings.Contains(b[1].Error, "BlobImmutableDueToPolicy") || b[0].Deleting != nil {
			t.Fatalf("in an immutable container, the backups are %+v", b)
		}
		w.emulator.ResetCounts()
		w.must(w.engine.AdvanceSchedules(t.Context(), true))
		if n := w.emulator.Counts(); n != (emulator.Counts{Query: 1, QueryRows: 1}) {
			t.Errorf("with a backup that cannot be deleted, advancing makes %+v, want one query", n)
		}
		w.process.Next = w.emulator.Transport()
		w.passNight()
		w.checkBackups("2000-01-03T0300")
		// Another claim is in a backup's place. Then no blob of this place is deleted.
		last := w.backups()[0].Place.Prefix
		objects := w.objects(last)
		w.must(objects.Delete(t.Context(), "export.json"))
		w.putBlob(last, "export.json", `{"format":"tablesweep-export","version":1,"id":"other"}`)
		w.passNight()
		if b := w.backups(); len(b) != 2 || b[1].Error == "" || len(w.blobs(last)) != 4 {
			t.Errorf("with another claim in the place, the backups are %+v, and the place has %d objects", b, len(w.blobs(last)))
		}
		// A deleted container has no more backups, and the next export creates it again.
		for name := range w.blobs("") {
			w.must(w.objects("").Delete(t.Context(), name))
		}
		w.passNight()
		w.checkBackups("2000-01-05T0300")
		// The table is gone, so the run fails with this reason. The newest success stays.
		w.must(w.account.Table("Source").Delete(t.Context()))
		w.passNight()
		w.passNight()
		s := w.schedule()
		if s.Last.State != ledger.Failed || !strings.Contains(s.Last.Error, "Source does not exist") || !s.Overdue || len(w.backups()) != 1 {
			t.Errorf("without the table, the schedule is %+v", s)
		}
		// A run that was canceled and retried becomes a backup at its end.
		w.fill("Source", plainRows(3, 2))
		w.sleepUntil(3, 0)
		for range 2 {
			w.must(w.engine.AdvanceSchedules(t.Context(), true), w.engine.Maintain(t.Context()))
		}
		id := w.schedule().Last.ID
		w.must(w.engine.Cancel(t.Context(), id))
		w.passMinute()
		if s := w.schedule(); s.Last.State != ledger.Canceled || s.Last.Error != "" {
			t.Errorf("the canceled scan is %+v", s.Last)
		}
		w.must(w.engine.Retry(t.Context(), id))
		for range 4 {
			w.passMinute()
		}
		w.checkBackups("2000-01-08T0300")
		// Somebody deletes the rows of a run's scan.
		w.sleepUntil(3, 0)
		w.must(w.engine.AdvanceSchedules(t.Context(), true))
		id = w.schedule().Last.ID
		w.drain()
		for _, row := range w.rows("tablesweep") {
			if row.Key.Partition == string(id) || strings.Contains(row.Key.Row, string(id)) {
				w.remove("tablesweep", row.Key)
			}
		}
		time.Sleep(23*time.Hour + 58*time.Minute)
		w.passNight()
		w.passNight()
		if s := w.schedule(); s.Last.State != ledger.Succeeded {
			t.Errorf("after rows were deleted, the schedule is %+v", s)
		}
		// A process dies after it has recorded an occurrence, and before it makes the start request.
		w.sleepUntil(3, 0)
		started := w.schedule().Last.ID
		w.process.DieWhen(func(*http.Request) bool { return w.schedule().Last.ID != started })
		for range 4 {
			w.passMinute()
		}
		if s := w.schedule(); s.Last.ID == started || s.Last.State != ledger.Succeeded {
			t.Errorf("after a death behind the decision, the schedule is %+v", s)
		}
	})
}

// TestScheduleWithWrongClock sets the service's clock far ahead for one night, and then back.
func TestScheduleWithWrongClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ahead time.Duration
		w := newWorld(t, emulator.Options{Clock: func() time.Time { return time.Now().Add(ahead) }})
		w.fill("Source", plainRows(3, 2))
		w.startSchedules(keeping(`,"keep":{"last":1}`))
		w.passNight()
		ahead = 4 * 366 * 24 * time.Hour
		for range 4 {
			w.passMinute()
		}
		w.checkBackups("2004-01-04T0300")
		ahead = 0
		w.passMinute()
		if s := w.schedule(); !s.Overdue {
			t.Errorf("with a success years ahead, the schedule is %+v, want it overdue", s)
		}
		w.passNight()
		w.passNight()
		if s := w.schedule(); s.Overdue || s.Success.Occurrence.Year() != 2000 {
			t.Errorf("with the right clock, the schedule is %+v", s)
		}
		w.checkBackups("2000-01-03T0300", "2004-01-04T0300")
	})
}

// With keepDryRun, no backup is deleted. The list shows which backups would be deleted.
func TestKeepDryRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 1, 1)
		w.startSchedules(keeping(`,"keep":{"last":2},"keepDryRun":true`))
		for range 4 {
			w.passNight()
		}
		var outdated []bool
		for _, b := range w.backups() {
			outdated = append(outdated, b.Outdated)
		}
		if !slices.Equal(outdated, []bool{false, false, true, true}) {
			t.Errorf("outdated backups: got %v, want the two oldest", outdated)
		}
		w.checkBackups("2000-01-01T0300", "2000-01-02T0300", "2000-01-03T0300", "2000-01-04T0300")
	})
}

// The error names each bad setting with its schedule. The other schedules are accepted.
func TestParseSchedules(t *testing.T) {
	t.Parallel()
	good := strings.Trim(keeping(`,"keep":{"daily":3}`), "[]")
	const mirror = `[{"name":"a","cron":"0 0 3 * * *","request":{"source":{"tables":"*","connection":"A"},"action":{"type":"copy","destination":{"connection":"B"}}}}]`
	for text, want := range map[string]string{
		`{}`:                          "must be a JSON array",
		`[{"Name":"x"}]`:              "0.Name: is not a field at this position",
		`[` + good + `]`:              "",
		good:                          "must be a JSON array",
		`[` + good + `,` + good + `]`: "; has the same name as the schedule",
		`[` + good + `,` + strings.Replace(good, "nightly", "other", 1) + `]`:                                                  "other: request: action.destination overlaps the destination of the schedule nightly",
		`[` + good + `,` + strings.NewReplacer("nightly\"", "other\"", "{date}", "{date}/more").Replace(good) + `]`:            "other: request: action.destination overlaps the destination of the schedule nightly",
		`[` + strings.Replace(good, "{date}", "{date}/more", 1) + `,` + strings.Replace(good, "nightly\"", "other\"", 1) + `]`: "other: request: action.destination overlaps the destination of the schedule nightly",
		strings.Replace(`[`+good+`]`, `"table":"Source"`, `"table":"Source","connection":"AccountKey=c2VjcmV0"`, 1):            "source.connection: looks like a secret; give",
		`[{"name":"a b","cron":"0 0 3 * * *","request":{"source":{"table":"T"},"action":{"type":"count"}}}]`:                   "schedule 1: name must have",
		strings.Replace(`[`+good+`]`, "0 0 3", "0 3", 1):                                                                       `nightly: cron: "0 3 * * *" does not have the six fields`,
		strings.Replace(`[`+good+`]`, "0 0 3", "* 0 3", 1):                                                                     "fires more than once a minute",
		strings.Replace(`[`+good+`]`, `"table":"Source"`, `"table":"_"`, 1):                                                    "nightly: request: source.table: table name",
		strings.Replace(`[`+good+`]`, `/{date}`, ``, 1):                                                                        "prefix must contain {date}",
		strings.NewReplacer(`"table"`, `"tables"`, `/{date}`, `/{table}/{date}`).Replace(`[` + good + `]`):                     "may contain {table} only at its end",
		strings.NewReplacer(`"table"`, `"tables"`, `/{date}`, `/{date}/{table}/`).Replace(`[` + good + `]`):                    "",
		strings.Replace(`[`+good+`]`, `"daily":3`, ``, 1):                                                                      "keep: must contain the number",
		strings.Replace(`[`+good+`]`, `"daily":3`, `"daily":-1`, 1):                                                            "keep: each number must be",
		`[{"name":"a","cron":"0 0 3 * * *","keepDryRun":true}]`:                                                                "request is missing",
		`[{"name":"a","cron":"0 0 3 * * *","keep":{"last":1},"request":{"source":{"table":"Tab"},"action":{"type":"count"}}}]`: "keep: is only for exports",
		mirror: "request: action.overwrite must be true",
		strings.Replace(mirror, `"type"`, `"overwrite":true,"type"`, 1): "",
		strings.Replace(mirror, `"type"`, `"mode":"skip","type"`, 1):    "",
	} {
		all, err := schedule.ParseSchedules(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || want == "" && len(all) != 1 {
			t.Errorf("settings %s: got schedules %v, error %v, want error %q", text, all, err, want)
		}
	}
	all, err := schedule.ParseSchedules(`[{"name":"bad"},` + good + `]`)
	if err == nil || len(all) != 1 || all[0].Name != "nightly" {
		t.Errorf("settings with a bad and a good schedule: got %v, %v", all, err)
	}
	all[0].Request = nil
	w := newWorld(t, emulator.Options{})
	w.options = []func(*options){func(o *options) { o.Schedules, o.Accounts = all, nil }}
	if err := w.newEngine(w.account).CheckSchedules(); err == nil || !strings.Contains(err.Error(), "nightly: request: source.connection: \"AzureWebJobsStorage\" is not among") {
		t.Errorf("a schedule with a connection that the app does not have: got error %v", err)
	}
}
