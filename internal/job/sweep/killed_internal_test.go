package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// repeating is a service that answers the first query that has a token with the first page of the table.
type repeating struct {
	policy.Transporter
	did atomic.Bool
}

func (r *repeating) Do(req *http.Request) (*http.Response, error) {
	if q := req.URL.Query(); q.Has("NextPartitionKey") && r.did.CompareAndSwap(false, true) {
		q.Del("NextPartitionKey")
		q.Del("NextRowKey")
		req = req.Clone(req.Context())
		req.URL.RawQuery = q.Encode()
	}
	return r.Transporter.Do(req)
}

// TestResumedTokenHasThePreviousKey checks that a resumed sweep does not accept the previous page instead of the requested page.
func TestResumedTokenHasThePreviousKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		em, a := emulatortest.NewAccount(t, emulator.Options{})
		var rows []storage.Entity
		for i := range 40 {
			rows = append(rows, storage.Entity{Key: key.Key{Partition: "p", Row: fmt.Sprintf("%02d", i)}})
		}
		s := Spec{Source: emulatortest.Table(t, a, "source", rows), PageRows: 5}
		path := filepath.Join(t.TempDir(), "checkpoint")
		ctx, cancel := context.WithCancel(t.Context())
		pages := 0
		first, err := Count(ctx, s, Options{Checkpoint: newCheckpoint(t, path), Trace: func(Trace) {
			if pages++; pages == 3 {
				cancel()
			}
		}}, nil)
		if !errors.Is(err, task.ErrInterrupted) || first.Rows == 0 || first.Rows == 40 {
			t.Fatalf("the first run did %d rows, error %v; want an interrupt after some of 40 rows", first.Rows, err)
		}
		stale := &repeating{Transporter: em.Transport()}
		s.Source = emulatortest.Open(t, em, stale).Table("source")
		all, err := Count(t.Context(), s, Options{Checkpoint: readCheckpoint(t, path)}, nil)
		if err != nil || all.Rows != 40 || !stale.did.Load() {
			t.Errorf("got %d rows, error %v, want 40 rows; the service repeated a page: %v", all.Rows, err, stale.did.Load())
		}
	})
}

// recorder is an action that records its rows. Its units have ten rows.
type recorder struct {
	mu   sync.Mutex // guards keys
	keys []key.Key
}

func (*recorder) Split(rows []storage.Row) [][]storage.Row {
	return slices.Collect(slices.Chunk(rows, 10))
}

func (a *recorder) Do(_ context.Context, _ storage.RequestOptions, rows []storage.Row) (action.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range rows {
		a.keys = append(a.keys, r.Key)
	}
	return action.Result{Written: int64(len(rows))}, nil
}

// history holds the lines of a file and, after each line, the rows done and the queries made.
type history struct {
	lines   [][]byte
	done    []map[key.Key]bool
	queries []int64
	steals  []int // the lines that record a theft
	first   int   // the last line of the snapshot, which is written as a whole
}

// eventOf returns the event of a journal's line.
func eventOf(t *testing.T, one []byte) line {
	t.Helper()
	var wrapped struct{ Event line }
	_, text, _ := bytes.Cut(one, []byte(" "))
	proof.Must(t, json.Unmarshal(text, &wrapped))
	return wrapped.Event
}

// readHistory reads a checkpoint's text. done contains the rows that were done before.
func readHistory(t *testing.T, text []byte, rows []storage.Entity, done map[key.Key]bool) history {
	t.Helper()
	j := history{first: 1} // for a snapshot without steps
	queries := int64(0)
	for i, one := range bytes.SplitAfter(text, []byte("\n")) {
		if len(one) == 0 {
			break
		}
		l := eventOf(t, one)
		queries += l.Totals.Queries
		if l.Span != nil {
			done = maps.Clone(done)
			for _, r := range rows {
				if l.Span.contains(r.Key) {
					done[r.Key] = true
				}
			}
		}
		if l.Steal != 0 {
			j.steals = append(j.steals, i)
		}
		if l.Node != nil {
			j.first = i
		}
		j.lines, j.done, j.queries = append(j.lines, one), append(j.done, done), append(j.queries, queries)
	}
	return j
}

// TestSweepResumesAtAnyLine runs a sweep with idle workers that steal, and resumes from the journal as it was after each line. Half of the resumed runs are
// killed once more. Every row must be done once, and rows and queries must be counted once. The test uses all lines next to a theft, and some other
// lines.
func TestSweepResumesAtAnyLine(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	rows := someOf(sourceTree(t), testsize.Slow(32, 32, 16))
	path := filepath.Join(t.TempDir(), "checkpoint")
	synctest.Test(t, func(t *testing.T) {
		_, a := emulatortest.NewAccount(t, emulator.Options{Faults: "seed=4; latency=5ms..20ms; short-page p=0.1; empty-page p=0.05"})
		source := emulatortest.Table(t, a, "source", rows)
		run := func(c *Checkpoint) (journalText []byte, done []key.Key, queries int64, totals Totals) {
			record := &recorder{}
			s := Spec{Source: source, Steal: true, PageRows: 25}
			totals, err := Do(t.Context(), s, Options{Checkpoint: c, Workers: 16, Trace: func(Trace) { queries++ }}, record)
			proof.Must(t, err)
			text, err := os.ReadFile(path)
			proof.Must(t, err)
			return text, record.keys, queries, totals
		}
		c := newCheckpoint(t, path)
		text, _, _, _ := run(c)
		first := readHistory(t, text, rows, map[key.Key]bool{})
		if len(first.steals) < 5 {
			t.Fatalf("the journal has only %d thefts in %d lines", len(first.steals), len(first.lines))
		}
		resume := func(j history, at int) history {
			proof.Must(t, os.WriteFile(path, bytes.Join(j.lines[:at+1], nil), 0o600))
			c := readCheckpoint(t, path)
			text, keys, queries, totals := run(c)
			all := maps.Clone(j.done[at])
			for _, k := range keys {
				if all[k] {
					t.Fatalf("killed at line %d: %q was done twice\n%s", at, k, bytes.Join(j.lines[:at+1], nil))
				}
				all[k] = true
			}
			if n := int64(len(rows)); int64(len(all)) != n || totals.Rows != n || totals.Written != n {
				t.Fatalf("killed at line %d: %d rows were done, %d counted and %d counted as written, want %d each\n%s", at, len(all), totals.Rows, totals.Written, n, bytes.Join(j.lines[:at+1], nil))
			}
			if totals.Queries != j.queries[at]+queries {
				t.Errorf("killed at line %d: %d queries were counted, but %d were made before and %d after", at, totals.Queries, j.queries[at], queries)
			}
			return readHistory(t, text, rows, j.done[at])
		}
		t.Logf("the journal has %d thefts in %d lines", len(first.steals), len(first.lines))
		for at := first.first; at < len(first.lines); at++ {
			theft := slices.ContainsFunc(first.steals, func(i int) bool { return i == at || i == at+1 })
			if at%testsize.Slow(16, 8, 4) > 0 && !theft {
				continue
			}
			if again := resume(first, at); at%2 == 0 {
				resume(again, again.first+at*7%(len(again.lines)-again.first))
			}
		}
	})
}

// knownOnDisk returns how many bytes of the file a line records as being on the disk.
func knownOnDisk(t *testing.T, one []byte) int {
	t.Helper()
	var l struct{ Disk int }
	_, text, _ := bytes.Cut(one, []byte(" "))
	proof.Must(t, json.Unmarshal(text, &l))
	return l.Disk
}

// TestPagesAreOnDiskBeforeTheirRowsAreDeleted checks that a page's line is on the disk when the first rows of the page are deleted. If a machine lost
// the line, the deleted rows would never be counted.
func TestPagesAreOnDiskBeforeTheirRowsAreDeleted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "checkpoint")
	synctest.Test(t, func(t *testing.T) {
		var rows []storage.Entity
		for i := range 400 {
			rows = append(rows, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("p%02d", i/7), Row: fmt.Sprint(i % 7)}})
		}
		_, a := emulatortest.NewAccount(t, emulator.Options{Faults: "seed=1; latency=1ms..20ms"})
		s := Spec{Source: emulatortest.Table(t, a, "table", rows), Steal: true, PageRows: 25}
		_, err := Do(t.Context(), s, Options{Checkpoint: newCheckpoint(t, path), Workers: 8}, action.Delete{Table: s.table()})
		proof.Must(t, err)
		text, err := os.ReadFile(path)
		proof.Must(t, err)
		at, ends, checked := 0, map[int64]int{}, 0 // ends contains the ends of the lines of pages
		for one := range bytes.Lines(text) {
			at += len(one)
			l := eventOf(t, one)
			if l.Read != 0 {
				ends[l.Read] = at
			}
			if l.Did != 0 {
				checked++
				if known := knownOnDisk(t, one); known < ends[l.Did] {
					t.Fatalf("rows of a page whose line ends at byte %d were deleted when %d were on the disk", ends[l.Did], known)
				}
			}
		}
		if checked < 50 {
			t.Errorf("checked only %d units", checked)
		}
	})
}

// pageReader is an action whose units are pages. It searches the checkpoint for each page.
type pageReader struct {
	recorder
	path string
}

func (*pageReader) Split(rows []storage.Row) [][]storage.Row { return [][]storage.Row{rows} }

func (a *pageReader) Do(ctx context.Context, o storage.RequestOptions, rows []storage.Row) (action.Result, error) {
	text, err := os.ReadFile(a.path)
	if err != nil {
		return action.Result{}, err
	}
	last, err := json.Marshal(rows[len(rows)-1].Key)
	if line := fmt.Sprintf(`"through":%s,"left":%d`, last, len(rows)); err != nil || !bytes.Contains(text, []byte(line)) {
		return action.Result{}, fmt.Errorf("the file has no %s, %w", line, err)
	}
	return a.recorder.Do(ctx, o, rows)
}

// TestUnitsStartAfterTheirPageIsWritten checks that a unit starts only after its page's line is in the file. A resume depends on this. The test is not
// parallel, because other tests would delay units that start too early.
func TestUnitsStartAfterTheirPageIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	c := newCheckpoint(t, path)
	var rows []storage.Entity
	for i := range 600 { // many pages, because a unit that starts too early may find its page's line by chance
		rows = append(rows, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("p%03d", i)}})
	}
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	s := Spec{Source: emulatortest.Table(t, a, "table", rows), Steal: true, PageRows: 3}
	if totals, err := Do(t.Context(), s, Options{Checkpoint: c}, &pageReader{path: path}); err != nil || totals.Rows != 600 {
		t.Errorf("got the totals %+v, error %v; want 600 rows", totals, err)
	}
}
