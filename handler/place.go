package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/job"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
)

// placeValue is a flag's place. Its text, which errors and checkpoints repeat, is without the SAS that a URL may have.
type placeValue struct{ text, sas *string }

// Set implements [pflag.Value].
func (v placeValue) Set(text string) error {
	if *v.text, *v.sas = text, ""; place.InBlobs(text) {
		*v.text, *v.sas, _ = strings.Cut(text, "?")
	}
	return nil
}

// String implements [pflag.Value].
func (v placeValue) String() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

// Type implements [pflag.Value].
func (v placeValue) Type() string { return "string" }

// placeOf returns a flag's value if that is a place.
func placeOf(v pflag.Value) (placeValue, bool) {
	if o, ok := v.(*once); ok {
		v = o.Value
	}
	p, ok := v.(placeValue)
	return p, ok
}

// hasSAS reports whether a flag's value is a place with a SAS.
func hasSAS(v pflag.Value) bool {
	p, ok := placeOf(v)
	return ok && *p.sas != ""
}

// openPlace opens the place of a flag; a table or blobs are in the account of the connection that another flag gives.
func (f *accountFlags) openPlace(c *cobra.Command, flag, path, sas, connectionFlag, connection string) (p job.Place, err error) {
	p.Path = path
	if p.Kind, err = kindOf(flag, path); err != nil {
		return p, err
	}
	switch {
	case p.Kind == place.KindTable:
		account, err := f.openAccount(c, connectionFlag, connection)
		if err != nil {
			return p, err
		}
		p.Source = account.Table(path)
	case place.InBlobs(path):
		p.Objects, err = f.openBlobs(c, flag, path, sas, connectionFlag, connection)
	case p.Kind == place.KindExport:
		p.Objects = place.Directory(path)
	}
	if err == nil && p.Objects != nil {
		err = p.CheckEnding(c.Context(), flag)
	}
	return p, err
}

// openBlobs opens a place in blobs.
func (f *accountFlags) openBlobs(c *cobra.Command, flag, path, sas, connectionFlag, connection string) (*place.Blobs, error) {
	var account *storage.Account
	var in string
	given := c.Flags().Changed(connectionFlag)
	if !place.IsURL(path) {
		if in = path[len(place.InAccount):]; sas != "" {
			return nil, usagef("--%s %s: a SAS, and all else behind a question mark, needs a URL: https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX?SAS", flag, path)
		}
		a, err := f.openAccount(c, connectionFlag, connection)
		if err != nil {
			return nil, err
		}
		account = a
	} else {
		known, name, err := parseConnection(connectionFlag, connection)
		if err != nil && given {
			return nil, err
		}
		url := path
		if sas != "" {
			url += "?" + sas
		}
		var own storage.Connection
		if own, in, err = storage.BlobURL(url, known); err != nil {
			return nil, usagef("--%s: %w", flag, err)
		}
		switch {
		case own == known:
		case given:
			return nil, usagef("--%s does not fit --%s %s: its SAS, or another account, signs in", connectionFlag, flag, path)
		default:
			name = ""
		}
		if account, err = f.openConnection(c, own, name); err != nil {
			return nil, err
		}
	}
	container, prefix, _ := strings.Cut(in, "/")
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
func kindOf(flag, path string) (place.Kind, error) {
	if path == "" {
		return 0, usagef("--%s is missing", flag)
	}
	kind, err := place.KindOf(path)
	if err != nil {
		return 0, usagef("--%s: %w", flag, err)
	}
	return kind, nil
}

// source opens the table or export, whose rows are read. A directory has no account.
func (f *sourceFlags) source(c *cobra.Command) (p job.Place, err error) {
	kind, err := kindOf("table", f.table)
	if err != nil {
		return p, err
	}
	if kind == place.KindFile || kind == place.KindStream {
		return p, usagef("--table takes a table or an export, not %v; import writes its rows to a table", kind)
	}
	if kind == place.KindExport && !place.InBlobs(f.table) && c.Flags().Changed("connection") && c.Flags().Lookup("queue") == nil {
		return p, usagef("--connection does not fit --table %s, which is a directory", f.table)
	}
	if p, err = f.openPlace(c, "table", f.table, f.tableSAS, "connection", f.connection); err != nil {
		return p, err
	}
	return p, p.Read(c.Context(), "table")
}

// kinds returns what the pair's places are.
func (p *pairFlags) kinds() (from, to place.Kind, err error) {
	if from, err = kindOf("from", p.from); err != nil {
		return from, to, err
	}
	to, err = kindOf("to", p.to)
	return from, to, err
}

// open opens the places of a pair, which must differ. reads tells whether the second one is read, too, resumed whether a checkpoint has chosen it.
func (p *pairFlags) open(c *cobra.Command, reads, resumed bool) (from, to job.Place, err error) {
	if from, err = p.openPlace(c, "from", p.from, p.fromSAS, "from-connection", p.fromConnection); err != nil {
		return from, to, err
	}
	if to, err = p.openPlace(c, "to", p.to, p.toSAS, "to-connection", cmp.Or(p.toConnection, p.fromConnection)); err != nil {
		return from, to, err
	}
	if err = from.Read(c.Context(), "from"); err == nil && reads {
		err = to.Read(c.Context(), "to")
	}
	if err != nil {
		return from, to, err
	}
	if from.Table() != nil && to.Table() != nil && from.Table().Same(to.Table()) {
		return from, to, usagef("--from and --to are the same table of the same account")
	}
	goesTo(c, to, resumed)
	return from, to, nil
}

// goesTo says where rows go: what changes in an account, or where a resumed command writes its files, since a checkpoint has chosen
// that place.
func goesTo(c *cobra.Command, to job.Place, resumed bool) {
	if to.Table() != nil || place.InBlobs(to.Path) {
		changed(c, to.Address())
	} else if c.Name() != "verify" && resumed {
		first(c, "writes", to.Address())
	}
}

// conflict has flags that a pair of places has no use for when something is so, and why.
type conflict struct {
	flags string // their names, with spaces between
	when  bool
	why   string
}

// conflicts returns the first of the flags that was given and must not be.
func (p *pairFlags) conflicts(c *cobra.Command, all []conflict) error {
	for _, u := range all {
		for name := range strings.FieldsSeq(u.flags) {
			if f := c.Flags().Lookup(name); u.when && f != nil && f.Changed {
				return usagef("--%s does not fit %s: %s", name, p.words(), u.why)
			}
		}
	}
	return nil
}

// words returns the flags that name the pair's places.
func (p *pairFlags) words() string {
	var all []string
	if p.many() {
		all = append(all, p.manyFlags.String())
	}
	for _, f := range []struct{ flag, value string }{{"--from", p.from}, {"--to", p.to}} {
		if f.value != "" {
			all = append(all, f.flag+" "+f.value)
		}
	}
	return strings.Join(all, " ")
}

// asked returns what the pair's places are.
func (p *pairFlags) asked(from, to place.Kind) string {
	return fmt.Sprintf("from %v to %v (%s)", from, to, p.words())
}

// isDirectory reports whether a path leads to one.
func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// rowFlags are the flags that choose a command's rows and how they are read.
type rowFlags struct{ job.Rows }

// sourceFlags are the flags of commands that read the rows of one place.
type sourceFlags struct {
	tableFlags
	rowFlags
}

func (f *sourceFlags) add(c *cobra.Command) {
	f.tableFlags.add(c)
	f.rowFlags.add(c)
}

// add adds the flags of all commands that read rows.
func (f *rowFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.Bounds.Prefix, "prefix", "", "only partition keys that start with this")
	flags.StringVar(&f.Bounds.After, "after", "", "only partition keys greater than this")
	flags.StringVar(&f.Bounds.Before, "before", "", "only partition keys less than this")
	flags.StringVar(&f.Filter, "filter", "", "OData filter, such as \"Size gt 10 and Color eq 'red'\"")
	flags.IntVar(&f.Workers, "workers", sweep.DefaultWorkers, "most requests at once")
	flags.IntVar(&f.MaxRows, "max-rows-per-second", 0, "most rows a second, read and written")
	flags.IntVar(&f.MaxRequests, "max-requests-per-second", 0, "most requests a second, retries included")
}

// addSelect adds --select, for commands that need more than the keys.
func (f *rowFlags) addSelect(c *cobra.Command) {
	c.Flags().StringSliceVar(&f.Select, "select", nil, "only these properties, such as A,B, and the keys")
}
