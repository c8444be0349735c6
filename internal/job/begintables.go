package job

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"tablesweep/internal/job/rowlist"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/storage"
)

// TableExt ends the name of a table's checkpoint file.
const TableExt = ".ckpt"

// The endings of a table's files in the directories given by the options --failed and --state.
const (
	failedExt = ".jsonl"
	stateExt  = ".json"
)

// Choice defines which tables a command processes.
type Choice struct {
	All      bool     // all tables of an account, or of an export
	Patterns []string // patterns of names, for [path.Match]
}

// Many is true if the choice is for many tables.
func (c Choice) Many() bool { return c.All || c.Patterns != nil }

// String returns the choice as options of the command line.
func (c Choice) String() string {
	if c.All {
		return "--all"
	}
	return "--tables " + strings.Join(c.Patterns, ",")
}

// matchingNames fails unless each pattern matches at least one name.
func (c Choice) matchingNames(names []string) ([]string, error) {
	if c.All && c.Patterns != nil {
		return nil, Refuse("", "--all and --tables cannot be combined")
	}
	for _, pattern := range c.Patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, Refuse("tables", " is %s; it must be a pattern such as 'logs*' or 'log[0-9]'", secret.Name(pattern))
		}
		if !slices.ContainsFunc(names, func(name string) bool { return matches(pattern, name) }) {
			return nil, Hint(Refuse("tables", ": %s matches none of %s", secret.Name(pattern), problem.Plural(len(names), "table")), `"tablesweep tables list" shows the account's tables`)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !c.chooses(name) }), nil
}

func (c Choice) chooses(name string) bool {
	return c.All || slices.ContainsFunc(c.Patterns, func(pattern string) bool { return matches(pattern, name) })
}

// matches ignores case, as the service does.
func matches(pattern, name string) bool {
	ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(name))
	return ok && err == nil
}

// Begin chooses the tables, or reads them from the checkpoint to resume.
func (t *Tables) Begin(ctx context.Context) (err error) {
	if err := t.checkOptions(ctx); err != nil {
		return err
	}
	if t.Checkpoint.File != nil {
		err = t.restore(ctx)
	} else {
		err = t.find(ctx)
	}
	for _, dir := range []string{t.Failed, t.State} {
		if err == nil {
			err = makeDirectory(dir)
		}
	}
	if err == nil && t.Journal != nil {
		var all []any
		for _, r := range t.All {
			all = append(all, r)
		}
		err = t.Journal.Renew(all)
	}
	if err == nil && t.writesExports() {
		err = t.claim(ctx)
	}
	return err
}

// checkOptions checks the options. With --all, it also checks that exports of many tables are complete.
func (t *Tables) checkOptions(ctx context.Context) error {
	err := t.check()
	if err == nil && t.Choice.All {
		if err = t.From.checkComplete(ctx); err == nil && t.To != nil && !t.writesExports() {
			err = t.To.checkComplete(ctx)
		}
	}
	return err
}

// open opens or makes the checkpoint in a directory, unless dir is "".
func (t *Tables) open(dir string) (err error) {
	t.dir = dir
	if err := makeDirectory(dir); err != nil || dir == "" {
		return err
	}
	places := []string{t.From.Address()}
	if !t.writesExports() || filepath.Clean(dir) != filepath.Clean(t.To.Path) {
		places = append(places, t.To.Address())
	}
	t.Checkpoint.New, t.Checkpoint.In = dir, TablesJournal // New is a directory, because --resume also accepts a directory
	_, err = t.Checkpoint.Begin(t.Options, Facts{Places: places})
	t.Journal = t.Checkpoint.File
	return err
}

func (t *Tables) restore(ctx context.Context) error {
	dir := t.Checkpoint.Resume
	if err := t.open(dir); err != nil {
		return err
	}
	if t.writesExports() && t.Checkpoint.Export == "" {
		return Hint(Refuse("resume", " %s: another version of this program has begun the export", dir), "export to another place")
	}
	if err := t.resume(); err != nil {
		return err
	}
	for _, r := range t.All {
		if list := pathIn(t.Failed, r.Table, failedExt); r.State == Pending && list != "" && !IsThere(t.checkpointOf(r.Table)) {
			if err := rowlist.Remove(ctx, list); err != nil { // the work on the table begins again, so the table's old list is obsolete
				return Refuse("failed", ": %w", err)
			}
		}
	}
	return nil
}

func (t *Tables) choose(ctx context.Context) ([]string, error) {
	names, own, err := t.From.tableNames(ctx)
	if len(own) > 0 {
		t.Meter.Print("leaves out", strings.Join(own, ", ")+", because these tables contain the state of an app or of a Functions host")
	}
	if err == nil && len(names) == 0 {
		err = Refuse("", "%v: %s contains no tables", t.Choice, t.From.Address())
	}
	if err == nil {
		names, err = t.Choice.matchingNames(names)
	}
	return names, err
}

// find chooses the tables, and makes a checkpoint if one was requested. If none was requested, but the
// tables are exported to a directory, find makes a checkpoint in that directory.
func (t *Tables) find(ctx context.Context) error {
	names, err := t.choose(ctx)
	if err != nil {
		return err
	}
	if t.Overwrites != nil {
		known := func(name string) bool { return IsThere(pathIn(t.State, name, stateExt)) } // true if an earlier copy wrote the rows of the table
		there, err := t.To.Account.TableStates(ctx, slices.DeleteFunc(slices.Clone(names), known), maxTables)
		if err != nil {
			return err
		}
		if full := storage.WithRows(there); full != nil {
			if err := t.Overwrites(full); err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		t.All = append(t.All, TableResult{Table: name, State: Pending})
	}
	dir := t.Checkpoint.New
	if dir == "" && t.writesExports() && t.To.Local() {
		dir = t.To.Path
	}
	if t.writesExports() {
		begun := dir != "" && IsThere(filepath.Join(dir, TablesJournal))
		if err := place.FreeOfTables(ctx, t.To.Objects); err != nil && !begun && (errors.Is(err, place.ErrTaken) || !t.To.Local()) {
			return notTaken(err) // if the place is a directory, any error except ErrTaken is reported by t.open
		}
		t.Checkpoint.Export = place.ExportID(uuid.NewString())
	}
	if err := t.open(dir); err != nil {
		return err
	}
	return t.checkTables(ctx, names)
}

// checkTables detects errors that the job of a single table cannot notice. For a comparison, checkTables also adds a result for each chosen
// table that exists only in the destination, unless AllowExtra is set.
func (t *Tables) checkTables(ctx context.Context, names []string) error {
	known := map[string]string{}
	for _, name := range names {
		low := strings.ToLower(name)
		if other, alike := known[low]; alike && t.To != nil && t.To.Account != nil {
			return Refuse("", "%v: %s and %s would become the same table, because the service ignores case; to import one of the two under another name, use a separate command", t.Choice, other, name)
		}
		known[low] = name
		for _, file := range []string{t.checkpointOf(name), pathIn(t.Failed, name, failedExt)} {
			if IsThere(file) { // if this command were resumed, it would take the file for its own
				return Hint(Refuse("", "%s belongs to an earlier command", file), "choose another directory for this file, or move the file away")
			}
		}
	}
	if !t.Compares || t.AllowExtra {
		return nil
	}
	there, _, err := t.To.tableNames(ctx)
	if err != nil && !storage.Gone(err) {
		return err
	}
	for _, name := range there {
		if _, ours := known[strings.ToLower(name)]; !ours && t.Choice.chooses(name) {
			t.All = append(t.All, TableResult{Table: name, State: Different, Error: "only the destination has it"})
		}
	}
	return nil
}

// DestinationStates chooses the tables, and returns their states in the destination account. It changes nothing.
func (t *Tables) DestinationStates(ctx context.Context) ([]storage.TableState, error) {
	if err := t.checkOptions(ctx); err != nil {
		return nil, err
	}
	names, err := t.choose(ctx)
	if err != nil {
		return nil, err
	}
	return t.To.Account.TableStates(ctx, names, maxTables)
}

func (t *Tables) claim(ctx context.Context) error {
	if t.Journal == nil {
		if _, err := t.Checkpoint.Begin(t.Options, Facts{Places: []string{t.From.Address(), t.To.Address()}}); err != nil {
			return err
		}
	}
	c := place.NewTablesClaim(t.Checkpoint.Export, t.Checkpoint.Record.JSON(), time.Now().UTC().Truncate(time.Second), t.Program)
	begun := slices.ContainsFunc(t.All, func(r TableResult) bool { return r.State != Pending || IsThere(t.checkpointOf(r.Table)) })
	return notTaken(place.ClaimTables(ctx, t.To.Objects, c, begun))
}

// notTaken adds a hint to the error about a place that contains another export of many tables.
func notTaken(err error) error {
	if errors.Is(err, place.ErrTaken) {
		return Hint(Refuse("to", ": %w", err), "name a place that does not contain an export and does not lie within an export")
	}
	return blobHint(err)
}

func (t *Tables) writesExports() bool { return t.To != nil && t.To.Objects != nil && !t.Compares }

// Checkpoints returns the paths of the tables' existing checkpoints.
func (t *Tables) Checkpoints() (paths []string) {
	if t.dir != "" {
		paths, _ = filepath.Glob(filepath.Join(t.dir, "*"+TableExt))
	}
	return paths
}

// checkpointOf returns the path of a table's checkpoint, or "" if the command makes no checkpoints. The checkpoint of an export in a directory lies
// in that directory.
func (t *Tables) checkpointOf(table string) string {
	if t.writesExports() && t.To.Local() {
		return pathIn(t.To.Path, table, "/"+place.JournalName)
	}
	return pathIn(t.dir, table, TableExt)
}

// pathIn returns the path of a table's file in a directory. It returns "" if dir is "" or the name is invalid, because an invalid name may lead to
// another directory.
func pathIn(dir, table, ext string) string {
	if dir == "" || storage.CheckTableName(table) != nil {
		return ""
	}
	return filepath.Join(dir, table+ext)
}

// Own holds the options that differ from table to table.
type Own struct{ From, To, Failed, State, Checkpoint, Resume string }

// ownOptions returns the options of a table's job. If the table's checkpoint exists, the job is resumed.
func (t *Tables) ownOptions(table string) Own {
	o := Own{From: t.From.pathOf(table), Failed: pathIn(t.Failed, table, failedExt), State: pathIn(t.State, table, stateExt)}
	if t.To == nil {
		return o
	}
	o.To = t.To.pathOf(table)
	path := t.checkpointOf(table)
	switch local, begun := t.writesExports() && t.To.Local(), IsThere(path); {
	case local && begun:
		o.Resume = o.To
	case begun:
		o.Resume = path
	case !local:
		o.Checkpoint = path
	}
	return o
}

// Seal completes an export of many tables. It does nothing for other jobs.
func (t *Tables) Seal(ctx context.Context) error {
	if !t.writesExports() {
		return nil
	}
	return blobHint(place.SealTables(ctx, t.To.Objects, t.Checkpoint.Export, t.NamesIn(Succeeded)))
}

// Remove removes the tables' remaining checkpoints. The caller must have removed the command's own checkpoint.
func (t *Tables) Remove() {
	if t.Journal == nil {
		return
	}
	for _, r := range t.All { // a table's checkpoint remains if the process was killed just after recording the result
		_ = os.Remove(t.checkpointOf(r.Table))
	}
	_ = os.Remove(t.dir) // fails if the directory has other files
}
