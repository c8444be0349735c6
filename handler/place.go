package main

import (
	"fmt"
	"slices"
	"strings"

	"tablesweep/internal/job"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/place"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// location is a place as a command line names it. The field `path` does not contain the SAS of a URL, because errors and checkpoints
// repeat the path.
type location struct {
	path, sas string
	table     bool // path can only be a table's name, for example because the text began with "table:"
}

// Set implements [pflag.Value].
func (l *location) Set(text string) error {
	*l = location{path: text}
	if name, is := strings.CutPrefix(text, "table:"); is {
		l.path, l.table = name, true
		return storage.CheckTableName(name)
	}
	if place.InBlobs(text) {
		l.path, l.sas, _ = strings.Cut(text, "?")
	}
	return nil
}

// String implements [pflag.Value].
func (l *location) String() string { return l.path }

// Type implements [pflag.Value].
func (l *location) Type() string { return "string" }

// openPlace opens the place that a flag names. Tables and blobs are in the connection's account, unless a URL names another account.
func (f *accountFlags) openPlace(r *call, flag string, at location, in *connection) (p job.Place, err error) {
	p.Path = at.path
	if p.Kind, err = kindOf(flag, at); err != nil {
		return p, err
	}
	switch {
	case p.Kind == place.KindTable:
		account, err := f.openAccount(r, in)
		if err != nil {
			return p, err
		}
		p.Source = account.Table(at.path)
	case place.InBlobs(at.path):
		p.Objects, err = f.openBlobs(r, flag, at, in)
	case p.Kind == place.KindExport:
		p.Objects = place.Directory(at.path)
	}
	if err == nil && p.Objects != nil {
		err = p.CheckEnding(r.ctx, flag)
	}
	return p, err
}

// openBlobs opens a place in blobs. A connection cannot be combined with a URL that has a SAS or names another account.
func (f *accountFlags) openBlobs(r *call, flag string, at location, in *connection) (*place.Blobs, error) {
	var account *storage.Account
	var inAccount string
	if !place.IsURL(at.path) {
		if inAccount = at.path[len(place.InAccount):]; at.sas != "" {
			return nil, usagef("--%s %s: only a URL can have a SAS or other text after a question mark; write https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX?SAS", flag, at.path)
		}
		a, err := f.openAccount(r, in)
		if err != nil {
			return nil, err
		}
		account = a
	} else {
		known, name, err := parseConnection(in.flag, in.String())
		if err != nil && in.given() {
			return nil, err
		}
		url := at.path
		if at.sas != "" {
			url += "?" + at.sas
		}
		var own storage.Connection
		if own, inAccount, err = storage.BlobURL(url, known); err != nil {
			return nil, usagef("--%s: %w", flag, err)
		}
		switch {
		case own == known:
		case in.given():
			return nil, usagef("--%s %s cannot be combined with --%s, because the URL has a SAS or names another account; leave --%[3]s out", flag, at.path, in.flag)
		default:
			name = ""
		}
		if account, err = f.openConnection(r, own, name); err != nil {
			return nil, err
		}
	}
	container, prefix, _ := strings.Cut(inAccount, "/")
	err := storage.CheckContainerName(container)
	var b *place.Blobs
	if err == nil {
		b, err = place.InContainer(account, container, prefix)
	}
	if err != nil {
		return nil, usagef("--%s: %w", flag, err)
	}
	return b, nil
}

func kindOf(flag string, at location) (place.Kind, error) {
	if at.path == "" {
		return 0, usageError(unnamed{flag})
	}
	kind, err := place.KindOf(at.path)
	if err != nil {
		return 0, usagef("--%s: %w", flag, err)
	}
	return kind, nil
}

// source opens the table or export from which the command reads. It refuses --connection for a directory, unless ofUse says that the command needs the
// connection for another purpose, such as a queue.
func (f *sourceFlags) source(r *call, ofUse bool) (p job.Place, err error) {
	kind, err := kindOf("table", f.table)
	if err != nil {
		return p, err
	}
	if kind == place.KindFile || kind == place.KindStream {
		return p, usagef(`--table takes a table or an export, not %v; "tablesweep import" writes rows from files or stdin to a table`, kind)
	}
	if kind == place.KindExport && !place.InBlobs(f.table.path) && f.connection.given() && !ofUse {
		return p, usagef("--table %s is a directory, which has no connection; leave --connection out", f.table.path)
	}
	if p, err = f.openPlace(r, "table", f.table, &f.connection); err != nil {
		return p, err
	}
	return p, p.Read(r.ctx, "table")
}

func (p *pairFlags) kinds() (from, to place.Kind, err error) {
	if from, err = kindOf("from", p.from); err != nil {
		return from, to, err
	}
	to, err = kindOf("to", p.to)
	return from, to, err
}

// namesBoth returns an error if the destination's account is unclear: only the source's connection is given, and the destination is a table, or is in a
// container of blobs and has no URL. `table` is true if the destination is one or more tables.
func (p *pairFlags) namesBoth(table bool) error {
	inAccount := table || place.InBlobs(p.to.path) && !place.IsURL(p.to.path)
	if !inAccount || !p.fromConnection.given() || p.toConnection.orElse(&p.connection).given() {
		return nil
	}
	return job.Hint(usagef("--from-connection is given, but --to-connection is missing"), "name the destination's connection, such as --to-connection "+storage.HostConnection+"; to use one connection for both places, name it with --connection")
}

// besideAccounts returns a conflict for each flag that names a connection. The conflict exists if the flag applies to no
// place in an account.
func (p *pairFlags) besideAccounts(from, to place.Kind) []conflict {
	fromFiles, toFiles := from != place.KindTable && !place.InBlobs(p.from.path), to != place.KindTable && !place.InBlobs(p.to.path)
	return []conflict{
		{"from-connection", fromFiles, "the flag is only for a source in an account"},
		{"to-connection", toFiles, "the flag is only for a destination in an account"},
		{"connection", fromFiles && toFiles, "neither is in an account"},
	}
}

// openPair opens both places, which must differ. If `compare` is true, the command only compares the places, and changes neither.
func (p *pairFlags) openPair(r *call, compare bool) (from, to job.Place, err error) {
	_, toKind, err := p.kinds()
	if err == nil {
		err = p.namesBoth(toKind == place.KindTable)
	}
	if err != nil {
		return from, to, err
	}
	if from, err = p.openPlace(r, "from", p.from, p.fromConnection.orElse(&p.connection)); err != nil {
		return from, to, err
	}
	if to, err = p.openPlace(r, "to", p.to, p.toConnection.orElse(&p.connection)); err != nil {
		return from, to, err
	}
	if err = from.Read(r.ctx, "from"); err == nil && compare {
		err = to.Read(r.ctx, "to")
	}
	if err != nil {
		return from, to, err
	}
	if from.Table() != nil && to.Table() != nil && from.Table().Same(to.Table()) {
		return from, to, usagef("--from and --to are the same table of the same account")
	}
	if !compare && to.Table() != nil && r.point.Resume == "" { // a resumed command has checked the table before
		if err := mayChange(r, "to", to.Table()); err != nil {
			return from, to, err
		}
	}
	return from, to, nil
}

// mayChange refuses tables in which an app or a Functions host stores its state, in any account. The argument `flag` is the flag that names the
// table.
func mayChange(r *call, flag string, to *storage.Table) error {
	if storage.OfHost(to.Name()) {
		return job.Hint(usagef("--%s: table %s has a name that a Functions host gives to its own tables", flag, to.Name()), "name another table")
	}
	is, err := isStateTable(to.Name()), error(nil)
	if !is {
		is, err = ledger.IsLedger(r.ctx, to)
	}
	if is {
		return job.Hint(usagef("--%s: an app keeps its scans in table %s, so commands refuse to change this table", flag, to.Name()), "name another table")
	}
	return err
}

// announceDestination prints the destination of the rows if the destination is in an account. A resumed command also prints a destination
// that is a directory or file, because the user has not named it again. For the command `verify`, announceDestination prints nothing, because
// this command changes no destination.
func (r *call) announceDestination(to job.Place) {
	if to.Table() != nil || place.InBlobs(to.Path) {
		r.announceChanges(to.Address())
	} else if r.name != "verify" && r.point.Resume != "" {
		r.announce("writes", to.Address())
	}
}

// conflict describes options that may not fit a command's places.
type conflict struct {
	options string // their names, separated by spaces
	exists  bool   // true if the options do not fit
	why     string // the reason why they do not fit
}

// conflicts returns the error of the first given option that does not fit the places.
func (p *pairFlags) conflicts(r *call, all []conflict) error {
	for _, u := range all {
		for name := range strings.FieldsSeq(u.options) {
			if u.exists && r.text(name) != "" {
				return usagef("--%s does not fit %s: %s", name, p.words(), u.why)
			}
		}
	}
	return nil
}

// words returns the flags that name the two places, with their values.
func (p *pairFlags) words() string {
	var all []string
	if p.Many() {
		all = append(all, p.Choice.String())
	}
	for _, f := range []struct{ flag, value string }{{"--from", p.from.path}, {"--to", p.to.path}} {
		if f.value != "" {
			all = append(all, f.flag+" "+f.value)
		}
	}
	return strings.Join(all, " ")
}

// describe returns a text such as "from a table to an export (--from orders --to backup)".
func (p *pairFlags) describe(from, to place.Kind) string {
	return fmt.Sprintf("from %v to %v (%s)", from, to, p.words())
}

// rowFlags are the flags that choose a command's rows and the way to read them.
type rowFlags struct{ job.Rows }

func (f *rowFlags) options() []option {
	return []option{
		{"prefix", fixed, &f.Bounds.Prefix, nil, "only partition keys that start with this"},
		{"after", fixed, &f.Bounds.After, nil, "only partition keys greater than this"},
		{"before", fixed, &f.Bounds.Before, nil, "only partition keys less than this"},
		{"filter", fixed, &f.Filter, nil, "OData filter, such as \"Size gt 10 and Color eq 'red'\""},
		{"workers", perRun, &f.Workers, sweep.DefaultWorkers, "maximum number of concurrent requests"},
		{"max-rows-per-second", free, &f.MaxRows, nil, "maximum number of rows per second, counted separately for reads and writes"},
		{"max-requests-per-second", free, &f.MaxRequests, nil, "maximum number of requests per second, including retries"},
	}
}

// selectOption returns the option --select, for commands that need more than the keys.
func (f *rowFlags) selectOption() option {
	return option{"select", fixed, &f.Select, nil, "only the keys and these properties, such as A,B"}
}

// sourceFlags are the flags of commands that read the rows of one place.
type sourceFlags struct {
	tableFlags
	rowFlags
}

func (f *sourceFlags) options() []option {
	return slices.Concat(f.tableFlags.options(), f.rowFlags.options())
}
