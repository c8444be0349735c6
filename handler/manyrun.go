package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"tablesweep/internal/lines"
	"tablesweep/internal/memory"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/jobrecord"
	"tablesweep/internal/sweep/journal"
	"tablesweep/internal/sweep/progress"
	"tablesweep/internal/task"
)

const (
	// tablesAtOnce is how many tables are under way at most.
	tablesAtOnce = 8
	// tablesName is the file of a checkpoint's directory that says which tables are done.
	tablesName = "tables.jsonl"
	// tableExt ends the name of a table's checkpoint in it.
	tableExt = ".ckpt"
	// maxNamed is how many failed tables the last error names.
	maxNamed = 10
)

// ofMany are the flags that a table's own run is not given: others take their places, or they are about all tables.
var ofMany = []string{"all", "tables", "from", "to", "table", "checkpoint", "resume", "failed", "state", "progress", "json", "pprof", "help"}

// ownFile are the flags of files that each table has in the directory that is given, with how their names end.
var ownFile = map[string]string{"failed": ".jsonl", "state": ".json"}

// The states of a table.
const (
	tablePending   = "pending"
	tableSucceeded = "succeeded"
	tableDifferent = "different" // verify found differences
	tableFailed    = "failed"
)

// tableResult is what became of a table: a line of the result, and of [tablesName].
type tableResult struct {
	Table  string          `json:"table"`
	State  string          `json:"state"`
	Rows   int64           `json:"rows"`
	Error  string          `json:"error,omitempty"`
	Export string          `json:"export,omitempty"` // the id of the export that is made
	Result json.RawMessage `json:"result,omitempty"` // what the command prints for one table
}

// tablesResult sums up all tables.
type tablesResult struct {
	Tables     int     `json:"tables"`
	Succeeded  int     `json:"succeeded"`
	Different  int     `json:"different"`
	Failed     int     `json:"failed"`
	Pending    int     `json:"pending"`
	Rows       int64   `json:"rows"`
	Seconds    float64 `json:"seconds"`       // of this run
	RowsPerSec float64 `json:"rowsPerSecond"` // of this run
}

// failedTables ends a command that finished, although some tables failed.
type failedTables struct {
	of     int
	tables []string
}

func (f failedTables) Error() string {
	names := f.tables[:min(len(f.tables), maxNamed)]
	more := ""
	if len(f.tables) > maxNamed {
		more = " and others"
	}
	return fmt.Sprintf("%d of %s failed: %s%s", len(f.tables), progress.Plural(f.of, "table"), strings.Join(names, ", "), more)
}

// together is what the runs of several tables share.
type together struct {
	accounts map[string]*storage.Account // by connection
	requests *storage.Limit
	sweeps   *sweep.Share
	export   string // the id of the export that this one makes
}

// manyRun is a command that does the same with many tables: each by a run of the command for one table, in this process.
type manyRun struct {
	cmd      *cobra.Command
	choice   manyFlags
	rows     *rowFlags
	point    *checkpointFlags // nil if the command has no checkpoints
	json     *jsonFlag
	phase    string
	from     tableHome
	to       *tableHome // nil if the command has but one place
	accounts map[string]*storage.Account
	files    map[string]string // the directories of ownFile

	dir   string // of the checkpoint; "" for none
	began time.Time
	meter *progress.Meter // of all tables
	parts *progress.Parts

	mu      sync.Mutex // guards the following
	tables  []tableResult
	file    *journal.File // nil for none
	stopped error         // why no more tables begin
	ran     int64         // rows of this run
}

// run does what is left of the tables and prints what became of them.
func (r *manyRun) run(meter *progress.Meter) error {
	r.began = time.Now()
	if _, err := r.rows.scan(nil); err != nil {
		return err
	}
	if err := r.begin(); err != nil {
		return err
	}
	var points []string // whose size takes memory
	if r.dir != "" {
		points, _ = filepath.Glob(filepath.Join(r.dir, "*"+tableExt))
	}
	memory.Limit(points...)
	atOnce := min(tablesAtOnce, r.rows.workers)
	shares := together{r.accounts, storage.NewLimit(r.rows.maxRequests), sweep.NewShare(r.rows.workers, r.rows.maxRows), ""}
	done := len(r.tables) - r.count(tablePending)
	meter.Phase(r.phase)
	r.meter, r.parts = meter, meter.Parts(len(r.tables), done)
	var group task.Group
	group.SetLimit(atOnce)
	for i := range r.tables {
		if t := r.tables[i]; t.State == tablePending {
			group.Go(func() error { return r.one(i, t, shares) })
		}
	}
	err := group.Wait()
	meter.End()
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	return r.end(errors.Join(err, r.stopped))
}

// begin finds the tables, and begins or goes on with the checkpoint.
func (r *manyRun) begin() (err error) {
	if r.point != nil && r.point.file != nil {
		r.file, r.dir = r.point.file, r.point.resume
		if err = r.point.record.At(r.places()); err != nil {
			return usageError{err}
		}
		at := map[string]int{}
		err = refusedTables(journal.Events(r.file, func(t tableResult) error {
			i, known := at[t.Table]
			if known {
				r.tables[i] = t
			} else {
				at[t.Table] = len(r.tables)
				r.tables = append(r.tables, t)
			}
			return nil
		}))
		for i := range r.tables {
			if t := &r.tables[i]; t.State == tableFailed {
				t.State, t.Error, t.Result, t.Rows = tablePending, "", nil, 0
			}
		}
	} else {
		err = r.find()
	}
	for flag, dir := range r.files {
		if err == nil {
			err = makeDirectory(flag, dir)
		}
	}
	if err == nil && r.file != nil {
		var all []any
		for _, t := range r.tables {
			all = append(all, t)
		}
		err = r.file.Renew(all)
	}
	return err
}

func makeDirectory(flag, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return usagef("--%s: %w", flag, err)
	}
	return nil
}

func refusedTables(err error) error {
	if err != nil {
		return refused(err)
	}
	return nil
}

// find lists the tables, and makes a checkpoint if one was asked for. A directory that is exported to is its own.
func (r *manyRun) find() error {
	names, err := r.from.tables(r.cmd.Context())
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return usagef("%v: %s has no table", &r.choice, r.from.address())
	}
	if names, err = r.choice.choose(names); err != nil {
		return err
	}
	for _, name := range names {
		t := tableResult{Table: name, State: tablePending}
		if r.exports() {
			t.Export = uuid.NewString()
		}
		r.tables = append(r.tables, t)
	}
	if err := r.findExtra(names); err != nil {
		return err
	}
	flag := "checkpoint"
	if r.point != nil {
		r.dir = r.point.checkpoint
	}
	if r.dir == "" && r.exports() && r.to.local() {
		r.dir, flag = r.to.path, "to"
	}
	if r.dir == "" {
		return r.refuse(names)
	}
	if err := makeDirectory(flag, r.dir); err != nil {
		return err
	}
	flags := slices.DeleteFunc(recordFlags(r.cmd), func(f jobrecord.Flag) bool { return f.Name == "to" && len(r.places()) == 1 })
	r.file, err = journal.New(filepath.Join(r.dir, tablesName), jobrecord.New(jobName(r.cmd), flags, r.places(), "").JSON())
	if errors.Is(err, fs.ErrExist) {
		return hinted{usageError{err}, fmt.Sprintf("--resume %s continues from it; to start over, give another directory", r.dir)}
	}
	if err != nil {
		return usageError{err}
	}
	return r.refuse(names)
}

// findExtra adds the tables that a comparison's destination alone has.
func (r *manyRun) findExtra(names []string) error {
	f := r.cmd.Flags().Lookup("allow-extra")
	if f == nil || f.Value.String() == "true" {
		return nil
	}
	others, err := r.to.tables(r.cmd.Context())
	ours := map[string]bool{}
	for _, name := range names {
		ours[strings.ToLower(name)] = true
	}
	for _, name := range others {
		if r.choice.chooses(name) && !ours[strings.ToLower(name)] {
			r.tables = append(r.tables, tableResult{Table: name, State: tableDifferent, Error: "only the destination has it"})
		}
	}
	return err
}

// exports reports whether the tables are written as exports.
func (r *manyRun) exports() bool {
	return r.to != nil && r.to.objects != nil && r.cmd.Name() != "verify"
}

// places are the addresses that a checkpoint is good for. A directory that has the checkpoint may move.
func (r *manyRun) places() []string {
	all := []string{r.from.address()}
	if r.to != nil && !(r.exports() && filepath.Clean(r.dir) == filepath.Clean(r.to.path)) {
		all = append(all, r.to.address())
	}
	return all
}

func (r *manyRun) count(state string) (n int) {
	for _, t := range r.tables {
		if t.State == state {
			n++
		}
	}
	return n
}

// one does a table, unless the command was interrupted.
func (r *manyRun) one(i int, t tableResult, with together) error {
	r.mu.Lock()
	stopped := r.stopped != nil
	r.mu.Unlock()
	if stopped || r.cmd.Context().Err() != nil {
		return nil
	}
	meter := r.parts.Begin(t.Table)
	args, err := r.args(&t)
	var out bytes.Buffer
	if err == nil && args != nil {
		s := sharedBy(r.cmd)
		with.export = t.Export
		s.meter, s.together = meter, &with
		root := rootCommand()
		root.SetArgs(args)
		root.SetIn(strings.NewReader(""))
		root.SetOut(&out)
		root.SetErr(io.Discard)
		err = execute(withShared(r.cmd.Context(), s), root)
	}
	if args != nil || err != nil {
		t.take(out.Bytes(), err)
	}
	r.parts.End(meter, t.State != tablePending)
	if t.State == tableFailed {
		meter.Say(tableFailed, t.Error)
	}
	return r.ended(i, t, out.Bytes(), err)
}

// take takes in what the run of a table printed, and how it ended.
func (t *tableResult) take(out []byte, err error) {
	for line := range bytes.Lines(out) {
		if isDifference(line) {
			continue
		}
		if t.Result == nil {
			_ = json.Unmarshal(line, &struct{ Rows *int64 }{&t.Rows})
		}
		if t.Result == nil || errors.Is(err, errDifferent) { // behind a copy's stands that of its comparison
			t.Result = bytes.TrimSpace(line)
		}
	}
	switch {
	case err == nil:
		t.State = tableSucceeded
	case errors.Is(err, sweep.ErrInterrupted):
		t.State = tablePending
	case errors.Is(err, errDifferent):
		t.State = tableDifferent
	default:
		t.State, t.Error = tableFailed, err.Error()
	}
}

// ended notes what became of a table, and prints the differences that were found.
func (r *manyRun) ended(i int, t tableResult, out []byte, cause error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tables[i] = t; t.State != tablePending {
		r.ran += t.Rows
	}
	if errors.Is(cause, storage.ErrAway) { // others would wait for the same
		r.stopped = cmp.Or(r.stopped, cause)
	}
	err := r.differences(t.Table, out)
	if r.file != nil && t.State != tablePending {
		r.file.Append(t)
		err = errors.Join(err, r.file.Flush(), r.file.Sync())
	}
	if err != nil {
		r.stopped = cmp.Or(r.stopped, err)
	}
	return nil
}

// args returns the command line of a table's run, nil if nothing is left to do.
func (r *manyRun) args(t *tableResult) ([]string, error) {
	if r.to == nil {
		return r.withFlags(r.cmd, "--table="+r.from.of(t.Table)), nil
	}
	from, to, point := "--from="+r.from.of(t.Table), r.to.of(t.Table), filepath.Join(r.dir, t.Table+tableExt)
	resumed := r.file != nil && r.file.Resumed()
	if r.exports() && resumed {
		id, complete, rows, err := r.to.exportOf(r.cmd.Context(), t.Table)
		switch ours := id == t.Export; {
		case err != nil:
			return nil, err
		case ours && complete: // the process died behind that
			_ = os.Remove(point)
			if r.cmd.Flags().Lookup("verify").Value.String() == "true" {
				return r.withFlags(verifyCommand(), from, "--to="+to, "--allow-extra"), nil
			}
			t.State, t.Rows = tableSucceeded, rows
			return nil, nil
		case ours && r.to.local():
			return r.withFlags(r.cmd, append(r.ownFiles(t.Table, false), from, "--resume="+to)...), nil
		}
	}
	goesOn := resumed && isThere(point)
	own := append(r.ownFiles(t.Table, resumed && !goesOn), from, "--to="+to)
	switch {
	case goesOn:
		own = append(own, "--resume="+point)
	case r.dir != "" && !(r.exports() && r.to.local()):
		own = append(own, "--checkpoint="+point)
	}
	return r.withFlags(r.cmd, own...), nil
}

// ownFiles returns the flags of files that a table has to itself. anew means that the table is done once more from its start:
// the rows that failed before are no longer listed.
func (r *manyRun) ownFiles(table string, anew bool) (flags []string) {
	for flag, ext := range ownFile {
		if dir := r.files[flag]; dir != "" {
			file := filepath.Join(dir, table+ext)
			if flag == "failed" && anew {
				_ = os.Remove(file)
			}
			flags = append(flags, "--"+flag+"="+file)
		}
	}
	return flags
}

// withFlags returns the command line of a command for one table: its own flags, and those of this command that it takes.
func (r *manyRun) withFlags(c *cobra.Command, own ...string) []string {
	args := append([]string{c.Name(), "--json", "--progress=none"}, own...)
	for _, f := range recordFlags(r.cmd) {
		if f.Given && !slices.Contains(ofMany, f.Name) && c.Flags().Lookup(f.Name) != nil {
			args = append(args, "--"+f.Name+"="+f.Value)
		}
	}
	return args
}

func isDifference(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"difference":`)) }

// differences prints the differences of a table, each with its name.
func (r *manyRun) differences(table string, out []byte) error {
	for line := range bytes.Lines(out) {
		if !isDifference(line) {
			continue
		}
		r.meter.Clear()
		found := struct {
			Table string `json:"table"`
			difference
		}{Table: table}
		if err := json.Unmarshal(line, &found.difference); err != nil {
			return err
		}
		if err := r.json.print(r.cmd, found, "%s: %s\n", table, found.difference); err != nil {
			return err
		}
	}
	return nil
}

// end prints what became of the tables, and returns the command's error.
func (r *manyRun) end(err error) error {
	switch pending := r.count(tablePending) > 0; {
	case err == nil && pending:
		err = sweep.ErrInterrupted
	case errors.Is(err, storage.ErrAway) && !pending: // the tables tell
		err = nil
	}
	printErr := r.print()
	failed := failedTables{of: len(r.tables)}
	for _, t := range r.tables {
		if t.State == tableFailed {
			failed.tables = append(failed.tables, t.Table)
		}
	}
	again := fmt.Sprintf("%s --resume %s continues with the rest", r.cmd.CommandPath(), r.dir)
	if r.file == nil {
		again = ""
	}
	switch {
	case err != nil && r.file == nil && r.point != nil:
		return hinted{err, "it can't be resumed without --checkpoint DIRECTORY"}
	case err != nil && again != "":
		return hinted{err, again}
	case err != nil:
		return err
	case len(failed.tables) > 0 && again != "":
		return hinted{failed, fmt.Sprintf("%s --resume %s tries the failed tables again", r.cmd.CommandPath(), r.dir)}
	case len(failed.tables) > 0:
		return failed
	case printErr != nil:
		return printErr
	}
	if r.file != nil {
		err = r.file.Remove()
		_ = os.Remove(r.dir) // one with files of others stays
	}
	if err == nil && r.count(tableDifferent) > 0 {
		err = errDifferent
	}
	return err
}

// print prints a line a table, and the sum.
func (r *manyRun) print() error {
	sum := tablesResult{Tables: len(r.tables), Succeeded: r.count(tableSucceeded), Different: r.count(tableDifferent), Failed: r.count(tableFailed), Pending: r.count(tablePending)}
	l := newListing(r.cmd, r.json.json)
	for _, t := range r.tables {
		sum.Rows += t.Rows
		if err := l.add(t, t.Table, progress.Plural(t.Rows, "row"), t.text()); err != nil {
			return err
		}
	}
	if err := l.end(); err != nil {
		return err
	}
	sum.Seconds = time.Since(r.began).Round(time.Millisecond).Seconds()
	sum.RowsPerSec = math.Round(float64(r.ran) / max(sum.Seconds, 0.001))
	text := fmt.Sprintf("%s, %s: %d succeeded", progress.Plural(sum.Tables, "table"), progress.Plural(sum.Rows, "row"), sum.Succeeded)
	for _, n := range []struct {
		n    int
		what string
	}{{sum.Different, tableDifferent}, {sum.Failed, tableFailed}, {sum.Pending, tablePending}} {
		if n.n > 0 {
			text += fmt.Sprintf(", %d %s", n.n, n.what)
		}
	}
	if r.json.json {
		return lines.JSON(r.cmd.OutOrStdout()).Encode(sum)
	}
	_, err := fmt.Fprintf(r.cmd.OutOrStdout(), "%s in %.1f s\n", text, sum.Seconds)
	return err
}

// text is the state for people.
func (t tableResult) text() string {
	switch {
	case t.Error != "":
		return t.State + ": " + t.Error
	case t.State == tableDifferent:
		var n struct{ Missing, Extra, Different int64 }
		if err := json.Unmarshal(t.Result, &n); err == nil && n.Missing+n.Extra+n.Different > 0 {
			return fmt.Sprintf("%s: %d missing, %d extra, %d different", t.State, n.Missing, n.Extra, n.Different)
		}
	}
	return t.State
}

// allOf runs the command for many tables. point is nil if it has no checkpoints.
func (p *pairFlags) allOf(c *cobra.Command, rows *rowFlags, point *checkpointFlags, shown *progressFlag, j *jsonFlag, phase string, fits func(from, to place.Kind) error) error {
	if p.to == "" && point.file != nil && len(point.record.Places) == 1 { // the checkpoint stands where it exports to
		p.to = strings.TrimRight(point.resume, "/") + "/"
	}
	from, to, err := p.homes(c)
	if err == nil {
		err = fits(from.kind, to.kind)
	}
	if err != nil {
		return err
	}
	meter, err := shown.meter(c)
	if err != nil {
		return err
	}
	if !to.local() {
		changed(c, to.address())
	}
	r := manyRun{cmd: c, choice: p.manyFlags, rows: rows, point: point, json: j, phase: phase, from: from, to: &to, accounts: p.accountFlags.open, files: map[string]string{}}
	for name := range ownFile {
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			r.files[name] = f.Value.String()
		}
	}
	return r.run(meter)
}
