package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/copier"
	"tablesweep/internal/emulator"
	"tablesweep/internal/emulator/emulatortest"
	"tablesweep/internal/progress"
	"tablesweep/internal/sweep"
)

// A sweep that lasts shows how far it is, when a survey has found how many rows there are.
func TestExpect(t *testing.T) {
	t.Parallel()
	em, a := emulatortest.NewAccount(t, emulator.Options{})
	table := a.Table("rows")
	if err := table.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := (copier.Copier{Destination: table}).Copy(t.Context(), manyRows(100, 20)); err != nil {
		t.Fatal(err)
	}
	var told buffer
	m := progress.New(&told)
	c := &cobra.Command{}
	c.SetContext(t.Context())
	s := sweep.Scan{Table: table, Segment: 100}
	em.ResetCounts()
	expect(c, s, surveyWorkers, m, 0)()
	if em.Counts().TableTransactions() > 0 {
		t.Error("a survey for a meter that shows nothing")
	}
	m.Use(progress.JSON)
	m.Phase("counting")
	stop := expect(c, s, surveyWorkers, m, 0)
	defer stop()
	p := sweep.Progress{Totals: sweep.Totals{Rows: 500}, Run: sweep.Totals{Rows: 500}, Elapsed: time.Second}
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
		p.Elapsed += time.Minute
		m.Show(p)
		var f progress.Figures
		text := told.String()
		told.text.Reset()
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Fatal(err)
		}
		if f.Percent != nil {
			if *f.Percent != 25 {
				t.Errorf("%v %% of 500 in 2,000 rows", *f.Percent)
			}
			return
		}
	}
	t.Error("no share is shown")
}
