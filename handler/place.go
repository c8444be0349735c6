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

// location is a place as a command line names it. Its path, which errors and checkpoints repeat, is without the SAS that a URL may have.
type location struct {
	path, sas string
	table     bool // it is spelt as a table: table:NAME
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

// openPlace opens the place of a flag; a table or blobs are in the account of a connection.
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

// openBlobs opens a place in blobs.
func (f *accountFlags) openBlobs(r *call, flag string, at location, in *connection) (*place.Blobs, error) {
	var account *storage.Account
	var inAccount string
	if !place.IsURL(at.path) {
		if inAccount = at.path[len(place.InAccount):]; at.sas != "" {
			return nil, usagef("--%s %s: a SAS, and all else behind a question mark, needs a URL: https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX?SAS", flag, at.path)
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
			return nil, usagef("--%s does not fit --%s %s: its SAS, or another account, signs in", in.flag, flag, at.path)
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

// kindOf returns what a flag's place is.
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

// source opens the table or export, whose rows are read. A directory has no account, so a connection is refused, unless it is
// of use for something else, too.
func (f *sourceFlags) source(r *call, ofUse bool) (p job.Place, err error) {
	kind, err := kindOf("table", f.table)
	if err != nil {
		return p, err
	}
	if kind == place.KindFile || kind == place.KindStream {
		return p, usagef("--table takes a table or an export, not %v; import writes its rows to a table", kind)
	}
	if kind == place.KindExport && !place.InBlobs(f.table.path) && f.connection.given() && !ofUse {
		return p, usagef("--connection does not fit --table %s, which is a directory", f.table.path)
	}
	if p, err = f.openPlace(r, "table", f.table, &f.connection); err != nil {
		return p, err
	}
	return p, p.Read(r.ctx, "table")
}

// kinds returns what the pair's places are.
func (p *pairFlags) kinds() (from, to place.Kind, err error) {
	if from, err = kindOf("from", p.from); err != nil {
		return from, to, err
	}
	to, err = kindOf("to", p.to)
	return from, to, err
}

// namesBoth refuses connections of which the source's is named, and not the destination's: nobody would know which account is meant. table
// tells that the destination is tables of an account.
func (p *pairFlags) namesBoth(table bool) error {
	inAccount := table || place.InBlobs(p.to.path) && !place.IsURL(p.to.path)
	if !inAccount || !p.fromConnection.given() || p.toConnection.or(&p.connection).given() {
		return nil
	}
	return job.Hint(usagef("--to-connection is missing: who names the source's connection names the destination's, too"), "--connection names both at once; "+storage.HostConnection+" is the default of both")
}

// besideAccounts are the connections for which a pair's places have no use.
func (p *pairFlags) besideAccounts(from, to place.Kind) []conflict {
	fromFiles, toFiles := from != place.KindTable && !place.InBlobs(p.from.path), to != place.KindTable && !place.InBlobs(p.to.path)
	return []conflict{
		{"from-connection", fromFiles, "it is about a source in an account"},
		{"to-connection", toFiles, "it is about a destination in an account"},
		{"connection", fromFiles && toFiles, "neither is in an account"},
	}
}

// openPair opens the places of a pair, which must differ. reads tells whether the second one is read, too.
func (p *pairFlags) openPair(r *call, reads bool) (from, to job.Place, err error) {
	_, toKind, err := p.kinds()
	if err == nil {
		err = p.namesBoth(toKind == place.KindTable)
	}
	if err != nil {
		return from, to, err
	}
	if from, err = p.openPlace(r, "from", p.from, p.fromConnection.or(&p.connection)); err != nil {
		return from, to, err
	}
	if to, err = p.openPlace(r, "to", p.to, p.toConnection.or(&p.connection)); err != nil {
		return from, to, err
	}
	if err = from.Read(r.ctx, "from"); err == nil && reads {
		err = to.Read(r.ctx, "to")
	}
	if err != nil {
		return from, to, err
	}
	if from.Table() != nil && to.Table() != nil && from.Table().Same(to.Table()) {
		return from, to, usagef("--from and --to are the same table of the same account")
	}
	if !reads && to.Table() != nil && r.point.Resume == "" { // or else the first run has checked it
		if err := mayTakeRows(r, to.Table()); err != nil {
			return from, to, err
		}
	}
	return from, to, nil
}

// mayTakeRows refuses a table in which an app or a Functions host keeps its state, in whichever account.
func mayTakeRows(r *call, to *storage.Table) error {
	if storage.OfHost(to.Name()) {
		return job.Hint(usagef("--to: table %s has a name that a Functions host gives to its own tables", to.Name()), "name another table")
	}
	is, err := isStateTable(to.Name()), error(nil)
	if !is {
		is, err = ledger.Is(r.ctx, to)
	}
	if is {
		return job.Hint(usagef("--to: in table %s an app keeps its scans: rows from elsewhere would change what it has done", to.Name()), "name another table")
	}
	if err != nil {
		err = fmt.Errorf("check the destination: %w", err)
	}
	return err
}

// announceDestination says where rows go: what changes in an account, or where a resumed command writes its files, since a checkpoint has chosen
// that place.
func (r *call) announceDestination(to job.Place) {
	if to.Table() != nil || place.InBlobs(to.Path) {
		r.announceChanges(to.Address())
	} else if r.name != "verify" && r.point.Resume != "" {
		r.announce("writes", to.Address())
	}
}

// conflict has options that a pair of places has no use for when something is so, and why.
type conflict struct {
	options string // their names, with spaces between
	when    bool
	why     string
}

// conflicts returns the first of the options that was given and must not be.
func (p *pairFlags) conflicts(r *call, all []conflict) error {
	for _, u := range all {
		for name := range strings.FieldsSeq(u.options) {
			if u.when && r.text(name) != "" {
				return usagef("--%s does not fit %s: %s", name, p.words(), u.why)
			}
		}
	}
	return nil
}

// words returns the flags that name the pair's places.
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

// describe returns what the pair's places are.
func (p *pairFlags) describe(from, to place.Kind) string {
	return fmt.Sprintf("from %v to %v (%s)", from, to, p.words())
}

// rowFlags are the flags that choose a command's rows and how they are read.
type rowFlags struct{ job.Rows }

func (f *rowFlags) options() []option {
	return []option{
		{"prefix", fixed, &f.Bounds.Prefix, nil, "only partition keys that start with this"},
		{"after", fixed, &f.Bounds.After, nil, "only partition keys greater than this"},
		{"before", fixed, &f.Bounds.Before, nil, "only partition keys less than this"},
		{"filter", fixed, &f.Filter, nil, "OData filter, such as \"Size gt 10 and Color eq 'red'\""},
		{"workers", perRun, &f.Workers, sweep.DefaultWorkers, "most requests at once"},
		{"max-rows-per-second", free, &f.MaxRows, nil, "most rows a second, read and written"},
		{"max-requests-per-second", free, &f.MaxRequests, nil, "most requests a second, retries included"},
	}
}

// choosing is the option --select, of commands that need more than the keys.
func (f *rowFlags) choosing() option {
	return option{"select", fixed, &f.Select, nil, "only these properties, such as A,B, and the keys"}
}

// sourceFlags are the flags of commands that read the rows of one place.
type sourceFlags struct {
	tableFlags
	rowFlags
}

func (f *sourceFlags) options() []option {
	return slices.Concat(f.tableFlags.options(), f.rowFlags.options())
}
