package main

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/job"
	"tablesweep/internal/place"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep/progress"
)

// manyFlags choose several tables.
type manyFlags struct {
	all      bool
	patterns []string
}

func (f *manyFlags) options() []option {
	return []option{
		{"all", fixed, &f.all, nil, "all tables of the account, or of an export"},
		{"tables", fixed, &f.patterns, nil, "tables whose names match, such as 'logs*,orders'"},
	}
}

// many reports whether the command is about several tables.
func (f *manyFlags) many() bool { return f.all || f.patterns != nil }

func (f *manyFlags) String() string {
	if f.all {
		return "--all"
	}
	return "--tables " + strings.Join(f.patterns, ",")
}

// match returns those of the names that match. Each pattern must match one.
func (f *manyFlags) match(names []string) ([]string, error) {
	if f.all && f.patterns != nil {
		return nil, usagef("--all and --tables exclude each other")
	}
	for _, pattern := range f.patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, usagef("--tables is %s, want a pattern such as 'logs*' or 'log[0-9]'", secret.Name(pattern))
		}
		if !slices.ContainsFunc(names, func(name string) bool { return matches(pattern, name) }) {
			return nil, job.Hint(usagef("--tables: %s matches none of %s", secret.Name(pattern), progress.Plural(len(names), "table")), "tablesweep tables list shows which an account has")
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !f.names(name) }), nil
}

// names reports whether a table is one of those.
func (f *manyFlags) names(name string) bool {
	return f.all || slices.ContainsFunc(f.patterns, func(pattern string) bool { return matches(pattern, name) })
}

// matches ignores case, as the service does in tables' names.
func matches(pattern, name string) bool {
	ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(name))
	return ok && err == nil
}

// openHome opens what the flag of a place names: the account of a connection, if it is empty.
func (f *accountFlags) openHome(r *call, flag string, at location, in *connection) (h job.Home, err error) {
	if at.path == "" {
		h.Account, err = f.openAccount(r, in)
		return h, err
	}
	kind, err := place.KindOf(at.path)
	if err == nil && kind != place.KindExport {
		err = fmt.Errorf("%s is %v", at.path, kind)
	}
	if err != nil {
		return h, job.Hint(usagef("--%s: %w; with many tables, it takes a directory or a prefix of blobs", flag, err), "leave it out for the tables of an account, or give a path with a slash, such as backup/")
	}
	h.Place, err = f.openPlace(r, flag, at, in)
	h.Path = strings.TrimRight(at.path, "/") + "/"
	return h, err
}

// check returns what is wrong and no table's own run would notice, and adds the tables that a comparison's destination alone has.
func (r *manyRun) check(names []string) error {
	known := map[string]string{}
	for _, name := range names {
		low := strings.ToLower(name)
		if other, alike := known[low]; alike && r.to != nil && r.to.Account != nil {
			return usagef("%v: %s and %s are one table, since the service ignores case; import one of them alone, under another name", &r.choice, other, name)
		}
		known[low] = name
		for _, file := range []string{r.pointOf(name), inside(r.failed, name, failedExt)} {
			if job.IsThere(file) { // a resume would go on with it, or replace it
				return job.Hint(usagef("%s is of an earlier command", file), "give another directory, or move that one away")
			}
		}
	}
	differs := r.compares && !r.allowExtra
	if !differs && !r.exports() {
		return nil
	}
	there, err := r.to.Tables(r.call.ctx)
	if err != nil && !storage.NotFound(err) { // a container that is not there is made
		return err
	}
	for _, name := range there {
		switch _, ours := known[strings.ToLower(name)]; {
		case ours && r.exports():
			return job.Hint(usagef("--to: %s has an export of %s", r.to.Address(), name), "give another place, or take only the others with --tables")
		case differs && !ours && r.choice.names(name):
			r.All = append(r.All, job.TableResult{Table: name, State: job.Different, Error: "only the destination has it"})
		}
	}
	if r.exports() {
		return notTaken(place.FreeOfTables(r.call.ctx, r.to.Objects))
	}
	return nil
}

// claim claims the place for the export of many tables.
func (r *manyRun) claim() error {
	point := &r.call.point
	if r.Journal == nil {
		if _, err := point.Begin(r.call.given(), job.Facts{Places: []string{r.from.Address(), r.to.Address()}}); err != nil {
			return err
		}
	}
	c := place.NewTablesClaim(point.Export, point.Record.JSON(), time.Now().UTC().Truncate(time.Second), program())
	return notTaken(place.ClaimTables(r.call.ctx, r.to.Objects, c))
}

// notTaken returns the error of a place, with what to do if another export of many tables has it.
func notTaken(err error) error {
	if errors.Is(err, place.ErrTaken) {
		return job.Hint(usagef("--to: %w", err), "give another place: each holds one export of many tables")
	}
	return job.BlobHint(err)
}

// homes opens what the pair's tables stand in. They must differ.
func (p *pairFlags) homes(r *call) (from, to job.Home, err error) {
	if from, err = p.openHome(r, "from", p.from, &p.fromConnection); err != nil {
		return from, to, err
	}
	if to, err = p.openHome(r, "to", p.to, p.toConnection.or(p.fromConnection)); err != nil {
		return from, to, err
	}
	same := from.Address() == to.Address()
	if from.Account != nil && to.Account != nil {
		same = from.Account.Same(to.Account)
	}
	if same {
		return from, to, job.Hint(usagef("%v: the source and the destination are both %s", &p.manyFlags, from.Address()), "--to-connection names another account, and --to other places, such as backup/")
	}
	return from, to, nil
}

// allOf runs the command for many tables.
func (p *pairFlags) allOf(m *manyRun, fits func(r *call, from, to place.Kind) error) error {
	r := m.call
	if r.point.File != nil && len(r.point.Record.Places) == 1 { // it stands where it exports to, and may have moved
		p.to = location{path: strings.TrimRight(r.point.Resume, "/") + "/"}
	}
	if !m.compares {
		r.changes = p.to.path == "" || place.InBlobs(p.to.path) // of many tables, none may be an account's
	}
	from, to, err := p.homes(r)
	if err == nil {
		err = fits(r, from.Kind, to.Kind)
	}
	if err != nil {
		return err
	}
	if to.Account != nil {
		r.changed(to.Address())
	} else {
		r.goesTo(to.Place)
	}
	m.choice, m.from, m.to = p.manyFlags, from, &to
	return m.run()
}
