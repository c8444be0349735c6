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
	return group("tables", "List, create and delete tables", tablesListCommand(), tablesCreateCommand(), tablesDeleteCommand())
}

// accountOptions are the options of commands about the tables of an account.
type accountOptions struct {
	connectionFlags
	yesFlag
	prefix string
	json   bool
}

// named opens the table of a name. exists reports whether the account has it.
func (o *accountOptions) named(r *call, name string) (t *storage.Table, exists bool, err error) {
	if err := storage.CheckTableName(name); err != nil {
		return nil, false, usageError(err)
	}
	r.changes = true
	a, err := o.account(r)
	if err != nil {
		return nil, false, err
	}
	t = a.Table(name)
	r.changed(t.Address())
	_, err = t.Query(r.ctx, storage.Query{Top: 1, Select: []string{}})
	if storage.NotFound(err) {
		return t, false, nil
	}
	return t, err == nil, err
}

func tablesListCommand() *cobra.Command {
	var o accountOptions
	table := append(o.connectionFlags.options("the account"), []option{
		{"prefix", perRun, &o.prefix, nil, "only names that start with this, in any case"},
		{"json", perRun, &o.json, nil, "print each name as a JSON object"},
	}...)
	return command("list", "List the tables of an account", optionTable(table), func(r *call) error {
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
	})
}

func tablesCreateCommand() *cobra.Command {
	var o accountOptions
	table := optionTable(o.connectionFlags.options("the account"))
	return withArg("create TABLE", "Create a table", "the table's name", table, func(r *call, name string) error {
		t, exists, err := o.named(r, name)
		if err != nil {
			return err
		}
		said := "exists already"
		if !exists {
			said = "created"
			if err := t.Create(r.ctx); err != nil {
				return err
			}
		}
		return r.print(false, nil, "%s %s\n", t, said)
	})
}

func tablesDeleteCommand() *cobra.Command {
	var o accountOptions
	table := optionTable(append(o.connectionFlags.options("the account"), o.yesFlag.options()...))
	return withArg("delete TABLE", "Delete a table with all its rows", "the table's name", table, func(r *call, name string) error {
		t, exists, err := o.named(r, name)
		switch {
		case err != nil:
			return err
		case !exists:
			return job.Hint(fmt.Errorf("there is no table %s", t), "tablesweep tables list shows which there are")
		}
		if err := o.ask(r, "delete the table "+t.String()+" with all its rows", "This can't be undone. ", "--yes deletes it without asking", t.Name()); err != nil {
			return err
		}
		if err := t.Delete(r.ctx); err != nil {
			return err
		}
		return r.print(false, nil, "%s deleted\n", t)
	})
}
