package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/job"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
)

// placed is a command that takes places as arguments. Each argument fills an option, so the rest of the program sees only options.
type placed interface {
	runnable
	places(command string) []string // the names of the options that the arguments fill, in the order of the arguments
}

// places implements [placed]. If a command processes many tables, each place is an account or an export. Only a flag can choose
// an account, so an argument is always an export.
func (p *pairFlags) places(command string) []string {
	switch {
	case !p.Many():
		return []string{"from", "to"}
	case command == "export":
		return []string{"to"}
	case command == "copy": // it would be unclear whether an argument is the source or the destination
		return nil
	}
	return []string{"from"}
}

// places implements [placed].
func (*sourceFlags) places(string) []string { return []string{"table"} }

// fromIsTable lets commands that read one place accept --from as another name for --table.
func fromIsTable(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "from" {
		name = "table"
	}
	return pflag.NormalizedName(name)
}

// unnamed is the error for a place that is named neither by its flag nor by an argument.
type unnamed struct{ flag string }

func (e unnamed) Error() string { return "--" + e.flag + " is missing" }

// withForm returns err or, if a place is missing, an error that shows the command with all its arguments.
func withForm(use string, o placed, err error) error {
	var none unnamed
	if !errors.As(err, &none) {
		return err
	}
	form := strings.Fields(use)
	return usagef("%s is missing: tablesweep %s", form[1+slices.Index(o.places(form[0]), none.flag)], use)
}

// takePlaces sets the options for places from the arguments.
func takePlaces(c *cobra.Command, o placed, args []string) error {
	names := o.places(c.Name())
	form := strings.Fields(c.Use)[1:]
	if len(args) > len(names) {
		err := usagef("%s takes %s, but %d are given", c.Name(), problem.Plural(int64(len(names)), "place"), len(args))
		if names == nil {
			err = job.Hint(usagef("%s accepts no place as an argument if --all or --tables is given", c.Name()), `name the place with --from or --to, or use "tablesweep export" or "tablesweep import"`)
		}
		return asValue(c, err)
	}
	for i, text := range args {
		option, _ := find(o.options(), names[i])
		at := option.field.(*location)
		if c.Flags().Changed(option.name) {
			return asValue(c, usagef("the place is given twice, by an argument and by --%s; give it once", option.name))
		}
		if text == "" { // most often an unset variable
			return usagef("argument %d %w", i+1, errNoValue)
		}
		if err := at.Set(text); err != nil {
			return usagef("argument %d: %w", i+1, err)
		}
		if many, is := o.(interface{ Many() bool }); is && many.Many() {
			continue // for many tables, an argument always names an export
		}
		switch {
		case !at.mayBeFile():
		case form[i] == "TABLE": // the argument can only be a table
			at.table = true
		case job.IsThere(text):
			return usagef("%[1]s could mean a table, a file or a directory; write table:%[1]s or ./%[1]s", text)
		}
	}
	return nil
}

// mayBeFile reports whether the place is a table with a name that a file or directory could have.
func (l *location) mayBeFile() bool {
	kind, err := place.KindOf(l.path)
	return !l.table && err == nil && kind == place.KindTable
}

// announceTables prints a note for each flag whose table has the same name as a directory.
func (r *call) announceTables() {
	for _, o := range r.command.options() {
		if at, ok := o.field.(*location); ok && r.part == nil && at.path != "" && at.mayBeFile() && job.IsDirectory(at.path) {
			r.announce("note", fmt.Sprintf("--%s %s means the table; for the directory of that name, write ./%[2]s", o.name, at.path))
		}
	}
}
