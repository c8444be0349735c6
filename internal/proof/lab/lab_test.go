package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tablesweep/internal/proof"
)

// run runs a command, and returns its output.
func run(args ...string) (string, error) {
	var out bytes.Buffer
	c := command()
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(io.Discard)
	err := c.Execute()
	return out.String(), err
}

func TestScale(t *testing.T) {
	t.Parallel()
	text, err := run("scale", "--rows", "3000", "--per-partition", "100")
	proof.Must(t, err)
	for _, want := range []string{"| copy of 3000 rows, 100 a partition |", "| time ÷ limit | ", "| requests to the destination; "} {
		if !strings.Contains(text, want) {
			t.Errorf("the output lacks %q:\n%s", want, text)
		}
	}
	if text, err = run("scale", "--facts"); err != nil || !strings.Contains(text, "| what | value | source |") {
		t.Errorf("the output is %s, error %v", text, err)
	}
	for _, args := range [][]string{{"--rows", "0"}, {"--decide", "1ms"}, {"--none"}, {"argument"}} {
		if _, err := run(append([]string{"scale"}, args...)...); !errors.As(err, new(usageError)) {
			t.Errorf("%v: got %v, want a usage error", args, err)
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	run := func(args ...string) (string, error) { return run(append([]string{"split"}, args...)...) }
	text, err := run("--rows", "3000", "--sets", "guid,debian")
	proof.Must(t, err)
	for _, want := range []string{"3000 rows, means over 2 key sets", "| serial | 1.000 ", "| guid | 3000 |", "| debian | 3000 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the output lacks %q:\n%s", want, text)
		}
	}
	text, err = run("--sets", "commit-log,urls")
	proof.Must(t, err)
	for _, want := range []string{"| commit-log | 35 |", "- time ÷ bound: ", "(commit-log)\n"} {
		if !strings.Contains(text, want) || strings.Contains(text, "serial") {
			t.Errorf("the output lacks %q, or has sets that are not real:\n%s", want, text)
		}
	}
	text, err = run("--sets", "commit-log,urls,guid", "--rows", "3000", "--process")
	proof.Must(t, err)
	for _, want := range []string{"| adaptive's steps | stealing |", "| commit-log | 35 |", "| guid | 3 |", "| mean | |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the output lacks %q:\n%s", want, text)
		}
	}
	dir := t.TempDir()
	proof.Must(t, os.WriteFile(filepath.Join(dir, "mine.tsv"), []byte("b\t2\na\t1\nb\t1\n"), 0o600))
	if text, err = run("--keys", dir); err != nil || !strings.Contains(text, "| mine | 1 |") {
		t.Errorf("the user's own table: %v\n%s", err, text)
	}
	for _, args := range [][]string{{"--rows", "0"}, {"--sets", "nonsense"}, {"--keys", t.TempDir()}, {"--keys", dir, "--sets", "guid"}} {
		if _, err := run(args...); !errors.As(err, new(usageError)) {
			t.Errorf("%v: got %v, want a usage error", args, err)
		}
	}
}
