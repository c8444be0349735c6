package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/input"
	"tablesweep/internal/job/jobrecord"
)

// How a checkpoint's record stores an option. See [jobrecord.Keep].
const (
	perRun  = jobrecord.PerRun
	fixed   = jobrecord.Fixed
	free    = jobrecord.Free
	added   = jobrecord.Added
	eachRun = jobrecord.EachRun
	aFile   = jobrecord.File
	anyFile = jobrecord.AnyFile
)

// option is a row of a command's table of options. An option is given if its value differs from its default.
type option struct {
	name     string
	keep     jobrecord.Keep
	field    any    // filled by the flag: a pointer to a field, or a [pflag.Value]
	standard any    // the default; nil for the zero value
	usage    string // the flag's description; "" if the option has no flag, because the run sets the option
}

// runnable is a command: a plain struct, whose fields are the options. Flags set the fields, a checkpoint stores the fields, and a command for
// many tables copies the struct for each table.
type runnable interface {
	options() []option
	run(*call) error
}

// value returns a [pflag.Value] that reads and sets the field.
func (o option) value() pflag.Value {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	switch to := o.field.(type) {
	case *string:
		flags.StringVar(to, o.name, *to, "")
	case *bool:
		flags.BoolVar(to, o.name, *to, "")
	case *int:
		flags.IntVar(to, o.name, *to, "")
	case *int64:
		flags.Int64Var(to, o.name, *to, "")
	case *time.Duration:
		return (*duration)(to)
	case *[]string:
		flags.StringSliceVar(to, o.name, *to, "")
	default:
		return o.field.(pflag.Value)
	}
	return flags.Lookup(o.name).Value
}

// text returns the value in the form that a flag accepts.
func (o option) text() string { return valueText(o.value()) }

func valueText(v pflag.Value) string {
	if list, ok := v.(pflag.SliceValue); ok {
		return strings.Join(list.GetSlice(), ",")
	}
	return v.String()
}

// byDefault returns the default in the form that a flag accepts.
func (o option) byDefault() string {
	if o.standard != nil {
		return fmt.Sprint(o.standard)
	}
	switch to := o.field.(type) {
	case *bool, *dryRun:
		return "false"
	case *int, *int64, *positive:
		return "0"
	case *time.Duration:
		return "0s"
	case *connection:
		return to.standard
	}
	return ""
}

// addOptions adds the flags of options to a command, with their defaults.
func addOptions(c *cobra.Command, table []option) {
	for _, o := range table {
		if _, at := o.field.(*location); at && o.name == "table" {
			c.Flags().SetNormalizeFunc(fromIsTable)
		}
		v := o.value()
		if o.standard != nil {
			if err := v.Set(o.byDefault()); err != nil {
				panic("handler: internal error: --" + o.name + ": " + err.Error())
			}
			v = o.value() // a new value, because the old value of a list would append to the default
		}
		if o.usage == "" {
			continue
		}
		f := c.Flags().VarPF(v, o.name, "", o.usage)
		if _, is := o.field.(*connection); is && o.name != "connection" {
			f.DefValue = "" // --help shows no default for this flag; its default is the value of --connection
		}
		if v.Type() == "bool" {
			f.NoOptDefVal = "true"
		}
		if v, ok := v.(interface{ words() []string }); ok {
			_ = c.RegisterFlagCompletionFunc(o.name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return v.words(), cobra.ShellCompDirectiveNoFileComp
			})
		}
	}
}

func find(table []option, name string) (o option, known bool) {
	i := slices.IndexFunc(table, func(o option) bool { return o.name == name })
	if i < 0 {
		return option{}, false
	}
	return table[i], true
}

// duration is the value of a flag that takes a duration, such as 15m or 1d.
type duration time.Duration

// Set implements [pflag.Value].
func (d *duration) Set(text string) error {
	read, err := input.Duration(text)
	*d = duration(read)
	return err
}

// String implements [pflag.Value].
func (d *duration) String() string { return time.Duration(*d).String() }

// Type implements [pflag.Value].
func (d *duration) Type() string { return "duration" }

// positive is the value of a flag that takes a number of at least 1. 0 means that the flag is absent.
type positive int

// Set implements [pflag.Value].
func (p *positive) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err == nil && n < 1 {
		err = fmt.Errorf("is %d; it must be at least 1", n)
	}
	*p = positive(n)
	return err
}

// String implements [pflag.Value].
func (p *positive) String() string { return strconv.Itoa(int(*p)) }

// Type implements [pflag.Value].
func (p *positive) Type() string { return "int" }
