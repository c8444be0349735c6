package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/function/config"
	"tablesweep/internal/function/server"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep/progress"
	"tablesweep/internal/task"
)

// The program's exit codes.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitFailedRows  = 3
	exitInterrupted = 130 // as shells report SIGINT
)

const exitHelp = `EXIT STATUS

  0    success
  1    the command failed, or verify found a difference
  2    a wrong flag or argument; nothing was done
  3    the command finished, but some rows or tables failed, which are listed, or --max-deletes left some
  130  interrupted; with a checkpoint, the command can be resumed`

// usageError makes an error that of a wrong flag or argument.
func usageError(err error) error { return job.Refusal{Err: err} }

// usagef returns the error of a wrong flag or argument.
func usagef(format string, args ...any) error { return job.Refuse("", format, args...) }

// partly ends a command that finished, although some rows or tables failed, or were left.
type partly struct{ error }

func partlyf(format string, args ...any) error { return partly{fmt.Errorf(format, args...)} }

func failedRows(n int64) error { return partlyf("%s failed", progress.Plural(n, "row")) }

// exitCode returns the program's exit code for an error, which may be nil.
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

// report prints an error, and advice.
func report(m *progress.Meter, err error) {
	m.Say("error", err.Error())
	if hint := hintFor(err); hint != "" {
		m.Say("hint", hint)
	}
}

func hintFor(err error) string {
	var h job.Hinted
	var dns *net.DNSError
	switch {
	case errors.As(err, &h):
		return h.Hint
	case job.Refused(err):
		return "--help shows the flags, with examples"
	case storage.HasCode(err, "TableNotFound"):
		return "the account has no such table; check its name and the connection"
	case storage.HasCode(err, "TableBeingDeleted", "QueueBeingDeleted", "ContainerBeingDeleted"):
		return "the deletion takes a minute; try again after that"
	case storage.Expired(err):
		return "make a new SAS for the account"
	case storage.HasCode(err, "AuthenticationFailed", "InvalidAuthenticationInfo"):
		return "check the account's key, or the SAS and its expiry; a wrong clock on this machine has the same effect"
	case storage.HasCode(err, "AuthorizationPermissionMismatch", "AuthorizationFailure"):
		return "reading takes the role Storage Table Data Reader, writing Storage Table Data Contributor, or a SAS with those permissions; the account's firewall may refuse this machine, too"
	case refusedHere(err):
		return "is the emulator running? handler emulator is one"
	case errors.As(err, &dns):
		return "check the account's name in the connection"
	case errors.Is(err, storage.ErrAway):
		return "run it again when the account answers; --patience says how long to wait for it"
	}
	return ""
}

// refusedHere reports whether this machine refused a connection.
func refusedHere(err error) bool {
	var op *net.OpError
	if !errors.As(err, &op) || !errors.Is(err, syscall.ECONNREFUSED) {
		return false
	}
	to, ok := op.Addr.(*net.TCPAddr)
	return ok && to.IP.IsLoopback()
}

// command returns a command that takes flags alone.
func command(name, short, long, examples string, run func(*cobra.Command) error) *cobra.Command {
	c := withArgs(name, short, long, examples, func(c *cobra.Command, _ []string) error { return run(c) })
	c.Args = noArgs
	return c
}

// withArgs returns a command that takes arguments, too.
func withArgs(use, short, long, examples string, run func(c *cobra.Command, args []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Long: long, Example: examples, RunE: run}
}

// group returns a command that has others.
func group(name, short, long, which string, commands ...*cobra.Command) *cobra.Command {
	c := command(name, short, long, "", func(*cobra.Command) error { return usagef("%s needs a command: %s", name, which) })
	c.AddCommand(commands...)
	return c
}

// noArgs refuses arguments as a usage error. It does not repeat one that may be a
// connection.
func noArgs(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case c.HasSubCommands() && isSetting(args[0]):
		return usagef("there is no command %q%s", args[0], meantCommand(c, args[0]))
	case c.HasSubCommands():
		return usagef("there is no such command")
	case isSetting(args[0]):
		return asValue(c, usagef("%s takes no argument such as %q, only flags", c.Name(), args[0]))
	}
	return usagef("%s takes no argument, only flags", c.Name())
}

// onlyArg returns a command's only argument, which says what it works on.
func onlyArg(c *cobra.Command, args []string, what string) (string, error) {
	if len(args) == 0 || args[0] == "" {
		return "", usagef("%s is missing", what)
	}
	return args[0], noArgs(c, args[1:])
}

// asValue adds advice to the error for an argument that may have been meant as the value of --dry-run.
func asValue(c *cobra.Command, err error) error {
	if f := c.Flags().Lookup("dry-run"); f != nil && f.Changed {
		given, _ := f.Value.(*once)
		if _, ok := given.Value.(*dryRun); ok {
			return job.Hint(err, "--dry-run takes its value with an equals sign: --dry-run=full")
		}
	}
	return err
}

// noEmptyFlags refuses a flag that is given without a value. In a script, it is most often a
// variable that is not set, and delete --rows "" must not delete all rows.
func noEmptyFlags(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if flagText(f) == "" {
			err = job.Hint(usagef("--%s has no value", f.Name), "give it one, or leave the flag out")
		}
	})
	return err
}

// badFlag makes a wrong flag a usage error. If the flag does not exist, the error repeats
// only its name, because a connection may follow it. If the command does not exist
// either, the error is about the command.
func badFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &invalid):
		return usagef("--%s %w", invalid.GetFlag().Name, reason(invalid))
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

// reason says what is wrong with a flag's value.
func reason(e *pflag.InvalidValueError) error {
	var number *strconv.NumError
	want := ""
	switch kind := e.GetFlag().Value.Type(); {
	case errors.Is(e, errTwice):
	case kind == "int":
		want = "a whole number"
	case kind == "duration":
		want = "a time such as 30s or 5m"
	case kind == "bool" && errors.As(e, &number):
		want = "true or false"
	}
	if want == "" {
		return e.Unwrap()
	}
	return fmt.Errorf("is %q, want %s", e.GetValue(), want)
}

var errTwice = errors.New("is given twice; give it once")

// once is a flag's value that is set once: nobody knows which of two was meant.
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

// onlyOnce refuses flags of the command and those below it that are given twice, unless they take a list.
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

// jsonFlag is the flag --json of commands that print a result as JSON or as text.
type jsonFlag struct{ json bool }

func (f *jsonFlag) add(c *cobra.Command, usage string) {
	c.Flags().BoolVar(&f.json, "json", false, usage)
}

// print prints a result: v as JSON, or else the text.
func (f *jsonFlag) print(c *cobra.Command, v any, text string, args ...any) error {
	if f.json {
		return lines.JSON(c.OutOrStdout()).Encode(v)
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), text, args...)
	return err
}

// asUsage turns an invalid request into a usage error.
func asUsage(err error) error {
	var p *problem.Error
	if errors.As(err, &p) && p.Kind == problem.Invalid {
		return usageError(err)
	}
	return err
}

const connectionHelp = `--connection takes the name of an environment variable that holds a connection string
(default AzureWebJobsStorage), or one of these themselves:
  a connection string, with an account key or a shared access signature (SAS)
  UseDevelopmentStorage=true for Azurite
  https://ACCOUNT.table.core.windows.net to sign in with Entra ID
  https://ACCOUNT.table.core.windows.net/?SAS for a SAS
Names keep keys out of shell histories and process lists. If AzureWebJobsStorage and
AZURE_STORAGE_CONNECTION_STRING lead to different accounts, a command that changes something
does not choose: give it a connection. It names what it changes in its first line on stderr.`

// choice is the value of a flag that takes one of some words.
type choice[T ~string] struct {
	to   *T
	of   []T
	want string
}

// addChoice adds a flag that takes one of some words, whose standard is the value that it has, or else the first. want describes them all.
func addChoice[T ~string](c *cobra.Command, to *T, name, usage, want string, of ...T) {
	*to = cmp.Or(*to, of[0])
	c.Flags().Var(choice[T]{to, of, want}, name, usage)
	var words []string
	for _, word := range of {
		words = append(words, string(word))
	}
	_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// Set implements [pflag.Value].
func (v choice[T]) Set(text string) error {
	if *v.to = T(text); !slices.Contains(v.of, *v.to) {
		return fmt.Errorf("is %q, want %s", text, cmp.Or(v.want, fmt.Sprintf("one of %v", v.of)))
	}
	return nil
}

// String implements [pflag.Value].
func (v choice[T]) String() string {
	if v.to == nil {
		return ""
	}
	return string(*v.to)
}

// Type implements [pflag.Value].
func (v choice[T]) Type() string { return "string" }

// environment returns the environment as settings.
func environment() storage.Settings { return storage.SettingsOf(os.Environ()) }

// isSetting reports whether a connection is the name of a setting, and so no secret.
func isSetting(connection string) bool { return !strings.ContainsAny(connection, "=:/") }

// accountFlags are the flags of commands that use a storage account.
type accountFlags struct {
	patience time.Duration
	open     map[string]*storage.Account // accounts that are open, by their connections; those of many tables are, before their jobs run at once
}

func (f *accountFlags) addPatience(flags *pflag.FlagSet) {
	flags.DurationVar(&f.patience, "patience", storage.DefaultPatience, "how long to wait for an account that stops answering; if given, from the first request on")
}

// openAccount opens the account of a flag's connection. While requests wait for an account
// that does not answer, the command says so.
func (f *accountFlags) openAccount(cmd *cobra.Command, flag, connection string) (*storage.Account, error) {
	if a := f.open[connection]; a != nil {
		return a, nil
	}
	c, name, err := parseConnection(flag, connection)
	if err != nil {
		return nil, err
	}
	if err := chosen(cmd, flag, connection); err != nil {
		return nil, usagef("--%s: %w", flag, err)
	}
	a, err := f.openConnection(cmd, c, name)
	if err == nil {
		if f.open == nil {
			f.open = map[string]*storage.Account{}
		}
		f.open[connection] = a
	}
	return a, err
}

// parseConnection reads a flag's connection. name is that of its setting, if it is one.
func parseConnection(flag, connection string) (c storage.Connection, name string, err error) {
	if !isSetting(connection) {
		c, err = storage.ParseConnection(connection)
	} else if strings.Contains(connection, ".") || secret.InName(connection) {
		return c, "", job.Hint(usagef("--%s: %s is not the name of a setting", flag, secret.Name(connection)), "an account's URL begins with https://")
	} else {
		name = connection
		c, err = storage.SettingConnection(connection, environment())
	}
	if err != nil {
		err = usagef("--%s: %w", flag, err)
	}
	return c, name, err
}

// openConnection opens an account, which errors call by the name if it is not empty.
func (f *accountFlags) openConnection(cmd *cobra.Command, c storage.Connection, name string) (*storage.Account, error) {
	if f.patience <= 0 {
		return nil, usagef("--patience is %v, want a time above 0", f.patience)
	}
	given := func(flag string) bool { return cmd.Flags().Changed(flag) }
	a, err := storage.Open(c, storage.Options{Name: name, Patience: f.patience, Unproven: !given("patience") && !given("resume")})
	if err == nil {
		sharedBy(cmd).meter.Await(cmd.Context(), a.Outages)
	}
	return a, err
}

// changes reports whether the command changes something in storage.
func changes(c *cobra.Command) bool {
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	switch path {
	case "copy", "export": // to a table or to blobs; of many tables, none may be an account's
		to := c.Flags().Lookup("to").Value.String()
		kind, err := place.KindOf(to)
		return to == "" || err == nil && kind == place.KindTable || place.InBlobs(to)
	case "import", "enqueue", "delete", "tables create", "tables delete", "log append", "log delete", "catalog insert", "catalog patch",
		"catalog delete", "catalog import", "catalog recover", "catalog migrate":
		return true
	case "verify", "catalog check":
		return c.Flags().Changed("repair")
	}
	return false
}

// chosen returns an error if a command would change the account of a default, and another default leads
// elsewhere: a catalog has two of them, of which other commands know one.
func chosen(c *cobra.Command, flag, connection string) error {
	defaults := []string{storage.HostConnection, config.CatalogConnection}
	if !changes(c) || c.Flags().Changed(flag) || !slices.Contains(defaults, connection) {
		return nil
	}
	first, err := storage.SettingConnection(defaults[0], environment())
	second, otherErr := storage.SettingConnection(defaults[1], environment())
	if err != nil || otherErr != nil || first.Same(second) { // one is not set
		return nil
	}
	return fmt.Errorf("the settings %s and %s lead to different accounts; give the name of the one that is meant", defaults[0], defaults[1])
}

// changed names the table or queue that a command changes, or in a dry run would change, by its address: the first
// line on stderr.
func changed(c *cobra.Command, address string) {
	if !changes(c) {
		return
	}
	verb := "changes"
	if f := c.Flags().Lookup("dry-run"); f != nil && f.Value.String() != "false" {
		verb = "would change"
	}
	first(c, verb, address)
}

// first says what a command is about to do, before all else.
func first(c *cobra.Command, verb, address string) {
	meter := sharedBy(c).meter
	if f := c.Flags().Lookup("progress"); f != nil {
		meter.Use(progress.Style(f.Value.String()))
	}
	meter.Say(verb, address)
}

// openTable returns the table that a flag names.
func openTable(a *storage.Account, flag, name string) (*storage.Table, error) {
	if name == "" {
		return nil, usagef("--%s is missing", flag)
	}
	if err := storage.CheckTableName(name); err != nil {
		return nil, usagef("--%s: %w", flag, err)
	}
	return a.Table(name), nil
}

// tableFlags name one table.
type tableFlags struct {
	accountFlags
	connection, table, tableSAS string
}

func (f *tableFlags) add(c *cobra.Command) {
	f.addPatience(c.Flags())
	addConnection(c, c.Flags(), &f.connection, "connection", storage.HostConnection, "the table's account; see above")
	c.Flags().Var(placeValue{&f.table, &f.tableSAS}, "table", "the table; to read, an export, too")
}

func (f *tableFlags) open(c *cobra.Command) (*storage.Account, *storage.Table, error) {
	if f.table == "" {
		return nil, nil, usagef("--table is missing")
	}
	a, err := f.openAccount(c, "connection", f.connection)
	if err != nil {
		return nil, nil, err
	}
	t, err := openTable(a, "table", f.table)
	return a, t, err
}
