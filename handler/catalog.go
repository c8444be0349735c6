package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"tablesweep/internal/app/config"
	"tablesweep/internal/app/function"
	"tablesweep/internal/app/server"
	"tablesweep/internal/catalog"
	"tablesweep/internal/job"
	"tablesweep/internal/storage"
)

// catalogFlags choose a command's catalog.
type catalogFlags struct {
	accountFlags
	connection                          connection
	name, table, indexKeys, rowKey, wal string
}

func (f *catalogFlags) options() []option {
	return append(f.accountFlags.options(), []option{
		connect("connection", &f.connection, "", "the catalog's account"),
		{"catalog", eachRun, &f.name, nil, "name of a catalog in the setting TABLESWEEP_CATALOGS"},
		{"table", fixed, &f.table, nil, "the index table"},
		{"index-keys", fixed, &f.indexKeys, nil, "the index keys, such as eid,npi,ssn:digits"},
		{"row-key", fixed, &f.rowKey, nil, "the field that sorts records, such as lastname"},
		{"wal", fixed, &f.wal, nil, "the table of the log"},
	}...)
}

func catalogCommand() *cobra.Command {
	return group("catalog", "Keep records and find them by any of several identifiers",
		command("insert [RECORD…]", "Insert records, or replace them", &insertOptions{}),
		command("query KEY=VALUE…", "Find records by index keys", &catalogQueryOptions{}),
		command("patch KEY=VALUE… PATCH", "Change fields of a record", &catalogPatchOptions{}),
		command("delete KEY=VALUE…", "Delete records by index keys", &catalogDeleteOptions{}),
		command("changes", "Print the newest changes", &catalogChangesOptions{}),
		command("count [KEY=VALUE…]", "Count records", &catalogCountOptions{}),
		command("list", "List the catalogs in the settings", &catalogListOptions{}),
		command("import [FILE]", "Insert the records of a file of JSON lines or CSV", &importOptions{}),
		command("export [KEY=VALUE…]", "Print all records", &catalogExportOptions{}),
		command("check", "Check a catalog for errors, and repair it", &catalogCheckOptions{}),
		command("migrate", "Change a catalog's index keys, or take over another program's", &catalogMigrateOptions{}))
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
		given["TABLE_CATALOG_WAL_NAME"] = f.wal // ignores the log in the environment, which belongs to the table in the environment
	}
	if f.name != "" {
		if f.table+f.indexKeys+f.rowKey+f.wal != "" {
			return config.CatalogSettings{}, usagef("--catalog already sets --table, --index-keys, --row-key and --wal; leave these four flags out")
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
		return config.CatalogSettings{}, job.Hint(usageError(err), "correct the setting; if you gave --table, --index-keys, --row-key or --wal instead of the setting, correct the flag")
	case f.name != "":
		return config.CatalogSettings{}, usagef("--catalog %s: the setting TABLESWEEP_CATALOGS contains no catalog of this name", f.name)
	}
	return config.CatalogSettings{}, usagef("the catalog is missing; give --table, --index-keys and --row-key, or --catalog NAME")
}

// needs is a list of functions that must succeed, in this order, before a command uses its catalog.
type needs []func(*catalog.Catalog, context.Context) error

// withCatalog calls the functions in the argument `needed`. If all these functions succeed, it calls fn. Before
// withCatalog returns, it waits for the catalog's background work.
func (f *catalogFlags) withCatalog(r *call, needed needs, fn func(ctx context.Context, cat *catalog.Catalog) error) error {
	settings, err := f.settings()
	if err != nil {
		return err
	}
	of := f.connection
	of.standard = settings.Setting
	account, err := f.openAccount(r, &of)
	if err != nil {
		return err
	}
	cat := server.NewCatalog(account, settings)
	defer cat.Close()
	if r.changes {
		err := mayChange(r, "table", cat.Index)
		if err == nil {
			err = mayChange(r, "wal", account.Table(settings.WAL))
		}
		if err != nil {
			return err
		}
	}
	ctx := catalogLog(r.toErr).WithContext(r.ctx)
	for _, need := range needed {
		if err := need(cat, ctx); err != nil {
			return err
		}
	}
	r.announceChanges(cat.Index.Address())
	return fn(ctx, cat)
}

// catalogLog returns a logger that writes human-readable lines to w.
func catalogLog(w io.Writer) zerolog.Logger {
	return zerolog.New(zerolog.ConsoleWriter{
		Out: w, NoColor: true, PartsOrder: []string{zerolog.MessageFieldName},
		FormatMessage: func(m any) string { return fmt.Sprintf("tablesweep: %v:", m) },
	}).Level(zerolog.InfoLevel)
}

// exists returns an error unless the catalog's index table exists. Without this check, a mistyped name would create a table.
func exists(cat *catalog.Catalog, ctx context.Context) error {
	_, err := cat.Index.Query(ctx, storage.Query{Top: 1, Select: []string{}})
	return err
}

// conditionFlag is the flag --if-match of commands that change a record.
type conditionFlag struct{ ifMatch string }

// option returns the flag's entry for a command's list of options. The entry's description ends with suffix.
func (f *conditionFlag) option(suffix string) option {
	return option{"if-match", perRun, &f.ifMatch, nil, "change the record only if it has this ETag (* means any ETag)" + suffix}
}

// condition returns the flag's condition, or the empty condition if the flag is not given.
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

func (s *selection) options() []option {
	return []option{
		{"row-from", perRun, &s.rowFrom, nil, "only records with this sort value or a later one"},
		{"row-to", perRun, &s.rowTo, nil, "only records with this sort value, a smaller one or, for text, one that begins with it"},
	}
}

// query parses arguments such as eid=F314 for a command that changes records. A key may have only one value.
func (s *selection) query(args []string) (catalog.Lookup, error) {
	q, err := s.readQuery(args)
	if err == nil && (len(args) == 0 || len(q.Or) > 0) {
		err = usagef("give at least one index key with its value, such as eid=F314; no key may be given twice")
	}
	return q, err
}

// readQuery parses the arguments of a command that changes nothing. Without arguments, all records match. If a key has several values, a record needs only one
// of them.
func (s *selection) readQuery(args []string) (catalog.Lookup, error) {
	q := catalog.Lookup{Keys: map[string]string{}, Or: map[string][]string{}, RowFrom: s.rowFrom, RowTo: s.rowTo}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || value == "" {
			return q, usagef("%q is not an index key and its value; use the form eid=F314", arg)
		}
		if _, again := q.Keys[key]; again {
			q.Or[key] = append(q.Or[key], value)
			continue
		}
		q.Keys[key] = value
	}
	return q, nil
}

// describe describes the records in a question to the user.
func (s *selection) describe(args []string) string {
	text := "the records with " + strings.Join(args, " and ")
	if s.rowFrom != "" {
		text += fmt.Sprintf(", from %q", s.rowFrom)
	}
	if s.rowTo != "" {
		text += fmt.Sprintf(", up to %q", s.rowTo)
	}
	return text
}

type catalogListOptions struct{ json bool }

func (o *catalogListOptions) options() []option {
	return []option{{"json", perRun, &o.json, nil, "print each catalog as JSON, like GET /api/catalog"}}
}

func (o *catalogListOptions) run(r *call) error {
	all, err := config.LoadCatalogs(environment())
	if err != nil {
		return usageError(err)
	}
	l := newListing(r.Out, o.json)
	for _, cat := range all {
		info := function.Describe(cat.Name, cat.Schema)
		l.add(info, cmp.Or(info.Name, "-"), cat.Table, strings.Join(info.IndexKeys, ","), info.RowKey)
	}
	return l.end()
}
