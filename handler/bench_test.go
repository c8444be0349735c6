package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"tablesweep/internal/splitbench"
)

func TestBenchSplit(t *testing.T) {
	t.Parallel()
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		c := benchCommand()
		c.SetArgs(append([]string{"split"}, args...))
		c.SetOut(&out)
		c.SetErr(io.Discard)
		c.SilenceUsage, c.SilenceErrors = true, true
		err := c.Execute()
		return out.String(), err
	}
	text, err := run("--rows", "3000", "--sets", "guid,debian")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3000 rows, means over 2 key sets", "| serial | 1.000 ", "| guid | 3000 |", "| debian | 3000 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text, err = run("--rows", "3000", "--sets", "guid", "--json"); err != nil {
		t.Fatal(err)
	}
	d, results := json.NewDecoder(strings.NewReader(text)), 0
	for d.More() {
		var r splitbench.Result
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		results++
	}
	if results != len(splitbench.Contenders()) {
		t.Errorf("got %d results, want one for each of %v", results, splitbench.Contenders())
	}
	if text, err = run("--sets", "commit-log,urls"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| commit-log | 35 |", "- time ÷ bound: ", "(urls)\n"} {
		if !strings.Contains(text, want) || strings.Contains(text, "serial") {
			t.Errorf("no %q, or more than real sets, in\n%s", want, text)
		}
	}
	for _, args := range [][]string{{"--rows", "0"}, {"--sets", "nonsense"}} {
		if _, err := run(args...); err == nil {
			t.Errorf("%v: want an error", args)
		}
	}
}
