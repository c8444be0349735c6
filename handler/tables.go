package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tablesweep/internal/job"
	"tablesweep/internal/storage"
)

func tablesCommand() *cobra.Command {
	return group("tables", "List, create and delete tables",
		command("list", "List the tables of an account", &tablesListOptions{}),
		command("create TABLE", "Create a table", &tablesCreateOptions{}),
		command("delete TABLE", "Delete a table with all its rows", &tablesDeleteOptions{}))
}

// openNamed opens the table that the command's argument names. The result `exists` reports whether the account has this table.
func (f *connectionFlags) openNamed(r *call) (t *storage.Table, exists bool, err error) {
	name := r.args[0]
	if err := storage.CheckTableName(name); err != nil {
		return nil, false, usageError(err)
	}
	r.changes = true
	a, err := f.account(r)
	if err != nil {
		return nil, false, err
	}
	t = a.Table(name)
	_, err = t.Query(r.ctx, storage.Query{Top: 1, Select: []string{}})
	if storage.Gone(err) {
		return t, false, nil
	}
	return t, err == nil, err
}

type tablesListOptions struct {
	connectionFlags
	prefix string
	json   bool
}

func (o *tablesListOptions) options() []option {
	return append(o.connectionFlags.options("the account"), []option{
		{"prefix", perRun, &o.prefix, nil, "only names that start with this text, ignoring case"},
		{"json", perRun, &o.json, nil, "print each name as a JSON object"},
	}...)
}

func (o *tablesListOptions) run(r *call) error {
	a, err := o.account(r)
	if err != nil {
		return err
	}
	l := newListing(r.Out, o.json)
	err = a.TableNames(r.ctx, func(name string) error {
		if strings.HasPrefix(strings.ToLower(name), strings.ToLower(o.prefix)) {
			l.add(map[string]string{"table": name}, name)
		}
		return l.err
	})
	return cmp.Or(err, l.end())
}

type tablesCreateOptions struct{ connectionFlags }

func (o *tablesCreateOptions) options() []option { return o.connectionFlags.options("the account") }

func (o *tablesCreateOptions) run(r *call) error {
	t, exists, err := o.openNamed(r)
	if err != nil {
		return err
	}
	text := "exists already"
	if !exists {
		text = "created"
		r.announceChanges(t.Address())
		if err := t.Create(r.ctx); err != nil {
			return err
		}
	}
	return r.print(false, nil, "%s %s\n", t, text)
}

type tablesDeleteOptions struct {
	connectionFlags
	yesFlag
}

func (o *tablesDeleteOptions) options() []option {
	return append(o.connectionFlags.options("the account"), o.yesFlag.options()...)
}

func (o *tablesDeleteOptions) run(r *call) error {
	t, exists, err := o.openNamed(r)
	switch {
	case err != nil:
		return err
	case !exists:
		return job.Hint(fmt.Errorf("there is no table %s", t), `"tablesweep tables list" shows the account's tables`)
	}
	if err := o.confirm(r, "delete the table "+t.String()+" with all its rows", "This cannot be undone. ", "--yes deletes it without asking", "the table's name", t.Name()); err != nil {
		return err
	}
	r.announceChanges(t.Address())
	if err := t.Delete(r.ctx); err != nil {
		return err
	}
	return r.print(false, nil, "%s deleted\n", t)
}
