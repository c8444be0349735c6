package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/place"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/jobrecord"
)

const placeHelp = `A table's name has letters and digits only. A path with a slash, such as ./orders, is the
directory of an export: files of JSON lines in table order, each page of rows with its hash,
which all commands read like a table. blob:CONTAINER/PREFIX is an export in blobs of the
connection's account, and https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX one in any
account: a SAS behind the URL signs in, or else the connection, if it is for that account,
or else Entra ID, in Azure's own clouds. orders.jsonl, .ndjson, .jsonl.gz and .jsonl.zst are single files, and - is
stdin or stdout: only an export proves that it is whole. Any other ending, such as .csv, is
refused, unless a slash ends the path.`

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

// opened is a place that a flag names.
type opened struct {
	kind    place.Kind
	path    string         // as it was given, without a SAS
	source  storage.Source // a table, or an export that is read; nil for all else
	objects place.Objects  // of an export, nil for other kinds
}

// table returns the place if it is a table, and nil if it is not.
func (p opened) table() *storage.Table {
	t, _ := p.source.(*storage.Table)
	return t
}

// export returns the export that is read, and nil if there is none.
func (p opened) export() *place.Export {
	e, _ := p.source.(*place.Export)
	return e
}

// address identifies the place, and the content of an export that is read.
func (p opened) address() string {
	switch {
	case p.source != nil:
		return p.source.Address()
	case p.objects != nil:
		return p.objects.Address()
	}
	return p.path
}

// openPlace opens the place of a flag; a table or blobs are in the account of the connection that another flag gives.
func (f *accountFlags) openPlace(c *cobra.Command, flag, path, sas, connectionFlag, connection string) (p opened, err error) {
	p.path = path
	if p.kind, err = kindOf(flag, path); err != nil {
		return p, err
	}
	switch {
	case p.kind == place.KindTable:
		account, err := f.openAccount(c, connectionFlag, connection)
		if err != nil {
			return p, err
		}
		p.source = account.Table(path)
	case place.InBlobs(path):
		p.objects, err = f.openBlobs(c, flag, path, sas, connectionFlag, connection)
	case p.kind == place.KindExport:
		p.objects = place.Directory(path)
	}
	if err == nil && p.objects != nil {
		err = p.checkEnding(c.Context(), flag)
	}
	return p, err
}

// checkEnding refuses an export's place that ends as a file does, such as orders.csv, unless an export has been begun there.
func (p opened) checkEnding(ctx context.Context, flag string) error {
	ending := place.UnknownEnding(p.path)
	if ending == "" {
		return nil
	}
	claimed, err := place.Claimed(ctx, p.objects)
	switch {
	case claimed:
		return nil
	case err != nil && place.InBlobs(p.path): // or else it is a file
		return blobHint(fmt.Errorf("--%s: %w", flag, err))
	}
	err = usagef("--%s %s: no form of files ends with %s", flag, p.path, ending)
	return hinted{err, fmt.Sprintf("a file ends with .jsonl or .ndjson, and perhaps .gz or .zst behind that; if an export is meant, end it with a slash: %s/", p.path)}
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

// read opens an export that a flag names, to be read; it does nothing for other places.
func (p *opened) read(ctx context.Context, flag string) error {
	if p.objects == nil {
		return nil
	}
	export, err := place.Open(ctx, p.objects)
	if err == nil {
		p.source = export
		return nil
	}
	if storage.Passing(err) || storage.Denied(err) {
		return blobHint(fmt.Errorf("--%s: %w", flag, err))
	}
	err = usagef("--%s: %w", flag, err)
	claim, claimErr := place.ClaimOf(ctx, p.objects)
	if claimErr != nil || !errors.Is(err, place.ErrNoExport) {
		return err
	}
	with := p.path
	_, local := p.objects.(place.Directory)
	switch _, notOurs := jobrecord.Parse(claim.Request, "copy"); {
	case notOurs != nil:
		return hinted{err, fmt.Sprintf("scan %s of the app began it; a retry of the scan finishes it: POST /api/scans/%s/retry", claim.ID, claim.ID)}
	case !local:
		with = "FILE, the file of its --checkpoint,"
	case !isThere(filepath.Join(with, place.JournalName)):
		return err
	}
	return hinted{err, fmt.Sprintf("it was begun; handler export --resume %s finishes it", with)}
}

// blobHint adds to a refusal of the Blob service which permissions are needed.
func blobHint(err error) error {
	if !storage.HasCode(err, "AuthorizationPermissionMismatch", "AuthorizationFailure") || storage.Expired(err) {
		return err
	}
	return hinted{err, "reading takes the role Storage Blob Data Reader, writing Storage Blob Data Contributor, or a SAS with those permissions; the account's firewall may refuse this machine, too"}
}

// source opens the table or export, and returns the sweep of the flags. A directory has no account.
func (f *sourceFlags) source(c *cobra.Command) (sweep.Spec, error) {
	kind, err := kindOf("table", f.table)
	if err != nil {
		return sweep.Spec{}, err
	}
	if kind == place.KindFile || kind == place.KindStream {
		return sweep.Spec{}, usagef("--table takes a table or an export, not %v; import writes its rows to a table", kind)
	}
	if kind == place.KindExport && !place.InBlobs(f.table) && c.Flags().Changed("connection") && c.Flags().Lookup("queue") == nil {
		return sweep.Spec{}, usagef("--connection does not fit --table %s, which is a directory", f.table)
	}
	p, err := f.openPlace(c, "table", f.table, f.tableSAS, "connection", f.connection)
	if err != nil {
		return sweep.Spec{}, err
	}
	if err := p.read(c.Context(), "table"); err != nil {
		return sweep.Spec{}, err
	}
	return f.scan(p)
}

// kinds returns what the pair's places are.
func (p *pairFlags) kinds() (from, to place.Kind, err error) {
	if from, err = kindOf("from", p.from); err != nil {
		return from, to, err
	}
	to, err = kindOf("to", p.to)
	return from, to, err
}

// open opens the places of a pair, which must differ. reads tells whether the second one is read, too.
func (p *pairFlags) open(c *cobra.Command, reads bool) (from, to opened, err error) {
	if from, err = p.openPlace(c, "from", p.from, p.fromSAS, "from-connection", p.fromConnection); err != nil {
		return from, to, err
	}
	if to, err = p.openPlace(c, "to", p.to, p.toSAS, "to-connection", cmp.Or(p.toConnection, p.fromConnection)); err != nil {
		return from, to, err
	}
	if err = from.read(c.Context(), "from"); err == nil && reads {
		err = to.read(c.Context(), "to")
	}
	if err != nil {
		return from, to, err
	}
	if from.table() != nil && to.table() != nil && from.table().Same(to.table()) {
		return from, to, usagef("--from and --to are the same table of the same account")
	}
	goesTo(c, to)
	return from, to, nil
}

// goesTo says where rows go: what changes in an account, or where a resumed command writes its files, since a checkpoint has chosen
// that place.
func goesTo(c *cobra.Command, to opened) {
	if to.table() != nil || place.InBlobs(to.path) {
		changed(c, to.address())
	} else if c.Name() != "verify" && c.Flags().Changed("resume") {
		first(c, "writes", to.address())
	}
}

// unfit are flags that do not fit places, and why.
type unfit struct {
	when  bool
	why   string
	flags []string
}

// refuse refuses flags that were given and do not fit the pair's places.
func (p *pairFlags) refuse(c *cobra.Command, all ...unfit) error {
	for _, u := range all {
		for _, name := range u.flags {
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

// probe reads one row of the source, so that a missing table or a bad filter is reported
// before anything is created.
func probe(ctx context.Context, s sweep.Spec) error {
	_, err := moment(ctx, s)
	return err
}

// moment makes a query and returns the service's time, as its answer has it; of what is no table, this machine's.
func moment(ctx context.Context, s sweep.Spec) (time.Time, error) {
	p, _, err := s.Source.Read(ctx, storage.RequestOptions{}, storage.Query{Range: s.Bounds.Range(), Filter: s.Filter, Select: s.Select, Top: 1})
	if err != nil {
		return p.Date, fmt.Errorf("read the table: %w", err)
	}
	if p.Date.IsZero() {
		p.Date = time.Now().UTC().Truncate(time.Second)
	}
	return p.Date, nil
}

// isDirectory reports whether a path leads to one.
func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// mustNotExist refuses a file that exists.
func mustNotExist(flag, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return usagef("--%s: %s: %w", flag, path, fs.ErrExist)
	}
	return nil
}
