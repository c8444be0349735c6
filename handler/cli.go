package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/app/server"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// The program's exit codes.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitFailedRows  = 3
	exitInterrupted = 130 // as shells report SIGINT
)

// usageError marks an error as a wrong flag or argument.
func usageError(err error) error { return job.Refusal{Err: err} }

// usagef returns the error of a wrong flag or argument.
func usagef(format string, args ...any) error { return job.Refuse("", format, args...) }

// partly is the error of a command that finished, but failed for some rows, records or tables. The exit code is exitFailedRows.
type partly struct{ error }

func partlyf(format string, args ...any) error { return partly{fmt.Errorf(format, args...)} }

func failedRows(n int64) error { return partlyf("%s failed", problem.Plural(n, "row")) }

// exitCode returns the program's exit code for an error or nil.
func exitCode(err error) int {
	var again server.Restart
	switch {
	case err == nil:
		return 0
	case errors.As(err, &again):
		return server.RestartCode
	case job.Refused(err):
		return exitUsage
	case errors.As(err, new(partly)):
		return exitFailedRows
	case errors.Is(err, task.ErrInterrupted):
		return exitInterrupted
	}
	return exitFailed
}

// report prints an error, and its hint if there is one.
func report(m *progress.Meter, err error) {
	m.Print("error", err.Error())
	if hint := hintFor(err); hint != "" {
		m.Print("hint", hint)
	}
}

func hintFor(err error) string {
	var h job.Hinted
	var dns *net.DNSError
	switch {
	case errors.As(err, &h):
		return h.Hint
	case errors.Is(err, storage.ErrNoConnection):
		return "tablesweep emulator starts storage on this machine and prints its connection string"
	case job.Refused(err) && aboutFlags(err):
		return "--help shows the flags, with examples"
	case storage.HasCode(err, "TableNotFound"):
		return "the account has no such table; check its name and the connection"
	case storage.BeingDeleted(err):
		return "the deletion is still running, and takes about a minute; try again later"
	case storage.Expired(err):
		return "make a new SAS for the account"
	case storage.HasCode(err, "AuthenticationFailed", "InvalidAuthenticationInfo"):
		return "check the account's key, or the SAS and its expiry; a wrong clock on this machine has the same effect"
	case storage.HasCode(err, "AuthorizationPermissionMismatch", "AuthorizationFailure"):
		return "an identity needs the role Storage Table Data Reader to read, and Storage Table Data Contributor to write; a SAS must permit the same operations; the account's firewall may also be refusing this machine"
	case refusedHere(err):
		return "is the emulator running? tablesweep emulator starts one"
	case errors.As(err, &dns):
		return "check the account's name in the connection"
	case errors.Is(err, storage.ErrAway):
		return "run the command again when the account answers; --patience sets how long to wait for the account"
	}
	return ""
}

// aboutFlags reports whether a list of the flags helps a user with this error.
func aboutFlags(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "--") || strings.HasPrefix(text, "unknown ") || strings.HasSuffix(text, "only flags")
}

// refusedHere reports whether this machine refused a connection to itself.
func refusedHere(err error) bool {
	var op *net.OpError
	if !errors.As(err, &op) || !errors.Is(err, syscall.ECONNREFUSED) {
		return false
	}
	to, ok := op.Addr.(*net.TCPAddr)
	return ok && to.IP.IsLoopback()
}

// command returns a command. usage is the command's name, followed by the command's arguments.
func command(usage, short string, o runnable) *cobra.Command {
	c := &cobra.Command{Use: usage, Short: short, RunE: func(c *cobra.Command, args []string) error { return callOf(c, args).run(o) }}
	addOptions(c, o.options())
	_, argument, _ := strings.Cut(usage, " ")
	what := map[string]string{"TABLE": "the table's name", "STREAM": "the stream's name", "ID": "the scan's id", "FILE": "the file of the request"}[argument]
	of, takesPlaces := o.(placed)
	switch {
	case takesPlaces:
		c.Args = func(c *cobra.Command, args []string) error { return takePlaces(c, of, args) }
		run := c.RunE
		c.RunE = func(c *cobra.Command, args []string) error { return withForm(usage, of, run(c, args)) }
	case argument == "":
		c.Args = noArgs
	case what != "":
		c.Args = func(c *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return usagef("%s is missing", what)
			}
			return noArgs(c, args[1:])
		}
	}
	return c
}

// group returns a command that only has subcommands.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name())
	}
	last := len(names) - 1
	c := &cobra.Command{Use: name, Short: short, Args: noArgs, RunE: func(*cobra.Command, []string) error {
		return usagef("%s needs a command: %s or %s", name, strings.Join(names[:last], ", "), names[last])
	}}
	c.AddCommand(commands...)
	return c
}

// If there are arguments, noArgs returns a usage error. The error does not repeat an argument, which may be a connection.
func noArgs(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case c.HasSubCommands() && job.IsSetting(args[0]):
		return usagef("there is no command %q%s", args[0], meantCommand(c, args[0]))
	case c.HasSubCommands():
		return usagef("there is no such command")
	case job.IsSetting(args[0]):
		return asValue(c, usagef("%s does not accept the argument %q, only flags", c.Name(), args[0]))
	}
	return usagef("%s takes no argument, only flags", c.Name())
}

// asValue adds a hint to the error of an argument that may be meant as the value of --dry-run.
func asValue(c *cobra.Command, err error) error {
	if f := c.Flags().Lookup("dry-run"); f != nil && f.Changed {
		given, _ := f.Value.(*once)
		if _, ok := given.Value.(*dryRun); ok {
			return job.Hint(err, "--dry-run takes its value with an equals sign: --dry-run=full")
		}
	}
	return err
}

var errNoValue = job.Hint(errors.New("has no value"), "give the flag a value, or leave it out")

// noEmptyFlags refuses a flag whose value is empty. In a script, an empty value is most often an unset variable.
// Without this check, `delete --rows ""` would delete all rows.
func noEmptyFlags(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if valueText(f.Value) == "" {
			err = usagef("--%s %w", f.Name, errNoValue)
		}
	})
	return err
}

// badFlag turns the error of a wrong flag into a usage error. For an unknown flag, the error repeats the name but not
// the value, which may be a connection. If the command is also unknown, the error names the command instead.
func badFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &invalid):
		name := "--" + invalid.GetFlag().Name
		if f := c.Flags().Lookup("from"); f == invalid.GetFlag() && f.Name != "from" && errors.Is(err, errTwice) { // see fromIsTable
			name += ", also called --from,"
		}
		return usagef("%s %w", name, reason(invalid))
	case !errors.As(err, &unknown):
		return usageError(err)
	}
	if args := c.Flags().Args(); c.HasSubCommands() && len(args) > 0 {
		return noArgs(c, args)
	}
	text, _, _ := strings.Cut(err.Error(), "=")
	if unknown.GetSpecifiedShortnames() == "" {
		text += meantFlag(c, unknown.GetSpecifiedName())
	}
	return usagef("%s", text)
}

// reason returns why a flag's value is invalid.
func reason(e *pflag.InvalidValueError) error {
	var number *strconv.NumError
	want := ""
	switch kind := e.GetFlag().Value.Type(); {
	case errors.Is(e, errTwice):
	case kind == "int" && errors.As(e, &number):
		want = "a whole number"
	case kind == "bool" && errors.As(e, &number):
		want = "true or false"
	}
	if want == "" {
		return e.Unwrap()
	}
	return fmt.Errorf("is %q; it must be %s", e.GetValue(), want)
}

var errTwice = errors.New("is given twice; give it once")

// once is the value of a flag that may be given only once, because two values would be ambiguous.
type once struct {
	pflag.Value
	set bool
}

// Set implements [pflag.Value].
func (o *once) Set(text string) error {
	if o.set {
		return errTwice
	}
	o.set = true
	return o.Value.Set(text)
}

// onlyOnce makes the flags of a command and its subcommands refuse a second value. Flags for lists still accept several
// values.
func onlyOnce(c *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if _, list := f.Value.(pflag.SliceValue); !list {
				f.Value = &once{Value: f.Value}
			}
		})
	}
	for _, sub := range c.Commands() {
		onlyOnce(sub)
	}
}

func asUsage(err error) error {
	var p *problem.Error
	if errors.As(err, &p) && p.Kind == problem.Invalid {
		return usageError(err)
	}
	return err
}

// listing prints items, one per line, as JSON or in columns.
type listing struct {
	json    *json.Encoder // nil for columns
	columns *tabwriter.Writer
	err     error // the first error, after which nothing is printed
}

func newListing(out io.Writer, asJSON bool) *listing {
	l := &listing{columns: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	if asJSON {
		l.json = lines.JSON(out)
	}
	return l
}

// head prints the columns' names, unless the output is JSON.
func (l *listing) head(names ...string) {
	if l.json == nil {
		l.add(nil, names...)
	}
}

// add prints an item, as JSON of v or in columns.
func (l *listing) add(v any, columns ...string) {
	switch {
	case l.err != nil:
	case l.json != nil:
		l.err = l.json.Encode(v)
	default:
		for i := range columns {
			columns[i] = lines.Plain(strings.ReplaceAll(columns[i], "\n", "; "))
		}
		_, l.err = fmt.Fprintln(l.columns, strings.Join(columns, "\t"))
	}
}

// end prints the aligned columns. If there is only one column, the method add has already printed
// it.
func (l *listing) end() error { return cmp.Or(l.err, l.columns.Flush()) }
