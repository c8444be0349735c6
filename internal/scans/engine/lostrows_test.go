package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// lostKinds lists the beginnings of the keys of a scan's rows in the state table. Groups have more kinds of rows.
var lostKinds, lostGroupKinds = []string{"s", "p|", "d|", "d|-", "x|", "w|", "h", "y", "a|", "o|"}, []string{"g", "m|"}

// kindOfRow returns the kind of a scan's row, or "" for any other row.
func kindOfRow(id ledger.ScanID, k key.Key) (kind string) {
	if k.Partition != "scans" && !strings.HasPrefix(k.Partition, string(id)) || k.Partition == "scans" && !strings.Contains(k.Row, string(id)) {
		return ""
	}
	for _, prefix := range slices.Concat(lostKinds, lostGroupKinds) {
		if strings.HasPrefix(k.Row, prefix) && len(prefix) > len(kind) {
			kind = prefix
		}
	}
	return kind
}

// loseRows deletes rows of a scan or its group from the state table: two rows of one kind, one row of each of two kinds, or all rows of one kind.
func (w *world) loseRows(id ledger.ScanID, r *rand.Rand) (lost []key.Key) {
	w.Helper()
	rows := map[string][]key.Key{}
	for _, e := range w.rows("tablesweep") {
		if kind := kindOfRow(id, e.Key); kind != "" {
			rows[kind] = append(rows[kind], e.Key)
		}
	}
	kinds := slices.Sorted(maps.Keys(rows))
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	one, two := rows[kinds[0]], rows[kinds[1]]
	r.Shuffle(len(one), func(i, j int) { one[i], one[j] = one[j], one[i] })
	switch r.IntN(3) {
	case 0:
		lost = one[:min(2, len(one))]
	case 1:
		lost = []key.Key{one[0], two[r.IntN(len(two))]}
	default:
		lost = one
	}
	w.remove("tablesweep", lost...)
	return lost
}

// TestDeletedLedgerRows: while a scan runs, somebody deletes rows from the state table. Whichever rows they are, the scan ends, and Maintain succeeds
// again. A scan that succeeds has done all its work. Without its own row, the scan no longer exists. Maintain does not find a scan whose row in the list
// of open scans is lost, so the test skips a run that loses both this row and a pending step.
func TestDeletedLedgerRows(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	for seed := range uint64(testsize.Slow(6, 40, 800)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { lostRows(t, seed) }) })
	}
}

// scanToLose fills tables with the given number of rows, and returns a request of the given kind: a group, a count, a copy with hints, an export, a
// deletion, or a copy with limits.
func (w *world) scanToLose(kind uint64, rows int) scans.Request {
	w.Helper()
	if kind == 0 {
		for n := range 10 {
			w.fill(fmt.Sprintf("Table%02d", n), plainRows(rows/10, 1))
		}
		scan := groupExport("p")
		scan.SegmentSize = 3
		return scan
	}
	w.fill("Source", plainRows(rows, 1))
	scan := []scans.Request{1: countInSteps, 2: copyRequest("Source", "Target"), 3: exportRequest("Source", "p"), 4: deleteRequest("adaptive", 1), 5: copyRequest("Source", "Target")}[kind]
	scan.SegmentSize = 5
	switch kind {
	case 2:
		w.succeed(scan)
	case 3:
		scan.SegmentsPerInvocation = 1
	case 5:
		scan.Limits = &scans.Limits{RowsPerSecond: 20}
	}
	return scan
}

func lostRows(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 4))
	w := newWorld(t, emulator.Options{})
	w.options = append(w.options, func(o *options) { o.FoldEvery = 3 })
	w.restart()
	const rows = 100
	scan := w.scanToLose(seed%6, rows)
	id := w.start(scan)
	for range 1 + r.IntN(4) {
		w.deliver()
		time.Sleep(2 * time.Second)
	}
	before := w.status(id)
	lost := w.loseRows(id, r)
	lostKind := func(kind string) bool {
		return slices.ContainsFunc(lost, func(k key.Key) bool { return kindOfRow(id, k) == kind })
	}
	if before.State != ledger.Running || lostKind("o|") && lostKind("p|") {
		return
	}
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("seed %d, rows %v lost after %d deliveries: %s", seed, lost, before.Steps.Done, fmt.Sprintf(format, args...))
	}
	runs := func(e storage.Entity) bool {
		return e.Key.Row == "s" && e.Get("State") == string(ledger.Running) || strings.HasPrefix(e.Key.Row, "o|")
	}
	runToEnd := func() {
		for minute := 0; minute < 40 && slices.ContainsFunc(w.rows("tablesweep"), runs); minute++ {
			for n := 0; w.deliver() > 0; n++ {
				if n == 1000 {
					t.Fatalf("seed %d, rows %v lost: the messages do not end", seed, lost)
				}
			}
			time.Sleep(time.Minute)
			_ = w.engine.Maintain(t.Context()) // this may return an error while the loss is not yet certain
		}
		if err := w.engine.Maintain(t.Context()); err != nil {
			fail("Maintain: %v", err)
		}
	}
	runToEnd()
	s, err := w.observer.Status(t.Context(), id)
	if err == nil && s.State == ledger.Failed && strings.Contains(s.Error, ledger.RowsLost) {
		if err := w.engine.Retry(t.Context(), id); err == nil && scan.Source.Tables != "" {
			runToEnd()
		} else if problem.Of(err).Kind != problem.Conflict {
			fail("a retry: got error %v", err)
		}
		s, err = w.observer.Status(t.Context(), id)
	}
	if least := min(s.Steps.Pending, s.Steps.Done, s.Rows.Scanned, s.Rows.Written, s.Rows.Failed); least < 0 {
		fail("a count below zero: %+v", s)
	}
	switch {
	case problem.Of(err).Kind == problem.NotFound && slices.Contains(lost, key.Key{Partition: string(id), Row: "s"}):
	case err != nil:
		fail("%v", err)
	case s.State == ledger.Failed && strings.Contains(s.Error, ledger.RowsLost):
	case s.State != ledger.Succeeded || s.Rows.Scanned != rows || s.Rows.Failed > 0 || scan.Action.Type != scans.Count && s.Rows.Written != rows:
		fail("got status %+v, want it succeeded with all rows", s)
	case scan.Action.Type == scans.Delete:
		w.checkDeleted(id, rows)
	case scan.Source.Tables != "":
		if _, err := w.tablesAt("p"); err != nil {
			fail("%v", err)
		}
	case scan.Action.Type == scans.Copy && scan.Action.Destination.Container != "":
		w.checkExport("p", "Source")
	case scan.Action.Type == scans.Copy:
		w.equalTables("Source", "Target")
	}
	if left := slices.DeleteFunc(w.rows("tablesweep"), func(e storage.Entity) bool { return !runs(e) }); len(left) > 0 {
		fail("after 40 minutes, these rows are left: %v", left)
	}
}

// TestDeletedGroupRow: if the row with a group's tables is gone, the group fails, and its error says so. Maintain and the group's schedule continue.
func TestDeletedGroupRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withTables(t, 11)
		w.startSchedules(strings.ReplaceAll(keeping(""), `"table":"Source"`, `"tables":"*"`))
		w.sleepUntil(3, 0)
		w.must(w.engine.AdvanceSchedules(t.Context(), true))
		w.deliver()
		id := w.schedule().Last.ID
		if s := w.status(id); s.State != ledger.Running || s.Members.All != 11 {
			t.Fatalf("got group %+v, want it running with 11 members", s)
		}
		for _, e := range w.ledgerRows(id, "g") {
			w.remove("tablesweep", e.Key)
		}
		for range 3 {
			w.passMinute()
		}
		s := w.status(id)
		if s.State != ledger.Failed || !strings.Contains(s.Error, "lacks the group's row") {
			t.Errorf("the group is %s with error %q, want it failed", s.State, s.Error)
		}
		if m := w.members(id, ledger.Running); len(m) > 0 {
			t.Errorf("members are still running: %+v", m)
		}
		if err := w.engine.Retry(t.Context(), id); problem.Of(err).Kind != problem.Conflict || !strings.Contains(err.Error(), "lacks the group's row") {
			t.Errorf("a retry: got error %v", err)
		}
		w.passNight()
		if last := w.schedule().Last; last.ID == id || w.status(last.ID).State != ledger.Succeeded {
			t.Errorf("the next night, the last scan is %+v, want a new one that succeeded", last)
		}
	})
}
