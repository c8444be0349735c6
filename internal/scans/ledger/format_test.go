package ledger_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

const formatFile = "testdata/format1.jsonl"

var rewrite = flag.Bool("rewrite", false, "rewrite "+formatFile+"; only before a release, or with a new version number")

// The scans of the fixture, and the attempts and figures of the first scan.
const (
	failedScan    ledger.ScanID = "2524556143000000000-failed"
	succeededScan ledger.ScanID = "2524556142000000000-ended"
	openScan      ledger.ScanID = "2524556141000000000-open"
	groupScan     ledger.ScanID = "2524556144000000000-group"
	notedScan     ledger.ScanID = "2524556145000000000-noted"
)

var everyHeartbeat = ledger.Heartbeat{
	Process: "process", Steps: []ledger.Held{{Scan: failedScan, Step: "c", Throttled: 3, Requests: 8}},
	Waiting: []ledger.Wait{{Connection: "BACKUP", Cause: "it answers 503 ServerBusy", Since: began}},
}

// The requests of commands.
var (
	checkedRequest   = ledger.StartRequest{ID: succeededScan, Request: []byte("request"), Kind: ledger.CheckedStart}
	retryRequest     = ledger.StartRequest{ID: groupScan, Request: []byte{}, Kind: ledger.Retry, Attempt: 2}
	retryRowsRequest = ledger.StartRequest{ID: openScan, Request: []byte{}, Kind: ledger.RetryFailed, Attempt: 3}
)

var everyUsed = ledger.Used{Steps: 3, Rows: 20, Requests: 15, Waiting: 2, Next: began.Add(time.Minute)}

var everyObservation = ledger.Observation{Steps: map[ledger.StepID]time.Time{"c": began.Add(1500 * time.Millisecond)}, Heartbeats: map[string]time.Time{"process": began}}

var (
	began    = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // synctest's clock
	first    = ledger.Totals{Steps: 1, Rows: 10, Written: 8, Failed: 2, Queries: 3, Transactions: 9, Throttled: 4}
	compared = ledger.Totals{Steps: 1, Rows: 9, Queries: 1, Transactions: 4, Missing: 1, Extra: 2, Different: 3}
	other    = ledger.Totals{Steps: 1, Rows: 5, Written: 5, Queries: 1, Transactions: 4}
)

// TestFormat1: the ledger still writes rows of every kind as it did when this format was fixed, and reads the rows of that
// time. If this test fails, the running scans of a deployed version could not be read. Consider them before you use
// -rewrite.
func TestFormat1(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(formatFile)
	proof.Must(t, err)
	synctest.Test(t, func(t *testing.T) {
		_, table := newTable(t)
		writeEveryKind(t, ledger.New(table))
		got := dump(t, table)
		if *rewrite {
			proof.Must(t, os.WriteFile(formatFile, got, 0o644))
			want = got
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("the rows have changed (-format 1 +now):\n%s", diff)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		_, table := newTable(t)
		for line := range bytes.Lines(want) {
			var row storedRow
			proof.Must(t, json.Unmarshal(line, &row))
			op := storage.Op{Kind: storage.Insert, Row: storage.Entity{Key: row.Key, Properties: row.Properties}.Row()}
			proof.Must(t, table.Write(t.Context(), op))
		}
		time.Sleep(time.Hour)
		readEveryKind(t, ledger.New(table))
	})
}

// storedRow is a line of the fixture.
type storedRow struct {
	Key        key.Key
	Properties []storage.Property
}

func newTable(t *testing.T) (*emulator.Emulator, *storage.Table) {
	t.Helper()
	em, a := emulatortest.NewAccount(t, emulator.Options{})
	table := a.Table("ledger")
	proof.Must(t, table.Create(t.Context()))
	return em, table
}

// dump returns the rows of a table, without the random parts of their keys.
func dump(t *testing.T, table *storage.Table) []byte {
	t.Helper()
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	err := table.All(t.Context(), storage.Query{}, func(p storage.Page) error {
		for _, row := range p.Entities() {
			if prefix, _, folded := strings.Cut(row.Key.Row, "-1|"); folded {
				row.Key.Row = prefix + "-1|RANDOM"
			}
			if err := e.Encode(storedRow{row.Key, row.Properties}); err != nil {
				return err
			}
		}
		return nil
	})
	proof.Must(t, err)
	return lines.Bytes()
}

// writeEveryKind writes rows of every kind, each with every property that it may have. It makes a scan that was canceled,
// retried and failed, a scan that has succeeded, and a running scan.
func writeEveryKind(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	ctx := t.Context()
	step := func(id ledger.StepID) ledger.Pending {
		return ledger.Pending{ID: id, Message: []byte("message " + id)}
	}
	commit := func(scan ledger.ScanID, id ledger.StepID, done ledger.Done, children ...ledger.Pending) {
		t.Helper()
		if committed, err := l.Commit(ctx, scan, id, time.Now(), done, children); err != nil || !committed {
			t.Fatal(committed, err)
		}
		time.Sleep(time.Second)
	}
	proof.Must(t, l.SaveHints(ctx, "rows", []byte("saved hints")))
	proof.Must(t, l.Create(ctx, failedScan, time.Now(), []byte("request"), []byte("hints"), step("a"), scan.Outlook{Millipages: 1500, Unknown: 1}))
	commit(failedScan, "a", ledger.Done{Totals: first, Ahead: scan.Outlook{Millipages: 500, Unknown: 1}, Note: []byte("note a"), FailedRows: []byte("refused a"), Kept: 2, FirstFailed: "row 7", Attempt: 1}, step("b"), step("c"))
	if n, err := l.Fold(ctx, failedScan, 0, 2, func(notes [][]byte) []byte { return bytes.Join(notes, nil) }); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	commit(failedScan, "b", ledger.Done{Totals: other, Note: []byte("note b")})
	pending, _, err := l.Pending(ctx, failedScan, "c")
	proof.Must(t, err)
	pending.FirstEnded = true
	proof.Must(t, l.GiveUp(ctx, failedScan, pending, "reason"))
	time.Sleep(time.Second)
	for _, change := range []func(ledger.Pending) (bool, error){
		func(p ledger.Pending) (bool, error) { return l.Begin(ctx, failedScan, p) },
		func(p ledger.Pending) (bool, error) { return l.Resending(ctx, failedScan, p) },
	} {
		some, err := l.FirstPending(ctx, failedScan)
		proof.Must(t, err)
		if changed, err := change(some[0]); err != nil || !changed {
			t.Fatal(changed, err)
		}
	}
	proof.Must(t, l.WriteHeartbeat(ctx, everyHeartbeat), l.WriteObservation(ctx, everyObservation))
	_, err = l.End(ctx, failedScan, time.Now(), ledger.Ending{State: ledger.Canceled})
	proof.Must(t, err)
	canceled, err := l.Scan(ctx, failedScan)
	proof.Must(t, err)
	time.Sleep(time.Minute)
	proof.Must(t, l.Restart(ctx, canceled, time.Now(), nil, scan.Outlook{}))
	_, err = l.End(ctx, failedScan, time.Now().Add(time.Second), ledger.Ending{State: ledger.Failed, Error: "why it failed"})
	proof.Must(t, err)

	proof.Must(t, l.Create(ctx, succeededScan, time.Now(), []byte("request"), nil, step("a"), scan.Outlook{}))
	commit(succeededScan, "a", ledger.Done{Totals: other})
	_, err = l.Finish(ctx, succeededScan, time.Now(), succeeds)
	proof.Must(t, err)
	limited := step("a")
	limited.After = began.Add(24 * time.Hour)
	proof.Must(t, l.Create(ctx, openScan, time.Now(), []byte("request"), nil, limited, scan.Outlook{}))
	if ok, err := l.Use(ctx, openScan, everyUsed); err != nil || !ok {
		t.Fatal(ok, err)
	}
	proof.Must(t, l.CreateGroup(ctx, groupScan, time.Now(), []byte("request"), []byte("tables"), 3))
	group, err := l.Group(ctx, groupScan)
	proof.Must(t, err)
	group.Begun, group.Open = 2, []int{1, 2}
	_, err = l.ChangeGroup(ctx, group)
	proof.Must(t, err, l.Create(ctx, groupScan.Member(1), time.Now(), []byte("request"), nil, step("a"), scan.Outlook{}))
	commit(groupScan.Member(1), "a", ledger.Done{Totals: compared})
	_, err = l.Finish(ctx, groupScan.Member(1), time.Now(), succeeds)
	proof.Must(t, err, l.RefuseMember(ctx, groupScan.Member(2), []byte("request"), time.Now(), ledger.Ending{State: ledger.Failed, Error: "why it was refused"}),
		l.RefuseMember(ctx, groupScan.Member(3), []byte("request"), time.Now(), ledger.Ending{State: ledger.Failed, Error: "why it is left out", LeftOut: true}))
	_, err = l.End(ctx, groupScan, time.Now(), ledger.Ending{State: ledger.Failed, Error: "a table failed"})
	proof.Must(t, err, l.CreateGroup(ctx, notedScan, time.Now(), []byte("request"), []byte("tables"), 1))
	_, err = l.End(ctx, notedScan, time.Now(), ledger.Ending{State: ledger.Succeeded, Note: "what else is to be known", NoTable: 2})
	proof.Must(t, err)
	ended, err := l.Scan(ctx, groupScan)
	proof.Must(t, err, l.RestartGroup(ctx, ended, time.Now(), []int{2, 3}))
	_, err = l.AddStartRequest(ctx, ledger.StartRequest{ID: failedScan, Request: []byte("request")})
	proof.Must(t, err)
	request, _, err := l.StartRequest(ctx, failedScan)
	proof.Must(t, err, l.RefuseStart(ctx, request, "why it was refused"))
	_, err = l.AddStartRequest(ctx, checkedRequest)
	proof.Must(t, err, l.PutRetryRequest(ctx, retryRequest), l.PutRetryRequest(ctx, retryRowsRequest))
}

// readEveryKind checks what the ledger reads from rows that writeEveryKind wrote earlier.
func readEveryKind(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	ctx := t.Context()
	check := func(what string, got, want any, err error) {
		t.Helper()
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(ledger.Used{}, ledger.Scan{}, ledger.Pending{}, ledger.Heartbeat{}, ledger.OpenScan{}, ledger.EndedScan{}, ledger.StartRequest{}),
			cmpopts.IgnoreTypes(time.Duration(0)), cmpopts.IgnoreFields(ledger.Pending{}, "At"), cmpopts.IgnoreFields(ledger.Heartbeat{}, "At")); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
	whole := ledger.Scan{
		ID: failedScan, State: ledger.Failed, Attempt: 2, Request: []byte("request"), Started: began, Resumed: began.Add(63 * time.Second),
		Finished: began.Add(64 * time.Second), Error: "why it failed",
	}
	pending := ledger.Pending{ID: "c", Message: []byte("message c"), Sends: 1, Begun: 1, FirstEnded: true, Reason: "reason"}
	sum := ledger.Totals{Steps: 2, Rows: 15, Written: 13, Failed: 2, Queries: 4, Transactions: 13, Throttled: 4}

	found, err := l.Detail(ctx, failedScan)
	check("scan", found.Scan, whole, err)
	check("its time", found.Scan.Ran(time.Now()).Round(time.Second).String(), "4s", nil)
	check("totals", found.Sums.Totals, sum, nil)
	check("what is lost", found.MissingRows, "", nil)
	check("kept", found.Sums.Kept, int64(2), nil)
	steps, ahead := found.Sums.Pending()
	check("steps left", steps, int64(1), nil)
	check("work left", ahead, scan.Outlook{Millipages: 2000, Unknown: 2}, nil)
	check("notes", found.Notes, [][]byte{[]byte("note a"), []byte("note b")}, nil)
	if p := found.Pending; len(p) != 1 || p[0].ID != "c" || string(p[0].Message) != "message c" || p[0].Reason != "reason" {
		t.Errorf("got pending steps %+v", p)
	}
	check("the folded step's time", found.Sums.Times.Points()[0].At, began, nil)
	left, err := l.FirstPending(ctx, failedScan)
	check("pending steps", left, []ledger.Pending{pending}, err)
	if lost := left[0].Lost.Round(time.Minute); lost != time.Hour {
		t.Errorf("the step was lost %v ago, want an hour", lost)
	}
	hints, err := l.Hints(ctx, failedScan)
	check("hints", string(hints), "hints", err)
	hints, err = l.SavedHints(ctx, "rows")
	check("saved hints", string(hints), "saved hints", err)
	var failed []string
	err = l.FailedRows(ctx, failedScan, "", func(_ string, rows []byte) bool { failed = append(failed, string(rows)); return true })
	check("failed rows", failed, []string{"refused a"}, err)
	heartbeats, err := l.Heartbeats(ctx)
	check("heartbeats", heartbeats, []ledger.Heartbeat{everyHeartbeat}, err)
	seen, err := l.LastObservation(ctx)
	if seen.At.IsZero() {
		t.Error("the last observation has no time")
	}
	seen.At = time.Time{}
	check("the last observation", seen, everyObservation, err)
	used, err := l.Used(ctx, openScan)
	check("used", used, everyUsed, err)
	limited, err := l.FirstPending(ctx, openScan)
	check("a limited step", limited, []ledger.Pending{{ID: "a", Message: []byte("message a"), After: began.Add(24 * time.Hour)}}, err)
	var recent []ledger.Listed
	_, err = l.Recent(ctx, ledger.ListQuery{Page: 2, Pages: 2}, func(s ledger.Listed) bool { recent = append(recent, s); return true })
	succeeded := ledger.Scan{ID: succeededScan, State: ledger.Succeeded, Attempt: 1, Request: []byte("request"), Started: began.Add(63 * time.Second), Finished: began.Add(64 * time.Second)}
	check("list", recent, []ledger.Listed{
		{Scan: ledger.Scan{ID: openScan}},
		{Scan: succeeded, Summarized: true, Totals: other},
		{Scan: whole, Summarized: true, Unsettled: true, Totals: sum, Pending: 1},
		{Scan: ledger.Scan{ID: groupScan}},
	}, err)
	open, err := l.Open(ctx)
	check("open scans", open, []ledger.OpenScan{{ID: openScan, Attempt: 1}, {ID: groupScan, Attempt: 2}}, err)
	ended, _, err := l.Ended(ctx, "")
	check("ended scans", ended, []ledger.EndedScan{{ID: succeededScan, Settled: true}, {ID: failedScan}, {ID: groupScan, Settled: true}, {ID: groupScan.Member(1), Settled: true}, {ID: notedScan, Settled: true}}, err)
	members, err := l.Snapshot(ctx, groupScan)
	check("members", members.Members, ledger.Members{All: 3, Succeeded: 1, Failed: 1, LeftOut: 1}, err)
	check("their totals", members.Sums.Totals, compared, nil)
	noted, err := l.Scan(ctx, notedScan)
	check("note", noted.Note, "what else is to be known", err)
	check("tables that are gone", noted.NoTable, int64(2), nil)
	group, err := l.Group(ctx, groupScan)
	next, _ := group.Next(3)
	check("the group", []any{string(group.Tables), group.Begun, group.Open, next}, []any{"tables", 0, []int(nil), 2}, err)
	requests, err := l.StartRequests(ctx)
	check("start requests", requests, []ledger.StartRequest{retryRowsRequest, checkedRequest, {ID: failedScan, Request: []byte("request"), Refused: "why it was refused"}, retryRequest}, err)
}
