package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"tablesweep/internal/catalog"
	"tablesweep/internal/function"
	"tablesweep/internal/function/config"
	"tablesweep/internal/function/server"
	"tablesweep/internal/job"
	"tablesweep/internal/storage"
)

// catalogFlags choose a command's catalog.
type catalogFlags struct {
	accountFlags
	connection, name, table, indexKeys, rowKey, wal string
}

func catalogCommand() *cobra.Command {
	var f catalogFlags
	c := group("catalog", "Keep records and find them by any of several identifiers",
		catalogInsertCommand(&f), catalogQueryCommand(&f), catalogPatchCommand(&f), catalogDeleteCommand(&f), catalogChangesCommand(&f), catalogCountCommand(&f),
		catalogListCommand(), catalogImportCommand(&f), catalogExportCommand(&f), catalogRecoverCommand(&f), catalogCheckCommand(&f), catalogMigrateCommand(&f))
	flags := c.PersistentFlags()
	f.addPatience(flags)
	addConnection(c, flags, &f.connection, "connection", "", "the catalog's account")
	flags.StringVar(&f.name, "catalog", "", "name of a catalog in the setting TABLESWEEP_CATALOGS")
	flags.StringVar(&f.table, "table", "", "the index table")
	flags.StringVar(&f.indexKeys, "index-keys", "", "the index keys, such as eid,npi,ssn:digits")
	flags.StringVar(&f.rowKey, "row-key", "", "the field that sorts records, such as lastname")
	flags.StringVar(&f.wal, "wal", "", "the table of the log")
	return c
}

// settings returns the settings of the catalog. Flags override the environment.
func (f *catalogFlags) settings() (config.CatalogSettings, error) {
	settings := environment()
	given := map[string]string{
		"TABLE_CATALOG_NAME":       cmp.Or(f.table, settings.Get("TABLE_CATALOG_NAME")),
		"TABLE_CATALOG_INDEX_KEYS": cmp.Or(f.indexKeys, settings.Get("TABLE_CATALOG_INDEX_KEYS")),
		"TABLE_CATALOG_ROW_KEY":    cmp.Or(f.rowKey, settings.Get("TABLE_CATALOG_ROW_KEY")),
		"TABLE_CATALOG_WAL_NAME":   cmp.Or(f.wal, settings.Get("TABLE_CATALOG_WAL_NAME")),
		"TABLESWEEP_CATALOGS":      "",
	}
	if f.table != "" {
		given["TABLE_CATALOG_WAL_NAME"] = f.wal // the environment's is that of another table
	}
	if f.name != "" {
		if f.table+f.indexKeys+f.rowKey+f.wal != "" {
			return config.CatalogSettings{}, usagef("--catalog names a catalog that has its own --table, --index-keys, --row-key and --wal; leave them out")
		}
		given = map[string]string{"TABLE_CATALOG_NAME": ""}
	}
	for name, v := range given {
		settings.Set(name, v)
	}
	all, err := config.LoadCatalogs(settings)
	for _, c := range all {
		if c.Name == f.name {
			return c, nil
		}
	}
	switch {
	case err != nil:
		return config.CatalogSettings{}, job.Hint(usageError(err), "--table, --index-keys, --row-key and --wal go before the settings TABLE_CATALOG_…")
	case f.name != "":
		return config.CatalogSettings{}, usagef("--catalog %s: the setting TABLESWEEP_CATALOGS has no such catalog", f.name)
	}
	return config.CatalogSettings{}, usagef("which catalog? Give --table, --index-keys and --row-key, or --catalog NAME")
}

// needs are what a command asks of its catalog before it begins, in this order.
type needs []func(*catalog.Catalog, context.Context) error

// with calls fn with the catalog, if that is as fn needs it, and then waits for the catalog's work in the background.
func (f *catalogFlags) with(c *cobra.Command, all needs, fn func(ctx context.Context, cat *catalog.Catalog) error) error {
	settings, err := f.settings()
	if err != nil {
		return err
	}
	account, err := f.openAccount(c, "connection", cmp.Or(f.connection, settings.Setting))
	if err != nil {
		return err
	}
	cat := server.NewCatalog(account, settings)
	defer cat.Close()
	changed(c, cat.Index.Address())
	ctx := catalogLog(c).WithContext(c.Context())
	for _, need := range all {
		if err := need(cat, ctx); err != nil {
			return err
		}
	}
	return fn(ctx, cat)
}

// catalogLog returns a logger that writes for people, on stderr.
func catalogLog(c *cobra.Command) zerolog.Logger {
	return zerolog.New(zerolog.ConsoleWriter{
		Out: c.ErrOrStderr(), NoColor: true, PartsOrder: []string{zerolog.MessageFieldName},
		FormatMessage: func(m any) string { return fmt.Sprintf("tablesweep: %v:", m) },
	}).Level(zerolog.InfoLevel)
}

// exists returns an error unless the catalog's index table exists, so that a mistyped
// name doesn't make one.
func exists(cat *catalog.Catalog, ctx context.Context) error {
	_, err := cat.Index.Query(ctx, storage.Query{Top: 1, Select: []string{}})
	return err
}

// conditionFlag is the flag --if-match of commands that change a record.
type conditionFlag struct{ ifMatch string }

// add adds the flag. more ends its description.
func (f *conditionFlag) add(c *cobra.Command, more string) {
	c.Flags().StringVar(&f.ifMatch, "if-match", "", "only if the record has this ETag, or * for any"+more)
}

// condition returns the flag's condition, none without it.
func (f *conditionFlag) condition() (on catalog.Condition) {
	if f.ifMatch != "" {
		on.Match = []string{f.ifMatch}
	}
	return on
}

// selection chooses a command's records.
type selection struct {
	rowFrom, rowTo string
}

func (s *selection) add(c *cobra.Command) {
	c.Flags().StringVar(&s.rowFrom, "row-from", "", "only records whose sort value is this or behind it")
	c.Flags().StringVar(&s.rowTo, "row-to", "", "only records whose sort value is this, starts with it, or is ahead of it")
}

// query reads arguments such as eid=F314, for a command that changes records.
func (s *selection) query(args []string) (catalog.Lookup, error) {
	q, err := s.reading(args)
	if err == nil && (len(args) == 0 || len(q.Or) > 0) {
		err = usagef("want an index key and its value, such as eid=F314, each key once")
	}
	return q, err
}

// reading reads arguments for a command that changes nothing: all records without any, and of a
// key with several values, any of them.
func (s *selection) reading(args []string) (catalog.Lookup, error) {
	q := catalog.Lookup{Keys: map[string]string{}, Or: map[string][]string{}, RowFrom: s.rowFrom, RowTo: s.rowTo}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || value == "" {
			return q, usagef("%q: want an index key and its value, such as eid=F314", arg)
		}
		if _, again := q.Keys[key]; again {
			q.Or[key] = append(q.Or[key], value)
			continue
		}
		q.Keys[key] = value
	}
	return q, nil
}

// what describes the records in a question.
func (s *selection) what(args []string) string {
	text := "the records with " + strings.Join(args, " and ")
	if s.rowFrom != "" {
		text += fmt.Sprintf(", from %q", s.rowFrom)
	}
	if s.rowTo != "" {
		text += fmt.Sprintf(", up to %q", s.rowTo)
	}
	return text
}

func catalogListCommand() *cobra.Command {
	var asJSON bool
	c := command("list", "List the catalogs of the settings", func(c *cobra.Command) error {
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
			l.add(info, cmp.Or(info.Name, "-"), cat.Table, strings.Join(info.IndexKeys, ","), info.RowKey)
		}
		return l.end()
	})
	c.Flags().BoolVar(&asJSON, "json", false, "print each catalog as JSON, as GET /api/catalog has it")
	return c
}
