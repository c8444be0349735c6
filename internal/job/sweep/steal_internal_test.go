package sweep

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
	"tablesweep/internal/storage/pace"
	"tablesweep/internal/task/memory"
)

// sourceTree returns the files of Go's source tree as rows. The partition key is the directory, and the row key is the file.
func sourceTree(t testing.TB) []storage.Entity {
	t.Helper()
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	proof.Must(t, err)
	root := filepath.Join(strings.TrimSpace(string(goroot)), "src")
	var rows []storage.Entity
	err = fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			dir, file := filepath.Split(filepath.ToSlash(path))
			rows = append(rows, storage.Entity{Key: key.Key{Partition: "src|" + strings.ReplaceAll(dir, "/", "|"), Row: file}})
		}
		return err
	})
	proof.Must(t, err)
	slices.SortFunc(rows, func(a, b storage.Entity) int { return a.Key.Compare(b.Key) })
	if len(rows) < 5000 {
		t.Fatalf("%s has only %d files", root, len(rows))
	}
	return rows
}

// boundFor returns the length of the longest chain of queries in a scan that knows the position of all rows. A query has at most four successors.
func boundFor(pages, workers int) int {
	ticks := 0
	for w := 1; pages > 0; ticks++ {
		pages -= w
		w = min(workers, 4*w)
	}
	return ticks
}

// count counts the rows with the given number of workers, and returns the duration and the totals.
func count(t testing.TB, s Spec, workers int) (time.Duration, Totals) {
	t.Helper()
	r := newRun(s, Options{Workers: workers}, counting(nil), false)
	began := time.Now()
	totals, err := r.do(t.Context())
	proof.Must(t, err)
	return time.Since(began), totals
}

// openTree returns an account with the given faults, which set the latency of queries, and the table of the rows.
func openTree(t testing.TB, rows []storage.Entity, faults string) (*emulator.Emulator, *storage.Table) {
	t.Helper()
	e, a := emulatortest.NewAccount(t, emulator.Options{})
	source := emulatortest.Table(t, a, "source", rows)
	proof.Must(t, e.SetFaults(faults))
	return e, source
}

// Pages of long keys leave enough memory for 64 concurrent queries.
func TestPagesOfKeysLeaveRoom(t *testing.T) {
	t.Parallel()
	rows := make([]storage.Entity, storage.PageRows)
	for i := range rows {
		rows[i].Key = key.Key{Partition: strings.Repeat("directory|", 5), Row: fmt.Sprintf("file-%010d", i)}
	}
	_, source := openTree(t, rows, "")
	p, err := source.Query(t.Context(), storage.Query{Select: []string{}})
	proof.Must(t, err)
	if got := Weight(p); len(p.Rows) != len(rows) || 64*got > memory.Command {
		t.Errorf("a page of %d rows uses %d bytes, want %d rows and at most %d bytes", len(p.Rows), got, len(rows), memory.Command/64)
	}
}

// Idle workers do not steal from the steps of other strategies.
func TestStrategiesPreventStealing(t *testing.T) {
	t.Parallel()
	rows := someOf(sourceTree(t), 4)
	synctest.Test(t, func(t *testing.T) {
		_, source := openTree(t, rows, "latency=10ms")
		const page = 50
		_, totals := count(t, Spec{Source: source, Strategy: scan.Serial{}, PageRows: page}, 64)
		if want := int64(len(rows)+page-1) / page; totals.Queries != want {
			t.Errorf("serial made %d queries, want %d", totals.Queries, want)
		}
		path := filepath.Join(t.TempDir(), "checkpoint")
		c := newCheckpoint(t, path)
		_, err := Count(t.Context(), Spec{Source: source, Strategy: scan.Prefix{}, PageRows: page}, Options{Checkpoint: c}, nil)
		proof.Must(t, err)
		if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, []byte(`"steal"`)) {
			t.Errorf("the journal of the strategy prefix has thefts, or the sweep failed: %v", err)
		}
	})
}

// someOf returns every n-th row.
func someOf(rows []storage.Entity, n int) []storage.Entity {
	var some []storage.Entity
	for i := 0; i < len(rows); i += n {
		some = append(some, rows[i])
	}
	return some
}

// A sweep in order reads ahead as far as its memory allows. Stealing must not exceed the memory, and must not fill it with pages that are needed much
// later.
func TestOrderedStealing(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	rows := sourceTree(t)
	synctest.Test(t, func(t *testing.T) {
		_, source := openTree(t, rows, "latency=1s")
		const pageRows, room = 50, 16
		page := 0
		took := func(steal bool, bytes int) time.Duration {
			most, read := 0, 0
			var got []storage.Entity
			var r *run
			o := Options{Workers: 64, Memory: budgetOf(bytes), Trace: func(q Trace) { most = max(most, r.state.frontier.bytes); read++ }}
			r = newRun(Spec{Source: source, Steal: steal, PageRows: pageRows}, o, inOrder(func(rows []storage.Row) error {
				got = append(got, storage.Page{Rows: rows}.Entities()...)
				return nil
			}), true)
			r.pacer.source.pace = pace.New(64, 64)
			began := time.Now()
			_, err := r.do(t.Context())
			proof.Must(t, err)
			if !slices.EqualFunc(got, rows, storage.Equal) {
				t.Errorf("got %d rows, want the %d of the table in order", len(got), len(rows))
			}
			page = r.pacer.largest
			if most > bytes+page { // the page that all other pages wait for may always be read
				t.Errorf("%d bytes of pages were in memory, want at most %d bytes and one page", most, bytes)
			}
			t.Logf("stealing %v, memory for %d bytes: took %v, made %d queries, held at most %d bytes of pages", steal, bytes, time.Since(began), read, most)
			return time.Since(began)
		}
		serial := took(false, memory.Command/2)
		if took(true, memory.Command/2) > serial/5 {
			t.Error("with room for every page, the sweep took more than a fifth of the time of one worker")
		}
		if stolen := took(true, room*page); stolen >= serial {
			t.Errorf("the sweep took %v with room for %d pages, and %v page after page", stolen, room, serial)
		}
	})
}

// If the target is the bottleneck, idle workers do not steal, because further steps would only make the frontier longer.
func TestBusyTargetStopsStealing(t *testing.T) {
	t.Parallel()
	rows := sourceTree(t)
	synctest.Test(t, func(t *testing.T) {
		_, source := openTree(t, rows, "latency=10ms")
		const page = 50
		longest := 0
		var r *run
		r = newRun(Spec{Source: source, Steal: true, PageRows: page}, Options{Workers: 8, Trace: func(Trace) {
			longest = max(longest, r.state.frontier.steps.Len())
		}}, slow{}, false)
		totals, err := r.do(t.Context())
		if err != nil || totals.Rows != int64(len(rows)) {
			t.Fatalf("got %d rows, error %v", totals.Rows, err)
		}
		t.Logf("made %d queries, with at most %d steps in the frontier", totals.Queries, longest)
		if pages := int64(len(rows) / page); totals.Queries > pages*3/2 || longest > 64 {
			t.Errorf("%d queries for %d pages, and up to %d steps in the frontier", totals.Queries, pages, longest)
		}
	})
}

// slow is an action whose units take three times as long as a query.
type slow struct{}

func (slow) Split(rows []storage.Row) [][]storage.Row {
	return slices.Collect(slices.Chunk(rows, 10))
}

func (slow) Do(_ context.Context, _ storage.RequestOptions, rows []storage.Row) (action.Result, error) {
	time.Sleep(30 * time.Millisecond)
	return action.Result{Written: int64(len(rows))}, nil
}
