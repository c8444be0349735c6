package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"tablesweep/internal/emulator"
	"tablesweep/internal/file/journal"
	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// TestDamagedCheckpoint goes on from a checkpoint that somebody has changed, or whose end a machine has lost.
// It is refused, or every row is done and counted once. One that has lost only what was not known
// to be on the disk is never refused.
func TestDamagedCheckpoint(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "checkpoint")
	synctest.Test(t, func(t *testing.T) {
		var rows []storage.Entity
		for i := range 240 {
			rows = append(rows, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("p%02d", i/20), Row: fmt.Sprintf("%02d", i%20)}})
		}
		_, a := emulatortest.NewAccount(t, emulator.Options{Faults: "seed=4; latency=300ms..900ms; short-page p=0.1"})
		source := emulatortest.Table(t, a, "source", rows)
		run := func(c *Checkpoint) (Totals, []key.Key, error) {
			record := &recorder{}
			totals, err := Do(t.Context(), Spec{Source: source, Steal: true, PageRows: 25}, Options{Checkpoint: c, Workers: 8}, record)
			return totals, record.keys, err
		}
		if _, _, err := run(newCheckpoint(t, path)); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		proof.Must(t, err)
		was := readHistory(t, text, rows, map[key.Key]bool{})
		known, snapshot := knownOnDisk(t, was.lines), len(bytes.Join(was.lines[:was.first+1], nil))
		if half := len(text) / 2; known < half || known > len(text)-1000 {
			t.Fatalf("%d of %d bytes were known to be on the disk", known, len(text))
		}
		// resume goes on from a text that differs, and reports whether it was taken.
		resume := func(how string, text []byte, same int) bool {
			proof.Must(t, os.WriteFile(path, text, 0o600))
			file, err := journal.Read(path)
			if errors.Is(err, journal.ErrDamaged) && strings.Contains(err.Error(), path+" is damaged: line ") {
				return false
			}
			if err != nil {
				t.Fatalf("%s: %v", how, err)
			}
			c, err := NewCheckpoint(file)
			if err != nil {
				t.Fatalf("%s: %v", how, err)
			}
			totals, keys, err := run(c)
			if err != nil {
				t.Fatalf("%s: %v", how, err)
			}
			done := maps.Clone(was.done[same-1])
			for _, k := range keys {
				done[k] = true
			}
			if n := len(rows); len(done) != n || totals.Rows != int64(n) || totals.Written != int64(n) {
				t.Fatalf("%s: did %d of %d rows, told %d and %d written", how, len(done), n, totals.Rows, totals.Written)
			}
			return true
		}
		r := rand.New(rand.NewPCG(27, 2))
		refused, mutants := 0, testsize.Slow(60, 500, 2000)
		for range mutants {
			how, mutant := mutate(r, was.lines)
			if !resume(how, mutant, sameLines(was.lines, mutant)) {
				refused++
			}
		}
		t.Logf("%d of %d mutants were refused", refused, mutants)
		if refused < mutants/4 || refused > mutants*9/10 {
			t.Error("the mutations are one-sided")
		}
		for range testsize.Slow(15, 120, 500) {
			// A machine may go down at any time: then the file has a part of what it has now.
			end := was.first + 1 + r.IntN(len(was.lines)-was.first-1)
			earlier := bytes.Join(was.lines[:end+1], nil)
			how, tail := loseTail(r, earlier, max(snapshot, knownOnDisk(t, was.lines[:end+1])))
			if same := sameLines(was.lines, tail); !resume(how, tail, same) {
				t.Fatalf("%s: refused", how)
			}
		}
	})
}

// knownOnDisk returns how much of the file its lines know to be on the disk.
func knownOnDisk(t *testing.T, lines [][]byte) (most int) {
	t.Helper()
	for _, one := range lines {
		var l struct{ Disk int }
		_, text, _ := bytes.Cut(one, []byte(" "))
		proof.Must(t, json.Unmarshal(text, &l))
		most = max(most, l.Disk)
	}
	return most
}

// sameLines returns how many lines a text begins with that are the same.
func sameLines(lines [][]byte, text []byte) (n int) {
	for n < len(lines) && bytes.HasPrefix(text, lines[n]) {
		text = text[len(lines[n]):]
		n++
	}
	return n
}

// mutate changes a line, a digit, a name, or a few bytes.
func mutate(r *rand.Rand, lines [][]byte) (how string, text []byte) {
	i, j := r.IntN(len(lines)), r.IntN(len(lines))
	mutant := slices.Clone(lines)
	switch r.IntN(8) {
	case 0:
		how, mutant = fmt.Sprintf("line %d gone", i+1), slices.Delete(mutant, i, i+1)
	case 1:
		how, mutant[i], mutant[j] = fmt.Sprintf("lines %d and %d exchanged", i+1, j+1), mutant[j], mutant[i]
	case 2:
		how, mutant = fmt.Sprintf("line %d again before line %d", i+1, j+1), slices.Insert(mutant, j, mutant[i])
	case 3:
		how, mutant[i] = fmt.Sprintf("line %d in place of line %d", j+1, i+1), mutant[j]
	case 4: // the CRC stays
		how, mutant[i] = fmt.Sprintf("the JSON of line %d in line %d", j+1, i+1), append(slices.Clone(mutant[i][:9]), mutant[j][9:]...)
	case 5:
		line := slices.Clone(mutant[i])
		at := 9 + bytes.IndexAny(line[9:], "0123456789")
		line[at] = '0' + (line[at]-'0'+byte(1+r.IntN(9)))%10
		how, mutant[i] = fmt.Sprintf("a digit of line %d", i+1), line
	case 6:
		names := []string{"read", "did", "end", "rows", "written", "totals", "children", "span", "through", "left"}
		from, to := names[r.IntN(len(names))], names[r.IntN(len(names))]
		how, mutant[i] = fmt.Sprintf("%s becomes %s in line %d", from, to, i+1), bytes.Replace(mutant[i], []byte(from), []byte(to), 1)
	default:
		line := slices.Clone(mutant[i])
		at := r.IntN(len(line))
		line[at] ^= 1 << r.IntN(8)
		how, mutant[i] = fmt.Sprintf("a bit of byte %d of line %d", at, i+1), line
	}
	return how, bytes.Join(mutant, nil)
}

// loseTail loses some of what lies behind the first bytes of a file.
func loseTail(r *rand.Rand, text []byte, known int) (how string, left []byte) {
	left = slices.Clone(text)
	if known == len(left) {
		return "whole", left
	}
	at := known + r.IntN(len(left)-known)
	switch r.IntN(3) {
	case 0:
		return fmt.Sprintf("cut at byte %d", at), left[:at]
	case 1:
		clear(left[at:])
		return fmt.Sprintf("zeros from byte %d", at), left
	}
	for range 1 + r.IntN(4) {
		from := known + r.IntN(len(left)-known)
		clear(left[from:min(len(left), from+1+r.IntN(200))])
	}
	return fmt.Sprintf("holes behind byte %d", known), left
}
