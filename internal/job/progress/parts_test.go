package progress_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/job/progress"
)

// TestParts checks that the figures of concurrent tables are added up, and that a table's messages begin with its name.
func TestParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		m := meter(&out, progress.JSON)
		m.Phase("copying")
		p := m.Parts(20, 3)
		a, b := p.Begin("logs"), p.Begin("orders")
		a.Use(progress.Plain) // does not change the style of the command
		a.Phase("copying")
		for s := 1; s <= 10; s++ {
			time.Sleep(time.Second)
			for _, one := range []*progress.Meter{a, b} {
				q := progressAt(s)
				q.Reading, q.Limit = 2, 5
				one.Show(q)
			}
		}
		f := lastLine(t, &out)
		if f.Phase != "copying" || f.Rows != 19_000 || f.RowsPerSec < 1900 || f.RowsPerSec > 2100 || f.Underway != 4 || f.Limit != 10 || *f.Tables != (progress.Tables{Done: 3, UnderWay: 2, All: 20}) {
			t.Errorf("got %s", &out)
		}
		a.Phase("verifying") // compared rows count in addition to copied rows
		p.End(b, true)
		a.Show(progressAt(2))
		time.Sleep(10 * time.Second)
		a.Show(progressAt(5))
		if f := lastLine(t, &out); f.Rows != 25_000 || *f.Tables != (progress.Tables{Done: 4, UnderWay: 1, All: 20}) {
			t.Errorf("got %s", &out)
		}
		out.Reset()
		a.Print("changes", "http://a/logs")
		a.Print("warning", "slow")
		stopping := progressAt(6)
		stopping.Stopping, stopping.Reading = true, 3
		a.Show(stopping)
		p.End(a, false)
		m.End()
		if want := `{"warning":"logs: slow"}` + "\n" + `{"warning":"interrupted: waiting for 3 requests; press Ctrl-C again to end"}` + "\n"; !strings.HasPrefix(out.String(), want) {
			t.Errorf("got %s", &out)
		}
	})
}
