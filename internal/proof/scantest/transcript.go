package scantest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/split/scan"
)

// Transcript runs a scan depth first and returns a transcript. For each query, the transcript has a line, the lines that `show` returns for its page, and,
// below it, the query's children. If `note` is not nil, its text is added to the line of a step.
func Transcript(t testing.TB, s scan.Strategy, b key.Bounds, query func(scan.Step) scan.Page, show func(scan.Page) []string, note func(scan.Step) string) string {
	t.Helper()
	var out strings.Builder
	var walk func(step scan.Step, depth int)
	walk = func(step scan.Step, depth int) {
		indent := strings.Repeat("  ", depth)
		fmt.Fprintf(&out, "%squery %s", indent, describe(step))
		if note != nil {
			out.WriteString(note(step))
		}
		out.WriteString("\n")
		page := query(step)
		for _, line := range show(page) {
			fmt.Fprintf(&out, "%s  %s\n", indent, line)
		}
		if page.Next != nil {
			fmt.Fprintf(&out, "%s  token\n", indent)
		}
		o, err := s.Advance(step, page)
		proof.Must(t, err)
		if o.Yield != len(page.Keys) {
			fmt.Fprintf(&out, "%s  yields %d\n", indent, o.Yield)
		}
		for _, c := range o.Children {
			walk(c, depth+1)
		}
	}
	walk(s.Start(b), 0)
	return out.String()
}

var rewrite = flag.Bool("rewrite", false, "rewrite the transcripts in testdata; read the diff before committing it")

// Golden compares a transcript with the one in testdata. With -rewrite, it replaces the one in testdata instead.
func Golden(t testing.TB, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *rewrite {
		proof.Must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	proof.Must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func describe(s scan.Step) string {
	r := s.Range
	what, clauses := "PK", []string{}
	if r.Partition != nil {
		clauses = append(clauses, "PK = "+*r.Partition)
		what = "RK"
	}
	if r.Low != nil {
		clauses = append(clauses, what+map[bool]string{true: " > ", false: " >= "}[r.Low.Open]+r.Low.Key)
	}
	if r.High != nil {
		clauses = append(clauses, what+map[bool]string{true: " < ", false: " <= "}[r.High.Open]+r.High.Key)
	}
	if s.Token != nil {
		clauses = append(clauses, "from token")
	}
	if len(clauses) == 0 {
		return "all"
	}
	return strings.Join(clauses, ", ")
}
