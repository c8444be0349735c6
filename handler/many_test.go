package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tablesweep/internal/job"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// manyTables creates tables of different sizes, from 0 rows upwards.
func manyTables(t testing.TB, a *storage.Account, tables, size int) (names []string) {
	t.Helper()
	for i := range tables {
		name := fmt.Sprintf("table%02d", i)
		emulatortest.Table(t, a, name, manyRows(i*size, 5))
		names = append(names, name)
	}
	return names
}

// manyResult runs a command, and returns the lines of its result, and their totals.
func manyResult(ctx context.Context, args ...string) (tables []job.TableResult, sum tablesResult, err error) {
	out, _, err := inProcess(ctx, nil, append(args, "--json", "--progress", "none")...)
	for line := range strings.Lines(out) {
		var t job.TableResult
		if badErr := errors.Join(json.Unmarshal([]byte(line), &t), json.Unmarshal([]byte(line), &sum)); t.Table == "" {
			continue // the totals: "tables" is a number, and "table" is missing
		} else if badErr != nil {
			return nil, sum, errors.Join(err, badErr)
		}
		tables = append(tables, t)
	}
	return tables, sum, err
}

// sameTables compares tables of two accounts.
func sameTables(t testing.TB, a, b *storage.Account, names ...string) {
	t.Helper()
	for _, name := range names {
		if r, err := verify.Compare(t.Context(), sweep.Spec{Source: a.Table(name)}, b.Table(name), verify.Options{}); err != nil || r.Differences() > 0 {
			t.Errorf("table %s: the tables differ: %+v, error %v", name, r, err)
		}
	}
}

// TestManyTablesResume checks that a resume copies the tables that failed, and no others.
func TestManyTablesResume(t *testing.T) {
	t.Parallel()
	const bad = "table03"
	_, a, from := serveEmulator(t, emulator.Options{})
	var touched sync.Map
	_, b, to := serveEmulator(t, emulator.Options{OnRequest: func(e emulator.Event) { touched.Store(e.Table, true) }})
	names := manyTables(t, a, 6, 10)
	refused := filepath.Join(t.TempDir(), "points", bad+job.TableExt+".lock")
	proof.Must(t, os.MkdirAll(refused, 0o700)) // no file can be created there
	dir := filepath.Dir(refused)
	if _, sum, err := manyResult(t.Context(), "copy", "--all", "--from-connection", from, "--to-connection", to, "--checkpoint", dir); exitCode(err) != exitFailedRows || sum.Failed != 1 {
		t.Fatalf("the totals are %+v, error %v", sum, err)
	}
	proof.Must(t, os.Remove(refused))
	if text, err := os.ReadFile(filepath.Join(dir, job.TablesJournal)); err != nil || bytes.Contains(text, []byte("AccountKey")) {
		t.Errorf("the checkpoint is %s, %v", text, err)
	}
	if _, _, err := manyResult(t.Context(), "copy", "--resume", dir); exitCode(err) != exitUsage || !strings.Contains(fmt.Sprint(err), "give --from-connection and --to-connection again") {
		t.Errorf("without connections: %v", err)
	}
	if _, _, err := manyResult(t.Context(), "copy", "--resume", dir, "--from-connection", from, "--to-connection", from); exitCode(err) != exitUsage {
		t.Errorf("at another account: %v", err)
	}
	touched.Clear()
	if _, sum, err := manyResult(t.Context(), "copy", "--resume", dir, "--from-connection", from, "--to-connection", to); err != nil || sum.Succeeded != 6 || sum.Rows != 15*50 {
		t.Errorf("the totals are %+v, error %v", sum, err)
	}
	touched.Range(func(table, _ any) bool {
		if table != bad && table != "" {
			t.Errorf("%s was copied again", table)
		}
		return true
	})
	sameTables(t, a, b, names...)
	if job.IsThere(dir) {
		t.Error("the checkpoint still exists")
	}
}

// TestManyTablesShareWorkers checks that eight tables run concurrently, with no more requests to either account than --workers allows.
func TestManyTablesShareWorkers(t *testing.T) {
	t.Parallel()
	const workers = 12
	var begun sync.Map
	var n atomic.Int64
	all := make(chan struct{})
	var most [2]atomic.Int64
	watch := func(side int, kinds ...fault.Kind) func(emulator.Event) {
		var under atomic.Int64
		return func(e emulator.Event) {
			switch {
			case !slices.Contains(kinds, e.Kind) || !strings.HasPrefix(e.Table, "table"):
			case e.Applied:
				under.Add(-1)
			default:
				if now := under.Add(1); now > most[side].Load() {
					most[side].Store(now)
				}
				if _, known := begun.LoadOrStore(e.Table, true); !known && n.Add(1) == 8 {
					close(all)
				}
				if side == 0 {
					<-all // with fewer concurrent tables, the test would end here
				}
			}
		}
	}
	_, a, from := serveEmulator(t, emulator.Options{Latency: 10 * time.Millisecond, OnRequest: watch(0, fault.Query)})
	names := manyTables(t, a, 12, 20)
	_, b, to := serveEmulator(t, emulator.Options{Latency: 10 * time.Millisecond, OnRequest: watch(1, fault.Batch, fault.Update, fault.Insert)})
	if _, sum, err := manyResult(t.Context(), "copy", "--all", "--from-connection", from, "--to-connection", to, "--workers", fmt.Sprint(workers)); err != nil || sum.Succeeded != 12 {
		t.Fatalf("the totals are %+v, error %v", sum, err)
	}
	for side, m := range []int64{most[0].Load(), most[1].Load()} {
		t.Logf("at most %d concurrent requests at side %d", m, side)
		if m > workers {
			t.Errorf("%d concurrent requests, want at most %d", m, workers)
		}
	}
	sameTables(t, a, b, names...)
}

// TestManyTablesInterrupted checks that an interrupt ends all tables in order, and that a resume continues with each table and writes only the missing rows.
func TestManyTablesInterrupted(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	_, a, from := serveEmulator(t, emulator.Options{})
	var written atomic.Int64
	_, b, to := serveEmulator(t, emulator.Options{OnRequest: func(e emulator.Event) {
		if e.Kind == fault.Batch && !e.Applied && written.Add(1) == 300 {
			interrupt()
		}
	}})
	names := manyTables(t, a, 12, 20)
	const all = 66 * 20
	dir := filepath.Join(t.TempDir(), "points")
	_, sum, err := manyResult(ctx, "copy", "--all", "--from-connection", from, "--to-connection", to, "--checkpoint", dir, "--workers", "16")
	if exitCode(err) != exitInterrupted || hintFor(err) != "tablesweep copy --resume "+dir+" --from-connection CONNECTION --to-connection CONNECTION continues the command" || sum.Pending == 0 || sum.Failed > 0 {
		t.Fatalf("got %v, the hint %q and %+v", err, hintFor(err), sum)
	}
	if points, _ := filepath.Glob(filepath.Join(dir, "*"+job.TableExt)); len(points) == 0 {
		t.Error("no table has a checkpoint")
	}
	if _, sum, err = manyResult(t.Context(), "copy", "--resume", dir, "--from-connection", from, "--to-connection", to); err != nil || sum.Succeeded != 12 || sum.Rows != 5*all {
		t.Errorf("the totals are %+v, error %v", sum, err)
	}
	if n := written.Load(); n > all+32 { // one table's first transactions may have been under way
		t.Errorf("%d transactions for both runs, want at most %d", n, all)
	}
	sameTables(t, a, b, names...)
}

// TestManyExportsInterrupted checks that an incomplete export of many tables is refused as a source, and that a resume completes it.
func TestManyExportsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var queries atomic.Int64
	_, a, from := serveEmulator(t, emulator.Options{OnRequest: func(e emulator.Event) {
		if e.Kind == fault.Query && !e.Applied && strings.HasPrefix(e.Table, "table") && queries.Add(1) == 12 { // when some tables have made two queries
			interrupt()
		}
	}})
	names := manyTables(t, a, 12, 20)
	queries.Store(0)
	backup := filepath.Join(t.TempDir(), "backup")
	if _, sum, err := manyResult(ctx, "export", "--all", "--from-connection", from, "--to", backup+"/"); exitCode(err) != exitInterrupted || sum.Pending == 0 || sum.Failed > 0 {
		t.Fatalf("got %v and %+v", err, sum)
	}
	if begun, _ := filepath.Glob(filepath.Join(backup, "*", place.JournalName)); len(begun) == 0 {
		t.Error("no table's export is under way")
	}
	if _, _, err := manyResult(t.Context(), "count", "--all", "--table", backup+"/"); err == nil || !strings.Contains(err.Error(), "has no tables.json") {
		t.Errorf("an incomplete export of many tables is accepted: %v", err)
	}
	if _, sum, err := manyResult(t.Context(), "export", "--resume", backup, "--from-connection", from); err != nil || sum.Succeeded != len(names) {
		t.Fatalf("the totals are %+v, error %v", sum, err)
	}
	if job.IsThere(filepath.Join(backup, job.TablesJournal)) {
		t.Error("the checkpoint still exists")
	}
	if _, sum, err := manyResult(t.Context(), "verify", "--all", "--from", backup+"/", "--to-connection", from); err != nil || sum.Succeeded != len(names) {
		t.Errorf("the totals are %+v, error %v", sum, err)
	}
}

// TestManyTablesResumeAfterUnrecordedTable: a command died after a table was done, but before it recorded this. The resume keeps the table's export.
func TestManyTablesResumeAfterUnrecordedTable(t *testing.T) {
	t.Parallel()
	_, a, from := serveEmulator(t, emulator.Options{})
	dir, kept := filepath.Join(t.TempDir(), "points"), filepath.Join(t.TempDir(), "points")
	var once sync.Once
	_, _, to := serveEmulator(t, emulator.Options{OnRequest: func(e emulator.Event) {
		if e.Kind == fault.GetBlob && strings.Contains(e.Identity, "/table01/data/") { // the table's comparison
			once.Do(func() {
				if err := os.CopyFS(kept, os.DirFS(dir)); err != nil {
					t.Error(err)
				}
			})
		}
	}})
	manyTables(t, a, 2, 4)
	args := []string{"--from-connection", from, "--to-connection", to, "--workers", "1"}
	if _, _, err := manyResult(t.Context(), append(args, "export", "--all", "--to", "blob:backups/all", "--since", "1h", "--verify", "--checkpoint", dir)...); err != nil {
		t.Fatal(err)
	}
	if !job.IsThere(filepath.Join(kept, "table01"+job.TableExt)) {
		t.Fatal("the table has no checkpoint")
	}
	proof.Must(t, os.Rename(kept, dir))
	tables, sum, err := manyResult(t.Context(), append(args[:4], "copy", "--resume", dir)...)
	if err != nil || sum.Succeeded != 2 || tables[1].Rows != 20 {
		t.Errorf("the tables' results are %+v, error %v", tables, err)
	}
}
