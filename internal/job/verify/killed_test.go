package verify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/action"
	"tablesweep/internal/file/journal"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// mustOpen returns the checkpoint in a journal.
func mustOpen(t *testing.T, f *journal.File, err error) *sweep.Checkpoint {
	t.Helper()
	proof.Must(t, err)
	c, err := sweep.NewCheckpoint(f)
	proof.Must(t, err)
	return c
}

// TestBothTokensHaveThePreviousKey checks that the token of a merged page contains, for each table, the key before the table's own token.
func TestBothTokensHaveThePreviousKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, a := emulatortest.NewAccount(t, emulator.Options{})
		var rows []storage.Entity
		for i := range 40 {
			rows = append(rows, storage.Entity{Key: key.Key{Partition: "p", Row: fmt.Sprintf("%02d", i)}})
		}
		path := filepath.Join(t.TempDir(), "checkpoint")
		f, err := journal.New(path, []byte(`{}`))
		s := sweep.Spec{Source: emulatortest.Table(t, a, "source", rows), PageRows: 5}
		_, err = verify.Compare(t.Context(), s, emulatortest.Table(t, a, "destination", rows[:30]), verify.Options{Options: sweep.Options{Checkpoint: mustOpen(t, f, err)}})
		proof.Must(t, err)
		text, err := os.ReadFile(path)
		proof.Must(t, err)
		tokens := bytes.Count(text, []byte(`{\"t\":{`))
		if before := bytes.Count(text, []byte(`\"a\":{\"Partition\":\"p\",\"Row\"`)); tokens < 10 || before < tokens {
			t.Errorf("got %d tokens, %d of them with the previous key\n%s", tokens, before, text)
		}
	})
}

// killed are kinds of work with a twin's tables during which processes are killed, with the expected result and the expected rows of the destination.
var killed = map[string]struct {
	do   func(ctx context.Context, w twin, destination *storage.Table) (any, error)
	want func(w *twin) (result any, destination map[key.Key]int)
}{
	"copy": {func(ctx context.Context, w twin, to *storage.Table) (any, error) {
		t, err := sweep.Do(ctx, w.scan, w.options.Options, action.Copy{Destination: to})
		return [2]int64{t.Rows, t.Written}, err
	}, func(w *twin) (any, map[key.Key]int) {
		source, _ := w.synced()
		all := maps.Clone(w.tables[1])
		maps.Copy(all, source)
		return [2]int64{int64(len(source)), int64(len(source))}, all
	}},
	"delete": {func(ctx context.Context, w twin, to *storage.Table) (any, error) {
		w.scan.Source = to
		t, err := sweep.Do(ctx, w.scan, w.options.Options, action.Delete{Table: to})
		return [2]int64{t.Rows, t.Written}, err
	}, func(w *twin) (any, map[key.Key]int) {
		gone := w.within(w.tables[1])
		left := maps.Clone(w.tables[1])
		maps.DeleteFunc(left, func(k key.Key, _ int) bool { _, is := gone[k]; return is })
		return [2]int64{int64(len(gone)), int64(len(gone))}, left
	}},
	"delete listed": {func(ctx context.Context, w twin, to *storage.Table) (any, error) {
		w.scan.Source, w.scan.Filter, w.scan.Keys = to, "", &sweep.Keys{}
		for k := range w.tables[1] {
			w.scan.Keys.Add(k)
		}
		t, err := sweep.Do(ctx, w.scan, w.options.Options, action.Delete{Table: to})
		return [2]int64{t.Rows, t.Written}, err
	}, func(w *twin) (any, map[key.Key]int) {
		return [2]int64{int64(len(w.tables[1])), int64(len(w.tables[1]))}, map[key.Key]int{}
	}},
	"verify": {func(ctx context.Context, w twin, to *storage.Table) (any, error) {
		r, err := verify.Compare(ctx, w.scan, to, w.options)
		return found(r), err
	}, func(w *twin) (any, map[key.Key]int) { return w.want, w.tables[1] }},
	"sync": {func(ctx context.Context, w twin, to *storage.Table) (any, error) { // a sync is not resumed, but run again
		w.options.Checkpoint = nil
		f, err := verify.NewPlanFile()
		if err != nil {
			return nil, err
		}
		defer f.Close()
		w.options.Depth, w.options.AllowExtra, w.options.Plan = verify.Exact, false, verify.NewPlan(f, true)
		if _, err = verify.Compare(ctx, w.scan, to, w.options); err == nil {
			_, err = w.options.Plan.Apply(ctx, w.scan, to, w.options.Options, false)
		}
		return nil, err
	}, func(w *twin) (any, map[key.Key]int) {
		source, extra := w.synced()
		all := maps.Clone(w.tables[1])
		maps.Copy(all, source)
		maps.DeleteFunc(all, func(k key.Key, _ int) bool { _, is := extra[k]; return is })
		return nil, all
	}},
}

// TestKilledWorkIsCompleted works on random tables with processes that are killed at any request. The answers of running requests and the last lines of the journal
// are lost. All work must be done and counted once, and all differences must be listed.
func TestKilledWorkIsCompleted(t *testing.T) {
	t.Parallel()
	for name, work := range killed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, deaths := filepath.Join(t.TempDir(), "checkpoint"), 0
			for seed := range uint64(80 / slowdown) {
				synctest.Test(t, func(t *testing.T) {
					r := rand.New(rand.NewPCG(seed, 3))
					w := randomTwin(r)
					em, a := emulatortest.NewAccount(t, emulator.Options{Faults: w.faults})
					source, destination := w.fill(t, a)
					want, has := work.want(&w)
					lifetime := 1 + r.IntN(40)
					for kills := 0; ; kills++ {
						process := &emulatortest.Process{Next: em.Transport()}
						if kills < 5 {
							process.DieWith(1+r.IntN(lifetime), r.IntN(2) == 0)
						}
						b := emulatortest.Open(t, em, process)
						f, err := journal.Read(path)
						if errors.Is(err, os.ErrNotExist) {
							f, err = journal.New(path, []byte(`{}`))
						}
						w.scan.Source, w.options.Checkpoint = b.Table(source.Name()), mustOpen(t, f, err)
						got, err := work.do(t.Context(), w, b.Table(destination.Name()))
						if err == nil {
							if diff := cmp.Diff(want, got); diff != "" {
								t.Fatalf("seed %d, after %d kills (-want +got)\n%s", seed, kills, diff)
							}
							break
						}
						if deaths++; !process.Dead() {
							t.Fatalf("seed %d: got error %v", seed, err)
						}
						loseLines(t, path, r.IntN(4))
					}
					if diff := cmp.Diff(has, rowsOf(t, destination)); diff != "" {
						t.Fatalf("seed %d: the destination (-want +got)\n%s", seed, diff)
					}
					_ = os.Remove(path) // a sync has no checkpoint
				})
			}
			if deaths < 80/slowdown {
				t.Errorf("processes were killed only %d times", deaths)
			}
		})
	}
}

// loseLines removes the given number of lines at the end of a checkpoint that record units, because such lines are written some time after the units
// were done.
func loseLines(t *testing.T, path string, n int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	proof.Must(t, err)
	lines := bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	last := func() []byte { return lines[len(lines)-1] }
	for ; n > 0 && (bytes.Contains(last(), []byte(`"event":{"did"`)) || bytes.Contains(last(), []byte(`"event":{"end"`))); n-- {
		lines = lines[:len(lines)-1]
	}
	proof.Must(t, os.WriteFile(path, append(bytes.TrimSuffix(bytes.Join(lines, nil), []byte("\n")), '\n'), 0o600))
}
