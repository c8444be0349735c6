package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/local/emulator"
)

// TestServedBlobs checks that docs/deploy.md lists the operations that embedded storage serves.
func TestServedBlobs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/deploy.md")
	if err != nil || !strings.Contains(string(text), emulator.ServedBlobs()) {
		t.Errorf("docs/deploy.md does not contain: %s (%v)", emulator.ServedBlobs(), err)
	}
}

// TestHelpFits checks that each command's help has at most 80 columns, and each of its flags once, but no hidden one. The output of --help has at most 60
// lines.
func TestHelpFits(t *testing.T) {
	t.Parallel()
	root := rootCommand()
	root.InitDefaultCompletionCmd()
	listed := regexp.MustCompile(`(?m)^ {2}(?:-\w, | {4})--([a-z-]+)`)
	named := regexp.MustCompile(`--([a-z-]+)`)
	commands := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		c.InitDefaultVersionFlag()
		for _, all := range []bool{false, true} {
			var out bytes.Buffer
			c.SetOut(&out)
			if err := printHelp(c, all); err != nil {
				t.Error(err)
			}
			if n := strings.Count(out.String(), "\n"); !all && n > 60 {
				t.Errorf("%s --help has %d lines", c.CommandPath(), n)
			}
			for line := range strings.Lines(out.String()) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth || strings.Contains(line, "\t") {
					t.Errorf("%s: a line has %d columns, want at most 80: %s", c.CommandPath(), n, line)
				}
			}
			count := map[string]int{}
			_, flags, _ := strings.Cut(out.String(), "\nUsage:\n")
			described, more, _ := strings.Cut(flags, "\nMore flags:\n")
			for _, found := range slices.Concat(listed.FindAllStringSubmatch(described, -1), named.FindAllStringSubmatch(more, -1)) {
				count[found[1]]++
			}
			check := func(f *pflag.Flag) {
				if n := count[f.Name]; (n == 1) == f.Hidden || n > 1 {
					t.Errorf("%s: the help has --%s %d times, want once", c.CommandPath(), f.Name, n)
				}
			}
			c.LocalFlags().VisitAll(check)
			c.InheritedFlags().VisitAll(check)
		}
		commands++
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	if commands < 40 {
		t.Errorf("found only %d commands", commands)
	}
}
