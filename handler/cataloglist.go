package main

import (
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tablesweep/internal/config"
	"tablesweep/internal/function"
)

func catalogListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the catalogs of the settings",
		Long:    "List the catalogs that the settings in the environment make, with their tables, index keys\nand row keys. The one of the settings TABLE_CATALOG_… has the name -.",
		Example: "  handler catalog list",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, name := range []string{"connection", "catalog", "table", "index-keys", "row-key", "wal"} {
				if c.Flags().Changed(name) {
					return usagef("list shows the settings in the environment; leave out --%s", name)
				}
			}
			all, err := config.LoadCatalogs(os.Getenv)
			if err != nil {
				return usageError{err}
			}
			out := jsonTo(c.OutOrStdout())
			t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, cat := range all {
				info := function.Describe(cat.Name, cat.Schema)
				if asJSON {
					if err := out.Encode(info); err != nil {
						return err
					}
					continue
				}
				if info.Name == "" {
					info.Name = "-"
				}
				if _, err := t.Write([]byte(strings.Join([]string{info.Name, cat.Table, strings.Join(info.IndexKeys, ","), info.RowKey}, "\t") + "\n")); err != nil {
					return err
				}
			}
			return t.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print each catalog as JSON, as GET /api/catalog has it")
	return c
}
