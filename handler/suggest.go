package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/job"
	"tablesweep/internal/storage"
)

// didYouMean returns a question that suggests the candidate closest to a word, or "" if cobra considers none close.
func didYouMean(word, prefix string, candidates []string) string {
	among := &cobra.Command{}
	for _, name := range candidates {
		among.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	for among.SuggestionsMinimumDistance = range 3 {
		if closest := among.SuggestionsFor(word); len(closest) > 0 {
			return "; did you mean " + prefix + closest[0] + "?"
		}
	}
	return ""
}

// otherNames maps names of commands and flags in other programs to the names in this program.
var otherNames = map[string]string{
	"list": "tables list", "ls": "tables list", "rm": "delete", "cp": "copy", "backup": "export", "restore": "import",
	"--map-dry-run": "--dry-run", "--source": "--from", "--destination": "--to", "--target": "--to", "--upsert": "--mode",
}

// replaced maps each removed flag to its replacement. If a key begins with a command's name, the replacement applies only
// to that command.
var replaced = map[string]string{
	"--mirror": "tablesweep sync FROM TO --delete-extra", "--repair": "tablesweep sync FROM TO",
	"--overlap": "--since-overlap", "--max-deletes": "tablesweep sync FROM TO --delete-extra --max-deletes N",
	"copy --yes": "tablesweep sync FROM TO --yes", "import --yes": "tablesweep sync FROM TO --yes",
	"insert --file": "tablesweep catalog import FILE",
}

// meantCommand returns a question that suggests a command for an unknown word. If no command is similar to the word, it returns "".
func meantCommand(c *cobra.Command, word string) string {
	if other := otherNames[word]; other != "" && !c.HasParent() {
		return "; did you mean " + c.CommandPath() + " " + other + "?"
	}
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	return didYouMean(word, c.CommandPath()+" ", names)
}

// meantFlag returns a text that names a removed flag's replacement, or a question that suggests a similar flag.
func meantFlag(c *cobra.Command, name string) string {
	if by := cmp.Or(replaced["--"+name], replaced[c.Name()+" --"+name]); by != "" {
		return "; " + by + " takes its place"
	}
	other, isFlag := strings.CutPrefix(otherNames["--"+name], "--")
	if isFlag && c.Flags().Lookup(other) != nil {
		return "; did you mean --" + other + "?"
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return didYouMean(name, "--", names)
}

// explainRefusal turns the service's refusal of a filter into a usage error about --filter.
func (r *call) explainRefusal(err error) error {
	if storage.HasCode(err, "InvalidInput") && r.text("filter") != "" && exitCode(err) == exitFailed {
		return job.Hint(usagef("--filter: %w", err), `write the filter in OData, with strings in single quotes, and with the operators "eq", "ne", "gt", "ge", "lt", "le", "and", "or" and "not"`)
	}
	return err
}
