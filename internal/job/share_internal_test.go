package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// TestShownShareIsAccurate runs jobs of one or two minutes that copy, delete or read listed rows. The share done must be shown early, must never fall, and
// must be accurate to 5 percentage points.
func TestShownShareIsAccurate(t *testing.T) {
	t.Parallel()
	const partitions, each, listed = 900, 5, 350
	for _, tt := range []struct {
		name   string
		listed bool
		rows   int64
		early  float64 // the share must be shown after this number of seconds
	}{{"copy", false, partitions * each, 20}, {"delete", false, partitions * each, 20}, {"copy", true, listed, 5}} {
		t.Run(fmt.Sprintf("%s, listed %v", tt.name, tt.listed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, a := emulatortest.NewAccount(t, emulator.Options{Latency: 100 * time.Millisecond})
				source, destination := emulatortest.Table(t, a, "source", manyRows(partitions, each)), emulatortest.Table(t, a, "destination", nil)
				var out bytes.Buffer
				m := progress.New(&out)
				m.Use(progress.JSON)
				j := &Job{options: Options{Process: Process{Meter: m}, Rows: Rows{Workers: 1}, From: Place{Source: source}}}
				j.spec = sweep.Spec{Source: source, PageRows: 500}
				if tt.listed {
					j.options.Failed, j.spec.Keys = filepath.Join(t.TempDir(), "failed"), &sweep.Keys{}
					for i := range 2 * listed { // the list contains each row twice
						j.spec.Keys.Add(key.Key{Partition: fmt.Sprint(i % listed), Row: "no such row"})
					}
				}
				var do action.Work = action.Copy{Destination: destination}
				if tt.name == "delete" {
					do = action.Delete{Table: source}
				}
				if _, err := j.runner(work{action: do, phase: "working"})(t.Context(), Record{}, time.Now()); err != nil {
					t.Fatal(err)
				}
				checkShares(t, &out, tt.rows, tt.early)
			})
		})
	}
}

// checkShares reads lines of progress. After the given number of seconds, each line must have a percentage that is at least that of the previous
// line, and accurate to 5 percentage points.
func checkShares(t *testing.T, out io.Reader, rows int64, early float64) {
	t.Helper()
	shown, before := 0, 0.0
	for d := json.NewDecoder(out); ; {
		var f progress.Figures
		if err := d.Decode(&f); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if f.Percent == nil {
			if f.Seconds > early {
				t.Errorf("the line after %v s has no share", f.Seconds)
			}
			continue
		}
		shown++
		if truth := 100 * float64(f.Rows) / float64(rows); *f.Percent < before || *f.Percent > truth || *f.Percent < truth-5 {
			t.Errorf("the line after %v s shows %v %%, the previous line showed %v %%, and %v %% are done", f.Seconds, *f.Percent, before, truth)
		}
		before = *f.Percent
	}
	if shown < 3 {
		t.Errorf("only %d lines have a share", shown)
	}
}

// manyRows returns rows in partitions of the given size, in table order.
func manyRows(partitions, each int) []storage.Entity {
	rows := make([]storage.Entity, partitions*each)
	for i := range rows {
		rows[i] = storage.Entity{Key: key.Key{Partition: fmt.Sprintf("p%05d", i/each), Row: fmt.Sprintf("r%04d", i%each)}}
	}
	return rows
}
