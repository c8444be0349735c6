package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"tablesweep/internal/function"
	"tablesweep/internal/function/config"
)

func catalogListCommand() *cobra.Command {
	var asJSON bool
	c := command("list", "List the catalogs of the settings",
		"List the catalogs that the settings in the environment make, with their tables, index keys\nand row keys. The one of the settings TABLE_CATALOG_… has the name -.",
		"  handler catalog list",
		func(c *cobra.Command) error {
			for _, name := range []string{"connection", "catalog", "table", "index-keys", "row-key", "wal"} {
				if c.Flags().Changed(name) {
					return usagef("list shows the settings in the environment; leave out --%s", name)
				}
			}
			all, err := config.LoadCatalogs(environment())
			if err != nil {
				return usageError(err)
			}
			l := newListing(c, asJSON)
			for _, cat := range all {
				info := function.Describe(cat.Name, cat.Schema)
				if err := l.add(info, cmp.Or(info.Name, "-"), cat.Table, strings.Join(info.IndexKeys, ","), info.RowKey); err != nil {
					return err
				}
			}
			return l.end()
		})
	c.Flags().BoolVar(&asJSON, "json", false, "print each catalog as JSON, as GET /api/catalog has it")
	return c
}
