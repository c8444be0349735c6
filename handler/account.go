package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/app/config"
	"tablesweep/internal/job"
	"tablesweep/internal/job/jobrecord"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/storage"
)

// choice is the value of a flag that takes one word of a list.
type choice[T ~string] struct {
	to   *T
	of   []T
	want string
}

// choose returns an option that takes one word of a list. The first word is the default. Errors contain the argument `want` or, if it is "", the
// list of words.
func choose[T ~string](name string, keep jobrecord.Keep, to *T, usage, want string, of ...T) option {
	return option{name, keep, choice[T]{to, of, want}, of[0], usage}
}

// words returns the values that the shell offers for the flag.
func (v choice[T]) words() (words []string) {
	for _, word := range v.of {
		words = append(words, string(word))
	}
	return words
}

// Set implements [pflag.Value].
func (v choice[T]) Set(text string) error {
	if *v.to = T(text); !slices.Contains(v.of, *v.to) {
		return fmt.Errorf("is %q; it must be %s", text, cmp.Or(v.want, fmt.Sprintf("one of %v", v.of)))
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

func environment() storage.Settings { return storage.SettingsOf(os.Environ()) }

// stateTable returns the name of an app's state table, from the setting or by default.
func stateTable() string {
	return cmp.Or(environment().Get("TABLESWEEP_STATE_TABLE"), config.DefaultStateTable)
}

// isStateTable reports whether name is the name of an app's state table, either from the setting or by default.
func isStateTable(name string) bool {
	return strings.EqualFold(name, stateTable()) || strings.EqualFold(name, config.DefaultStateTable)
}

// accountFlags are the flags of commands that use a storage account.
type accountFlags struct{ patience time.Duration }

func (f *accountFlags) options() []option {
	return []option{{"patience", perRun, &f.patience, storage.DefaultPatience, "how long to wait for an account that does not answer"}}
}

// connection is an option that chooses an account. Its value is a connection, or the name of a setting that contains a connection.
type connection struct {
	flag     string // its name
	standard string // the default
	text     string // the flag's value, or "" if the flag is not given
}

// connect returns an option that takes a connection.
func connect(name string, to *connection, standard, usage string) option {
	to.flag, to.standard = name, standard
	return option{name: name, keep: eachRun, field: to, usage: usage}
}

// Set implements [pflag.Value].
func (v *connection) Set(text string) error {
	if v.text = text; text == "" { // the default would replace an empty text
		return errNoValue
	}
	return nil
}

// String implements [pflag.Value].
func (v *connection) String() string { return cmp.Or(v.text, v.standard) }

// Type implements [pflag.Value].
func (v *connection) Type() string { return "string" }

// words returns the values that the shell offers for the flag.
func (v *connection) words() []string { return connectionSettings(os.Environ()) }

// given reports whether the flag was given, perhaps with the default value.
func (v *connection) given() bool { return v.text != "" }

// orElse returns v or, if only the other connection was given, that connection.
func (v *connection) orElse(other *connection) *connection {
	if !v.given() && other.given() {
		return other
	}
	return v
}

// openAccount returns the account of a connection, and opens it only once. The meter shows when requests wait for the
// account.
func (f *accountFlags) openAccount(r *call, at *connection) (*storage.Account, error) {
	text := at.String()
	if a := r.accounts[text]; a != nil {
		return a, nil
	}
	c, name, err := parseConnection(at.flag, text)
	if err != nil {
		return nil, err
	}
	if err := r.ambiguous(at); err != nil {
		return nil, usagef("--%s: %w", at.flag, err)
	}
	a, err := f.openConnection(r, c, name)
	if err == nil {
		r.accounts[text] = a
	}
	return a, err
}

// parseConnection parses a flag's connection. If the flag names a setting, name is the setting's name; otherwise, name
// is "".
func parseConnection(flag, connection string) (c storage.Connection, name string, err error) {
	if !job.IsSetting(connection) {
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

// openConnection opens an account. Errors contain the given name or, if it is "", the account's host.
func (f *accountFlags) openConnection(r *call, c storage.Connection, name string) (*storage.Account, error) {
	if f.patience <= 0 {
		return nil, usagef("--patience is %v; it must be longer than 0", f.patience)
	}
	a, err := storage.Open(c, storage.Options{Name: name, Patience: f.patience, Unproven: f.patience == storage.DefaultPatience && r.point.Resume == "", AwaitDeletion: true})
	if err == nil {
		r.Meter.Await(r.ctx, a)
	}
	return a, err
}

// ambiguous returns an error if a command would change the default account, but AzureWebJobsStorage and AZURE_STORAGE_CONNECTION_STRING lead to
// different accounts. By default, commands for catalogs would use AZURE_STORAGE_CONNECTION_STRING, and other commands would use
// AzureWebJobsStorage.
func (r *call) ambiguous(at *connection) error {
	defaults := []string{storage.HostConnection, config.CatalogConnection}
	if !r.changes || at.given() || !slices.Contains(defaults, at.standard) {
		return nil
	}
	first, err := storage.SettingConnection(defaults[0], environment())
	second, otherErr := storage.SettingConnection(defaults[1], environment())
	if err != nil || otherErr != nil || first.Same(second) { // one of the settings is not set, or both lead to the same account
		return nil
	}
	return fmt.Errorf("the settings %s and %s lead to different accounts; name the setting to use", defaults[0], defaults[1])
}

// announceChanges prints the address of the table or queue that a command changes or, in a dry run, would change. It is called after the
// command's checks and before all changes.
func (r *call) announceChanges(address string) {
	switch {
	case r.changes && r.dry:
		r.announce("would change", address)
	case r.changes:
		r.announce("changes", address)
	}
}

func (r *call) announce(verb, address string) {
	if o, known := find(r.command.options(), "progress"); known {
		r.Meter.Use(progress.Style(o.text()))
	}
	r.Meter.Print(verb, address)
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

// connectionFlags are the flags that name one account.
type connectionFlags struct {
	accountFlags
	connection connection
}

func (f *connectionFlags) options(what string) []option {
	return append(f.accountFlags.options(), connect("connection", &f.connection, storage.HostConnection, what))
}

func (f *connectionFlags) account(r *call) (*storage.Account, error) {
	return f.openAccount(r, &f.connection)
}

// tableFlags are the flags that name one table.
type tableFlags struct {
	connectionFlags
	table location
}

func (f *tableFlags) options() []option {
	return append(f.connectionFlags.options("the table's account"), option{"table", fixed, &f.table, nil, "the table, if it is not given as an argument"})
}

// connectionSettings returns the names of the settings that contain a connection: a connection string, a URL with a SAS, or the identity form.
func connectionSettings(environment []string) []string {
	var names []string
	for _, setting := range environment {
		name, value, _ := strings.Cut(setting, "=")
		_, err := storage.ParseConnection(value)
		base, _, identity := strings.Cut(name, "__")
		switch {
		case identity && (strings.HasSuffix(name, "__accountName") || strings.HasSuffix(name, "__tableServiceUri")):
			names = append(names, base)
		case !identity && err == nil && strings.Contains(value, "="): // leaves out URLs without a SAS, because few of them are URLs of accounts
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
