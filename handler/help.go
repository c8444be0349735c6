package main

import (
	"embed"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// helpFiles hold what commands say of themselves: catalog-import.txt is the help of "tablesweep catalog import", behind EXAMPLES with its
// examples. <<since>> stands for parts/since.txt, which several of them have.
//
//go:embed help
var helpFiles embed.FS

var helpPart = regexp.MustCompile(`<<([a-z-]+)>>`)

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
		part, err := helpFiles.ReadFile("help/parts/" + strings.Trim(found, "<>") + ".txt")
		if err != nil {
			panic("handler: internal error: " + err.Error())
		}
		return withParts(part)
	})
}
