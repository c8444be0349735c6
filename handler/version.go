package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// version is set by the linker (scripts/build.sh).
var version string

// build is the output of "tablesweep version".
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // the source's revision; ends in + if it had uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		changed := ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				b.Revision = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = "+"
			}
		}
		b.Revision += changed
	}
	b.Version = cmp.Or(b.Version, "(devel)")
	return b
}

// String implements [fmt.Stringer].
func (b build) String() string {
	return fmt.Sprintf("tablesweep %s %s %s", strings.TrimSpace(b.Version+" "+b.Revision), b.Go, b.Platform)
}

type versionOptions struct{ json bool }

func (o *versionOptions) options() []option {
	return []option{{"json", perRun, &o.json, nil, "print JSON"}}
}

func (o *versionOptions) run(r *call) error { return r.print(o.json, thisBuild(), "%s\n", thisBuild()) }

// manCommand returns the hidden command that writes the man pages of a release.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIRECTORY",
		Short:  "Write a man page for every command",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := c.Root()
			root.DisableAutoGenTag = true // the tag would contain the date
			return doc.GenManTree(root, &doc.GenManHeader{Title: "TABLESWEEP", Section: "1", Source: "Tablesweep " + thisBuild().Version, Manual: "Tablesweep"}, args[0])
		},
	}
}
