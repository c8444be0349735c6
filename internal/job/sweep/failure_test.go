package sweep_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

var errPlanted = errors.New("planted")

// failing is the serial strategy, except that it fails at one page.
type failing struct {
	scan.Serial
	page int
}

func (f failing) Advance(s scan.Step, p scan.Page) (scan.Decision, error) {
	if s.Page == f.page {
		return scan.Decision{}, errPlanted
	}
	return f.Serial.Advance(s, p)
}

// TestResumeAfterFailedAdvance makes the strategy fail at each page in turn. A resume must read that page again.
func TestResumeAfterFailedAdvance(t *testing.T) {
	t.Parallel()
	for page := range 3 {
		_, a := emulatortest.NewAccount(t, emulator.Options{})
		rows := someRows(10, 3)
		source, destination := emulatortest.Table(t, a, "source", rows), emulatortest.Table(t, a, "destination", nil)
		path := filepath.Join(t.TempDir(), "checkpoint")
		s := sweep.Spec{Source: source, Strategy: failing{page: page}, PageRows: 10}
		_, err := sweep.Do(t.Context(), s, sweep.Options{Checkpoint: sweep.NewCheckpointAt(t, path)}, action.Copy{Destination: destination})
		if !errors.Is(err, errPlanted) {
			t.Fatalf("page %d: got error %v, want the planted error", page, err)
		}
		s.Strategy = scan.Serial{}
		totals, err := sweep.Do(t.Context(), s, sweep.Options{Checkpoint: sweep.ReadCheckpointAt(t, path)}, action.Copy{Destination: destination})
		if err != nil || totals.Rows != int64(len(rows)) {
			t.Errorf("page %d: the resume ended with %+v, %v; want %d rows", page, totals, err, len(rows))
		}
		if got := emulatortest.Rows(t, destination); !sameRows(got, rows) {
			t.Errorf("page %d: the copy has %d rows of %d", page, len(got), len(rows))
		}
	}
}

// refusing is an action with units of 3 rows, which fails for the first two rows of each unit.
type refusing struct{}

func (refusing) Split(rows []storage.Row) [][]storage.Row {
	return slices.Collect(slices.Chunk(rows, 3))
}

func (refusing) Do(_ context.Context, _ storage.RequestOptions, rows []storage.Row) (action.Result, error) {
	return action.Result{Written: 1, Failed: []action.Failure{{Key: rows[0].Key}, {Key: rows[1].Key}}}, nil
}

// TestResumeAfterUnreportedFailure makes the reporting of failed rows fail, as on a full disk. After a resume, each failed row must have been
// reported.
func TestResumeAfterUnreportedFailure(t *testing.T) {
	t.Parallel()
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	rows := someRows(10, 3)
	source := emulatortest.Table(t, a, "source", rows)
	path := filepath.Join(t.TempDir(), "checkpoint")
	reported := map[key.Key]bool{}
	fits := 0 // the number of rows that can be reported
	report := func(failures []action.Failure) error {
		for _, f := range failures {
			if len(reported) >= fits {
				return errPlanted
			}
			reported[f.Key] = true
		}
		return nil
	}
	c := sweep.NewCheckpointAt(t, path)
	for fits = 3; ; fits += 4 {
		totals, err := sweep.Do(t.Context(), sweep.Spec{Source: source, PageRows: 9}, sweep.Options{Checkpoint: c, Failed: report, Workers: 4}, refusing{})
		if err == nil {
			if totals.Rows != 30 || totals.Failed != 20 || totals.Written != 10 || len(reported) != 20 {
				t.Errorf("%+v, %d rows reported; want 30 rows, with 20 failed and 20 reported", totals, len(reported))
			}
			return
		}
		if !errors.Is(err, errPlanted) || fits > 100 {
			t.Fatal(err)
		}
		c = sweep.ReadCheckpointAt(t, path)
	}
}
