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

// onlyTable opens the table of the only argument. exists reports whether the account has it.
func (f *connectionFlags) onlyTable(c *cobra.Command, args []string) (t *storage.Table, exists bool, err error) {
	name, err := onlyArg(c, args, "the table's name")
	if err != nil {
		return nil, false, err
	}
	if err := storage.CheckTableName(name); err != nil {
		return nil, false, usageError(err)
	}
	a, err := f.account(c)
	if err != nil {
		return nil, false, err
	}
	t = a.Table(name)
	changed(c, t.Address())
	_, err = t.Query(c.Context(), storage.Query{Top: 1, Select: []string{}})
	if storage.NotFound(err) {
		return t, false, nil
	}
	return t, err == nil, err
}

func tablesListCommand() *cobra.Command {
	var f connectionFlags
	var prefix string
	var asJSON jsonFlag
	c := command("list", "List the tables of an account", func(c *cobra.Command) error {
		a, err := f.account(c)
		if err != nil {
			return err
		}
		l := newListing(c, asJSON.json)
		err = a.TableNames(c.Context(), func(name string) error {
			if strings.HasPrefix(strings.ToLower(name), strings.ToLower(prefix)) {
				l.add(map[string]string{"table": name}, name)
			}
			return l.err
		})
		return cmp.Or(err, l.end())
	})
	f.add(c, "the account")
	c.Flags().StringVar(&prefix, "prefix", "", "only names that start with this, in any case")
	asJSON.add(c, "print each name as a JSON object")
	return c
}

func tablesCreateCommand() *cobra.Command {
	var f connectionFlags
	c := withArgs("create TABLE", "Create a table", func(c *cobra.Command, args []string) error {
		t, exists, err := f.onlyTable(c, args)
		if err != nil {
			return err
		}
		said := "exists already"
		if !exists {
			said = "created"
			if err := t.Create(c.Context()); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s %s\n", t, said)
		return err
	})
	f.add(c, "the account")
	return c
}

func tablesDeleteCommand() *cobra.Command {
	var f connectionFlags
	var yes yesFlag
	c := withArgs("delete TABLE", "Delete a table with all its rows", func(c *cobra.Command, args []string) error {
		t, exists, err := f.onlyTable(c, args)
		switch {
		case err != nil:
			return err
		case !exists:
			return job.Hint(fmt.Errorf("there is no table %s", t), "tablesweep tables list shows which there are")
		}
		if err := yes.ask(c, "delete the table "+t.String()+" with all its rows", "This can't be undone. ", "--yes deletes it without asking", t.Name()); err != nil {
			return err
		}
		if err := t.Delete(c.Context()); err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s deleted\n", t)
		return err
	})
	f.add(c, "the account")
	yes.add(c)
	return c
}
