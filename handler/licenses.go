package main

import (
	"embed"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// notices contains licenses/notices.txt if scripts/notices.sh made it before the build, as in a release.
//
//go:embed licenses
var notices embed.FS

// printLicenses prints the licences of the program and of all linked code. Without notices.txt, it lists the linked modules instead.
func printLicenses(w io.Writer) error {
	text, err := notices.ReadFile("licenses/notices.txt")
	if err != nil {
		text, _ = notices.ReadFile("licenses/plain.txt")
		text = fmt.Appendf(text, "  std %s\n", runtime.Version())
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, m := range info.Deps {
				text = fmt.Appendf(text, "  %s %s\n", m.Path, m.Version)
			}
		}
	}
	_, err = w.Write(text)
	return err
}
