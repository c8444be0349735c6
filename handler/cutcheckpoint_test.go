package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"tablesweep/internal/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
)

// TestCutCheckpoints kills deletions, enqueues and repairs, cuts their checkpoints at lines' ends, as a machine that crashes may, and resumes them.
// Nothing shows such a cut. So no resumed one may say that its figures are all.
func TestCutCheckpoints(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	rows := manyRows(testsize.Slow(10, 24, 100), 20)
	for _, tt := range []struct {
		name  string
		args  []string
		wants string // of the last line
	}{
		{"delete", []string{"delete", "--table", "rows", "--yes"}, `deleted at least \d+ of \d+ rows`},
		{"enqueue", []string{"enqueue", "--table", "rows", "--queue", "work"}, `, perhaps more sent twice`},
		{"repair", []string{"verify", "--from", "rows", "--to", "copies", "--repair"}, `repaired at least \d+ rows?`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, a, connection := serveEmulator(t, emulator.Options{Faults: "short-page p=1 rows=10"})
			g := newGate(t, connection)
			emulatortest.Table(t, a, "rows", rows)
			emulatortest.Table(t, a, "copies", nil)
			queue, err := a.Queue("work")
			proof.Must(t, err)
			proof.Must(t, queue.Create(t.Context()))
			sent := func() int {
				n, err := queue.Length(t.Context())
				proof.Must(t, err)
				return n
			}
			path := filepath.Join(t.TempDir(), "checkpoint")
			command := func(args ...string) *exec.Cmd {
				c := exec.Command("tablesweep", append(args, "--progress", "none")...)
				c.Env = append(os.Environ(), "AzureWebJobsStorage="+g.connection)
				return c
			}
			g.kill(t, command(append(tt.args, "--checkpoint", path)...), func() bool {
				return int(g.batches.Load())*10 >= len(rows)/2 || sent() >= len(rows)/2
			})
			text, err := os.ReadFile(path)
			proof.Must(t, err)
			lines, killed, lost := bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")), sent(), 0
			cuts := testsize.Slow(2, 12, 70)
			for i := range cuts {
				kept := first(t, lines[0]) + i*(len(lines)-first(t, lines[0]))/cuts
				proof.Must(t, os.WriteFile(path, bytes.Join(lines[:kept], nil), 0o600))
				args := []string{tt.args[0], "--resume", path}
				if tt.args[0] == "delete" {
					args = append(args, "--yes")
				}
				before := sent()
				if i%2 == 1 {
					out, err := command(args...).Output()
					if err != nil || !regexp.MustCompile(tt.wants).Match(out) {
						t.Errorf("%d of %d lines: %s, %v; want %s", kept, len(lines), out, err, tt.wants)
					}
					continue
				}
				var r struct {
					Written, Repaired, PossibleDuplicates int64
					MoreBefore                            bool
				}
				out, err := command(append(args, "--json")...).Output()
				last := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
				if json.Unmarshal(last[len(last)-1], &r) != nil || err != nil || !r.MoreBefore {
					t.Fatalf("%d of %d lines: %s, %v", kept, len(lines), out, err)
				}
				if twice := killed + sent() - before - len(rows); tt.args[0] == "enqueue" && int64(twice) > r.PossibleDuplicates || tt.args[0] != "enqueue" && r.Written+r.Repaired < int64(len(rows)) {
					lost++
				}
			}
			if lost == 0 {
				t.Error("no cut lost what was done")
			}
		})
	}
}

// first returns how many lines a checkpoint begins with at least: these are written at once.
func first(t *testing.T, opening []byte) int {
	t.Helper()
	var o struct{ Event struct{ Lines int } }
	_, text, _ := bytes.Cut(opening, []byte(" "))
	proof.Must(t, json.Unmarshal(text, &o))
	return 1 + o.Event.Lines
}
