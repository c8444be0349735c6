package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/storage"
)

// didYouMean returns a question with the candidate closest to a word, "" if none is.
func didYouMean(word, prefix string, candidates []string) string {
	best, least := "", len(word)/3+2
	for _, c := range candidates {
		if d := distance(word, c); d < min(least, len(word)) || best == "" && strings.HasPrefix(c, word) {
			best, least = c, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + prefix + best + "?"
}

// otherNames are commands and flags by the names that other programs give them.
var otherNames = map[string]string{
	"list": "tables list", "ls": "tables list", "rm": "delete", "sync": "copy", "cp": "copy", "backup": "export", "restore": "import",
	"--source": "--from", "--destination": "--to", "--target": "--to", "--version": "version",
}

// meantCommand returns a question with the command that a word may mean.
func meantCommand(c *cobra.Command, word string) string {
	if other := otherNames[word]; other != "" && !c.HasParent() {
		return "; did you mean " + c.CommandPath() + " " + other + "?"
	}
	return didYouMean(word, c.CommandPath()+" ", commandNames(c))
}

// meantFlag returns a question with the flag, or the command, that an unknown flag may mean.
func meantFlag(c *cobra.Command, name string) string {
	other, isFlag := strings.CutPrefix(otherNames["--"+name], "--")
	switch {
	case isFlag && c.Flags().Lookup(other) != nil:
		return "; did you mean --" + other + "?"
	case isFlag && c.Flags().Lookup("table") != nil:
		return "; did you mean --table?"
	case other != "" && !isFlag:
		return "; did you mean " + c.Root().Name() + " " + other + "?"
	}
	return didYouMean(name, "--", flagNames(c))
}

// meant adds to a command's error what the service's refusal means for its flags.
func meant(c *cobra.Command, err error) error {
	value := func(flag string) string {
		if f := c.Flags().Lookup(flag); f != nil && f.Changed {
			return f.Value.String()
		}
		return ""
	}
	switch {
	case storage.HasCode(err, "InvalidInput") && value("filter") != "" && exitCode(err) == exitFailed:
		return hinted{usagef("--filter: %w", err), "the Table service's filters are OData: eq, ne, gt, ge, lt, le, and, or, not; strings in single quotes"}
	case storage.HasCode(err, "TableNotFound"):
		for _, flag := range []string{"table", "from", "to"} {
			if name := value(flag); name != "" && isDirectory(name) {
				return hinted{err, fmt.Sprintf("there is a directory %s here; --%s ./%s reads it", name, flag, name)}
			}
		}
	}
	return err
}

// distance is the number of edits that turn b into a: letters inserted, deleted or
// replaced, or neighbours exchanged.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			if i == 0 || j == 0 {
				rows[i][j] = i + j
				continue
			}
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

func flagNames(c *cobra.Command) []string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

func commandNames(c *cobra.Command) []string {
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	return names
}

// addConnection adds a flag that takes a connection. The shell completes it to the names
// of settings that hold one.
func addConnection(c *cobra.Command, flags *pflag.FlagSet, to *string, name, standard, usage string) {
	flags.StringVar(to, name, standard, usage)
	_ = c.RegisterFlagCompletionFunc(name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return connectionSettings(os.Environ()), cobra.ShellCompDirectiveNoFileComp
	})
}

// connectionSettings returns the names of settings that hold a connection, in any form.
func connectionSettings(environment []string) []string {
	var names []string
	for _, setting := range environment {
		name, value, _ := strings.Cut(setting, "=")
		_, err := storage.ParseConnection(value)
		base, _, identity := strings.Cut(name, "__")
		switch {
		case identity && (strings.HasSuffix(name, "__accountName") || strings.HasSuffix(name, "__tableServiceUri")):
			names = append(names, base)
		case !identity && err == nil && strings.Contains(value, "="): // other URLs are seldom accounts
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
