package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/function/config"
	"tablesweep/internal/job"
	"tablesweep/internal/place"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep/progress"
)

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
	flags.DurationVar(&f.patience, "patience", storage.DefaultPatience, "how long to wait for an account that does not answer")
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
	if err := ambiguous(cmd, flag, connection); err != nil {
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
		sharedBy(cmd).meter.Await(cmd.Context(), a)
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

// ambiguous returns an error if a command would change the account of a default, and another default leads
// elsewhere: a catalog has two of them, of which other commands know one.
func ambiguous(c *cobra.Command, flag, connection string) error {
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
	for dry, off := range map[string]string{"dry-run": "false", "map-dry-run": "0"} {
		if f := c.Flags().Lookup(dry); f != nil && f.Value.String() != off {
			verb = "would change"
		}
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

// connectionFlags name one account.
type connectionFlags struct {
	accountFlags
	connection string
}

func (f *connectionFlags) add(c *cobra.Command, what string) {
	f.addPatience(c.Flags())
	addConnection(c, c.Flags(), &f.connection, "connection", storage.HostConnection, what)
}

func (f *connectionFlags) account(c *cobra.Command) (*storage.Account, error) {
	return f.openAccount(c, "connection", f.connection)
}

// tableFlags name one table.
type tableFlags struct {
	connectionFlags
	table, tableSAS string
}

func (f *tableFlags) add(c *cobra.Command) {
	f.connectionFlags.add(c, "the table's account")
	c.Flags().Var(placeValue{&f.table, &f.tableSAS}, "table", "the table; to read, also an export")
}

// addConnection adds a flag that takes a connection. The shell completes it to the names
// of settings that hold one.
func addConnection(c *cobra.Command, flags *pflag.FlagSet, to *string, name, standard, usage string) {
	flags.StringVar(to, name, standard, usage)
	_ = c.RegisterFlagCompletionFunc(name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return connectionSettings(os.Environ()), cobra.ShellCompDirectiveNoFileComp
	})
}

// connectionSettings returns the names of settings that hold a connection, in any form.
func connectionSettings(environment []string) []string {
	var names []string
	for _, setting := range environment {
		name, value, _ := strings.Cut(setting, "=")
		_, err := storage.ParseConnection(value)
		base, _, identity := strings.Cut(name, "__")
		switch {
		case identity && (strings.HasSuffix(name, "__accountName") || strings.HasSuffix(name, "__tableServiceUri")):
			names = append(names, base)
		case !identity && err == nil && strings.Contains(value, "="): // other URLs are seldom accounts
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
