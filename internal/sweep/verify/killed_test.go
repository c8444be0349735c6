package verify_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"tablesweep/internal/action"
	"tablesweep/internal/emulator"
	"tablesweep/internal/file/journal"
	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/verify"
)

func newCheckpoint(t *testing.T, path string) *sweep.Checkpoint {
	t.Helper()
	f, err := journal.New(path, []byte(`{}`))
	proof.Must(t, err)
	c, err := sweep.NewCheckpoint(f)
	proof.Must(t, err)
	return c
}

func readCheckpoint(t *testing.T, path string, lines ...[]byte) *sweep.Checkpoint {
	t.Helper()
	if lines != nil {
		proof.Must(t, os.WriteFile(path, bytes.Join(lines, nil), 0o600))
	}
	f, err := journal.Read(path)
	proof.Must(t, err)
	c, err := sweep.NewCheckpoint(f)
	proof.Must(t, err)
	return c
}

// history returns the lines of a checkpoint, and how many of them are its snapshot, which is written
// as a whole.
func history(t *testing.T, path string) (lines [][]byte, snapshot int) {
	t.Helper()
	text, err := os.ReadFile(path)
	proof.Must(t, err)
	lines = bytes.SplitAfter(text, []byte("\n"))
	lines = lines[:len(lines)-1]
	for snapshot = 2; snapshot < len(lines) && records(lines[snapshot], "node"); snapshot++ {
	}
	return lines, snapshot
}

// records reports whether a line's event begins with a member.
func records(line []byte, member string) bool {
	return bytes.Contains(line, []byte(`"event":{"`+member+`"`))
}

// TestKilledAtAnyLine compares random tables, and goes on from what the journal was
// after each of its lines. Everything must be counted once, and listed.
func TestKilledAtAnyLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "checkpoint")
	for seed := range uint64(30 / slowdown) {
		synctest.Test(t, func(t *testing.T) {
			w := randomTwin(rand.New(rand.NewPCG(seed, 2)))
			_, a := emulatortest.NewAccount(t, emulator.Options{Faults: w.faults})
			source, destination := w.fill(t, a)
			w.scan.Source = source
			run := func(c *sweep.Checkpoint) {
				t.Helper()
				w.options.Checkpoint = c
				r, err := verify.Compare(t.Context(), w.scan, destination, w.options)
				proof.Must(t, err)
				w.same(t, r)
			}
			run(newCheckpoint(t, path))
			lines, snapshot := history(t, path)
			for n := snapshot; n <= len(lines); n += 1 + len(lines)/10 {
				run(readCheckpoint(t, path, lines[:n]...))
				if again, snapshot := history(t, path); n%2 == 0 {
					run(readCheckpoint(t, path, again[:snapshot+n%(1+len(again)-snapshot)]...))
				}
				if t.Failed() {
					t.Fatalf("seed %d, killed behind line %d", seed, n)
				}
			}
			proof.Must(t, os.Remove(path))
		})
	}
}

// TestBothSidesKnowWhatIsBefore: the token of a page of both tables says for each of them which key is before its own token.
func TestBothSidesKnowWhatIsBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, a := emulatortest.NewAccount(t, emulator.Options{})
		var rows []storage.Entity
		for i := range 40 {
			rows = append(rows, storage.Entity{Key: key.Key{Partition: "p", Row: fmt.Sprintf("%02d", i)}})
		}
		path := filepath.Join(t.TempDir(), "checkpoint")
		s := sweep.Spec{Source: emulatortest.Table(t, a, "source", rows), PageRows: 5}
		_, err := verify.Compare(t.Context(), s, emulatortest.Table(t, a, "destination", rows[:30]), verify.Options{Options: sweep.Options{Checkpoint: newCheckpoint(t, path)}})
		proof.Must(t, err)
		text, err := os.ReadFile(path)
		proof.Must(t, err)
		tokens := bytes.Count(text, []byte(`{\"t\":{`))
		if before := bytes.Count(text, []byte(`\"a\":{\"Partition\":\"p\",\"Row\"`)); tokens < 10 || before < tokens {
			t.Errorf("%d tokens, %d of them with the key before\n%s", tokens, before, text)
		}
	})
}

// TestKilledRepair repairs random tables by processes that die at any request, with the
// answers of what is under way lost, and the last lines of the journal.
func TestKilledRepair(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "checkpoint")
	for seed := range uint64(30 / slowdown) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			w := randomTwin(r)
			em, a := emulatortest.NewAccount(t, emulator.Options{Faults: w.faults})
			source, destination := w.fill(t, a)
			c := newCheckpoint(t, path)
			kills, lifetime := 0, 1+r.IntN(40)
			for ; ; kills++ {
				mortal := &emulatortest.Process{Next: em.Transport()}
				if kills < 5 {
					mortal.DieWith(1+r.IntN(lifetime), r.IntN(2) == 0)
				}
				b := emulatortest.Open(t, em, mortal)
				w.scan.Source = b.Table(source.Name())
				w.options.Checkpoint = c
				w.options.Repair = &action.Copy{Destination: b.Table(destination.Name())}
				got, err := verify.Compare(t.Context(), w.scan, b.Table(destination.Name()), w.options)
				if err == nil {
					w.want.Repaired = w.want.Missing + w.want.Different
					w.same(t, got)
					break
				}
				if !mortal.Dead() {
					t.Fatalf("seed %d: %v", seed, err)
				}
				// What units did is written some time after they did it.
				lines, _ := history(t, path)
				for n := r.IntN(4); n > 0 && (records(lines[len(lines)-1], "did") || records(lines[len(lines)-1], "end")); n-- {
					lines = lines[:len(lines)-1]
				}
				c = readCheckpoint(t, path, lines...)
			}
			for k, v := range w.tables[0] {
				if inScan := w.scan.Bounds.Range().Contains(k) && (w.scan.Filter == "" || v < 2); !inScan || w.options.Depth != verify.Exact {
					continue
				}
				if e, ok, err := destination.Get(t.Context(), k); !ok || err != nil || e.Get("V") != fmt.Sprint(v) {
					t.Errorf("the destination has %v %+v, want %d; %v", ok, e, v, err)
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d, after %d kills", seed, kills)
			}
			proof.Must(t, os.Remove(path))
		})
	}
}
