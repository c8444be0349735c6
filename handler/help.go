package main

import (
	"cmp"
	"embed"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/local/emulator"
)

// helpFiles are the help texts of the commands. For example, catalog-import.txt is the help of "tablesweep catalog import", with examples after the line
// EXAMPLES. The mark <<since>> is replaced by the text of parts/since.txt. Lines are wrapped, except those that begin with a space.
//
//go:embed help
var helpFiles embed.FS

var helpPart = regexp.MustCompile(`<<([a-z-]+)>>`)

const (
	helpWidth = 80 // columns
	longPage  = 12 // with this many flags or more, --help is short, and help COMMAND describes the flags in groups
	shortPage = 10 // number of described flags on a short page
)

// mostUsed are the flags that most people need, in the order in which short help pages show them.
const mostUsed = "catalog connection table index-keys row-key upsert from-connection to-connection queue message all tables delete-extra max-deletes list allow-extra prefix limit verify " +
	"dry-run yes checkpoint resume filter map format keys-only select failed rows top cursor row-from row-to if-match types json"

// flagGroups are the groups of flags on a page, the most used first. Flags without a group are at the end of the first
// group.
var flagGroups = []struct{ title, names string }{
	{"Flags", "table from to connection from-connection to-connection all tables queue queue-connection message mode verify list allow-extra delete-extra max-deletes dry-run yes format"},
	{"Which rows", "prefix after before filter select keys-only limit rows since state since-overlap"},
	{"Changing rows", "map rename drop"},
	{"Files", "compress with-timestamp types delimiter"},
	{"After an interrupt or a failure", "checkpoint resume failed patience"},
	{"Speed", "workers max-rows-per-second max-requests-per-second strategy segment-size"},
	{"Output", "json progress stats quiet help"},
}

// addHelp sets the help of a command and its subcommands. A command without a file in helpFiles keeps its one-line help.
func addHelp(c *cobra.Command) {
	name := strings.ReplaceAll(strings.TrimPrefix(c.CommandPath(), "tablesweep "), " ", "-")
	if text, err := helpFiles.ReadFile("help/" + name + ".txt"); err == nil {
		c.Long, c.Example, _ = strings.Cut(withParts(text), "\n\nEXAMPLES\n\n")
	}
	for _, sub := range c.Commands() {
		addHelp(sub)
	}
}

// withParts replaces each <<part>> in a help text by that part, and <<served>> by [emulator.ServedBlobs].
func withParts(text []byte) string {
	return helpPart.ReplaceAllStringFunc(strings.TrimSuffix(string(text), "\n"), func(found string) string {
		if found == "<<served>>" {
			return emulator.ServedBlobs()
		}
		part, err := helpFiles.ReadFile("help/parts/" + strings.Trim(found, "<>") + ".txt")
		if err != nil {
			panic("handler: internal error: " + err.Error())
		}
		return withParts(part)
	})
}

// helpCommand returns the command "help". It prints all of a command's help, while --help prints one page.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Describe a command and all its flags",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			switch {
			case len(rest) > 0 && !about.HasSubCommands():
				return usagef("there is no command %q", about.Name()+" "+rest[0])
			case err != nil || len(rest) > 0:
				return noArgs(about, rest)
			}
			about.InitDefaultHelpFlag()
			return printHelp(about, true)
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if about, rest, err := c.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range about.Commands() {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// printHelp prints a command's help. If the command has many flags and `full` is false, the help is short.
func printHelp(c *cobra.Command, full bool) error {
	addHelp(c) // adds the help again, because cobra adds the command "completion" and its subcommands late
	var flags []*pflag.Flag
	collect := func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, f)
		}
	}
	c.InheritedFlags().VisitAll(collect)
	c.LocalFlags().VisitAll(collect)
	slices.SortStableFunc(flags, func(a, b *pflag.Flag) int {
		groupA, atA := position(a.Name)
		groupB, atB := position(b.Name)
		return cmp.Or(groupA-groupB, atA-atB)
	})
	long := len(flags) >= longPage
	about, more := c.Long, ""
	if about == "" {
		about = c.Short + "."
	}
	if long {
		about, more, _ = strings.Cut(about, "\n\n")
	}
	text := fill(about)
	if c.Example != "" {
		text += "\nExamples:\n" + c.Example + "\n"
	}
	text += "\nUsage:\n"
	if c.Runnable() {
		text += "  " + c.UseLine() + "\n"
	}
	if c.HasAvailableSubCommands() {
		text += "  " + c.CommandPath() + " COMMAND\n\nCommands:\n"
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				text += fmt.Sprintf("  %-*s %s\n", c.Commands()[0].NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	switch {
	case long && !full:
		text += shortUsage(flags)
		text += fill(fmt.Sprintf("\n\"%s help%s\" describes the command and all its flags.\n", c.Root().Name(), strings.TrimPrefix(c.CommandPath(), c.Root().Name())))
	case long:
		text += inGroups(flags, usages)
		if more != "" {
			text += "\n" + fill(more)
		}
	default:
		text += usages(flagGroups[0].title, flags)
	}
	_, err := io.WriteString(c.OutOrStdout(), text)
	return err
}

func shortUsage(flags []*pflag.Flag) string {
	names := strings.Fields(mostUsed)
	rank := func(f *pflag.Flag) int {
		if at := slices.Index(names, f.Name); at >= 0 {
			return at
		}
		return len(names)
	}
	first := slices.Clone(flags)
	slices.SortStableFunc(first, func(a, b *pflag.Flag) int { return rank(a) - rank(b) })
	first = first[:shortPage]
	others := slices.DeleteFunc(slices.Clone(flags), func(f *pflag.Flag) bool { return slices.Contains(first, f) })
	return usages("Flags used most", first) + "\nMore flags:\n" + inGroups(others, listNames)
}

func listNames(title string, group []*pflag.Flag) string {
	line, text := "  ", ""
	if title != flagGroups[0].title {
		line += title + ": "
	}
	for _, f := range group {
		if utf8.RuneCountInString(line+"--"+f.Name) > helpWidth {
			text += strings.TrimSuffix(line, " ") + "\n"
			line = "      "
		}
		line += "--" + f.Name + " "
	}
	return text + strings.TrimSuffix(line, " ") + "\n"
}

func usages(title string, flags []*pflag.Flag) string {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SortFlags = false
	for _, f := range flags {
		set.AddFlag(f)
	}
	return "\n" + title + ":\n" + set.FlagUsagesWrapped(helpWidth)
}

// inGroups calls the function `format` with each group of the flags, and joins the results. The flags must be sorted by
// group.
func inGroups(flags []*pflag.Flag, format func(title string, group []*pflag.Flag) string) (text string) {
	for len(flags) > 0 {
		group, _ := position(flags[0].Name)
		end := slices.IndexFunc(flags, func(f *pflag.Flag) bool {
			other, _ := position(f.Name)
			return other != group
		})
		if end < 0 {
			end = len(flags)
		}
		text += format(flagGroups[group].title, flags[:end])
		flags = flags[end:]
	}
	return text
}

// position returns a flag's group, and the flag's place within the group.
func position(flag string) (group, at int) {
	for group, g := range flagGroups {
		if at := slices.Index(strings.Fields(g.names), flag); at >= 0 {
			return group, at
		}
	}
	return 0, math.MaxInt
}

func fill(text string) string {
	var b strings.Builder
	column := 0
	newline := func() {
		if column > 0 {
			b.WriteByte('\n')
			column = 0
		}
	}
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "  ") // cobra's own texts have tabs
		if line == "" || line[0] == ' ' {
			newline()
			b.WriteString(line + "\n")
			continue
		}
		for _, word := range strings.Fields(line) {
			width := utf8.RuneCountInString(word)
			switch {
			case column+1+width > helpWidth:
				newline()
			case column > 0:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += width
		}
	}
	newline()
	return b.String()
}
