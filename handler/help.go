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

// helpFiles hold what commands say of themselves: catalog-import.txt is the help of "tablesweep catalog import", behind EXAMPLES with its
// examples. <<since>> stands for parts/since.txt, which several of them have. Lines that begin with a space stay as they are; others are filled.
//
//go:embed help
var helpFiles embed.FS

var helpPart = regexp.MustCompile(`<<([a-z-]+)>>`)

const (
	helpWidth = 80 // columns
	longPage  = 12 // from so many on, a command's page has its flags in groups, and its first paragraph alone
)

// flagGroups order a page's flags: the most used first. A flag that no group names stands at the end of the first one.
var flagGroups = []struct{ title, names string }{
	{"Flags", "table from to connection from-connection to-connection all tables queue queue-connection message mode verify list allow-extra delete-extra max-deletes dry-run yes format"},
	{"Which rows", "prefix after before filter select keys-only limit rows since state since-overlap"},
	{"What becomes of them", "map rename drop"},
	{"Files", "compress with-timestamp types delimiter"},
	{"After an interrupt or a failure", "checkpoint resume failed patience"},
	{"Speed", "workers max-rows-per-second max-requests-per-second strategy segment-size"},
	{"Output", "json progress stats quiet help"},
}

// addHelp gives their help to the command and those below it. The help of those without a file is their one line.
func addHelp(c *cobra.Command) {
	name := strings.ReplaceAll(strings.TrimPrefix(c.CommandPath(), "tablesweep "), " ", "-")
	if text, err := helpFiles.ReadFile("help/" + name + ".txt"); err == nil {
		c.Long, c.Example, _ = strings.Cut(withParts(text), "\n\nEXAMPLES\n\n")
	}
	for _, sub := range c.Commands() {
		addHelp(sub)
	}
}

// withParts returns a help text with its parts in it.
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

// helpCommand returns the command help, which has all of a command's help where --help has a page.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Tell all about a command",
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

// printHelp prints a command's page or, if asked for, all of its help.
func printHelp(c *cobra.Command, all bool) error {
	addHelp(c) // of the commands that come late: completion and its own
	var flags []*pflag.Flag
	collect := func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, f)
		}
	}
	c.InheritedFlags().VisitAll(collect)
	c.LocalFlags().VisitAll(collect)
	grouped := len(flags) >= longPage
	about, more := c.Long, ""
	if about == "" {
		about = c.Short + "."
	}
	if grouped {
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
	slices.SortStableFunc(flags, func(a, b *pflag.Flag) int {
		groupA, atA := standing(a.Name)
		groupB, atB := standing(b.Name)
		return cmp.Or(groupA-groupB, atA-atB)
	})
	for len(flags) > 0 {
		title, set := flagGroups[0].title, pflag.NewFlagSet("", pflag.ContinueOnError)
		set.SortFlags = false
		group, _ := standing(flags[0].Name)
		if grouped {
			title = flagGroups[group].title
		}
		for len(flags) > 0 {
			if other, _ := standing(flags[0].Name); grouped && other != group {
				break
			}
			set.AddFlag(flags[0])
			flags = flags[1:]
		}
		text += "\n" + title + ":\n" + set.FlagUsagesWrapped(helpWidth)
	}
	switch {
	case all && more != "":
		text += "\n" + fill(more)
	case more != "":
		text += fmt.Sprintf("\n\"%s help%s\" tells more.\n", c.Root().Name(), strings.TrimPrefix(c.CommandPath(), c.Root().Name()))
	}
	_, err := io.WriteString(c.OutOrStdout(), text)
	return err
}

// standing returns a flag's group, and its place there.
func standing(flag string) (group, at int) {
	for group, g := range flagGroups {
		if at := slices.Index(strings.Fields(g.names), flag); at >= 0 {
			return group, at
		}
	}
	return 0, math.MaxInt
}

// fill fills the lines of a text, but for those that begin with a space.
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
