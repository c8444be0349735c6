package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"tablesweep/internal/emulator"
	"tablesweep/internal/emulator/emulatortest"
	"tablesweep/internal/key"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/storage"
)

// TestGoesOnWithStored resumes sweeps of which commit c034fa5 wrote the checkpoints
// (version 4), of a whole table and of every second row of it as a list. The names in a checkpoint's lines
// must stay as they are.
func TestGoesOnWithStored(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]int{"stealing": 1, "listed": 2} {
		synctest.Test(t, func(t *testing.T) {
			text, err := os.ReadFile("testdata/stored-" + name + ".jsonl")
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "checkpoint")
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			var rows, wanted []storage.Entity
			for i := range 600 {
				rows = append(rows, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("p%03d", i/7), Row: fmt.Sprint(i % 7)}})
				if i%every == 0 {
					wanted = append(wanted, rows[i])
				}
			}
			_, a := emulatortest.NewAccount(t, emulator.Options{})
			s := Spec{Table: load(t, a, "source", rows), Strategy: adaptive.Strategy{}, Segment: 25}
			if every > 1 {
				s.Keys = &Keys{}
				for _, row := range wanted {
					if err := s.Keys.Add(row.Key); err != nil {
						t.Fatal(err)
					}
				}
			}
			c, err := ReadCheckpoint(path)
			if err != nil {
				t.Fatal(err)
			}
			record := &recorder{}
			totals, err := Do(t.Context(), s, Options{Checkpoint: c}, record)
			if n := int64(len(wanted)); err != nil || totals.Rows != n || totals.Written != n || totals.Failed > 0 {
				t.Errorf("%s: %+v, %v; want %d rows", name, totals, err, n)
			}
			before := readJournal(t, text, wanted, nil)
			done := before.done[len(before.done)-1]
			if len(done) < 50 || name == "stealing" && len(before.steals) < 5 {
				t.Fatalf("%s: the file knows %d rows that are done, and %d thefts", name, len(done), len(before.steals))
			}
			for _, k := range record.keys {
				if done[k] {
					t.Errorf("%s: %v is done again", name, k)
				}
				done[k] = true
			}
			for _, row := range wanted {
				if !done[row.Key] {
					t.Errorf("%s: %v is not done", name, row.Key)
				}
			}
		})
	}
}
