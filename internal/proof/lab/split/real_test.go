package split_test

import (
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"tablesweep/internal/proof"
	"tablesweep/internal/proof/keysets"
	"tablesweep/internal/proof/lab/split"
	"tablesweep/internal/proof/testsize"
)

// TestSplitOfRealTables: the strategy is not worse on real tables than docs/measurements.md says. The figures do not depend on the machine, except for those
// of Go's files.
func TestSplitOfRealTables(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	proof.Must(t, err)
	last := len(keysets.Real("")) // the set after the samples, Go's files
	sets := keysets.Real(strings.TrimSpace(string(goroot)))[:last+1]
	figures := split.Figures(compareAll(t, sets, math.MaxInt))
	table := split.RealTable(figures)
	t.Log("\n" + table)
	for _, c := range []struct {
		name        string
		column      func(split.Figure) float64
		mean, worst float64 // for the samples
		files       float64
	}{
		{"queries ÷ optimum", func(f split.Figure) float64 { return f.Queries }, 1.75, 2.7, 1.6},
		{"time ÷ published", func(f split.Figure) float64 { return f.One.PerPublished }, 0.85, 1.75, 1},
		{"time ÷ bound", func(f split.Figure) float64 { return f.One.PerBound }, 3.1, 5, 4.9},
		{"time of 4 an invocation ÷ published", func(f split.Figure) float64 { return f.Four.PerPublished }, 0.55, 1.1, 0.6},
		{"time of 4 an invocation ÷ published, 10 per message", func(f split.Figure) float64 { return f.Four.PerPublished10 }, 0.72, 1.75, 0.55},
		{"time of 4 an invocation ÷ bound", func(f split.Figure) float64 { return f.Four.PerBound }, 2.2, 3.2, 3},
		{"queries with hints", func(f split.Figure) float64 { return f.Hinted }, 1.1, 1.2, 1.15},
		{"time with hints ÷ bound", func(f split.Figure) float64 { return f.HintedTime }, 1.9, 2.3, 2},
		{"queries with hints of 80 %", func(f split.Figure) float64 { return f.Hinted80 }, 1.1, 1.2, 1.15},
		{"time with hints of 80 % ÷ bound", func(f split.Figure) float64 { return f.Hinted80Time }, 2.25, 2.9, 2.2},
		{"progress with hints", func(f split.Figure) float64 { return f.Progress.Worst }, 0.1, 0.15, 0.15},
		{"progress with hints of 80 %", func(f split.Figure) float64 { return f.ProgressHinted80.Worst }, 0.15, 0.15, 0.15},
	} {
		mean, worst := split.Mean(figures[:last], c.column)
		if mean > c.mean || c.column(worst) > c.worst {
			t.Errorf("%s: the mean is %.3f, and the worst %.3f (%s); want at most %.2f and %.2f", c.name, mean, c.column(worst), worst.Set, c.mean, c.worst)
		}
		if got := c.column(figures[last]); got > c.files {
			t.Errorf("%s of Go's files: %.3f, want at most %.2f", c.name, got, c.files)
		}
	}
	for _, f := range figures {
		if more := (f.Queries - 1) * float64(f.Pages); f.Pages >= 100 && f.Queries > 2.3 || f.Pages < 100 && more > 75 {
			t.Errorf("%s: %.2f queries a page, %.0f more than the optimum", f.Set, f.Queries, more)
		}
	}
	published, err := os.ReadFile("../../../../docs/measurements.md")
	proof.Must(t, err)
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| go-") && !strings.Contains(string(published), line) {
			t.Errorf("docs/measurements.md lacks the line\n%s", line)
		}
	}
}
