package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"tablesweep/internal/file/journal"
	"tablesweep/internal/job"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep/progress"
	"tablesweep/internal/sweep/rowlist"
	"tablesweep/internal/sweep/verify"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

const (
	// tablesAtOnce is how many tables are under way at most.
	tablesAtOnce = 8
	// tablesName is the file of a checkpoint's directory that says which tables are done.
	tablesName = "tables.jsonl"
	// tableExt ends the name of a table's checkpoint in it.
	tableExt = ".ckpt"
)

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
	Result json.RawMessage `json:"result,omitempty"` // what the command prints for one table
}

// tablesResult sums up all tables.
type tablesResult struct {
	Tables    int     `json:"tables"`
	Succeeded int     `json:"succeeded"`
	Different int     `json:"different"`
	Failed    int     `json:"failed"`
	Pending   int     `json:"pending"`
	Rows      int64   `json:"rows"`
	Seconds   float64 `json:"seconds"` // of this run
}

// failedTables ends a command that finished, although some tables failed.
type failedTables struct{ error }

// together is what the run of one of several tables shares with the others, is told, and leaves.
type together struct {
	limits *job.SharedLimits
	table  string        // its name
	result any           // what it would have printed last
	ended  *journal.File // its checkpoint, which goes when it is known that the table is done
}

// manyRun is a command that does the same with many tables: each by a run of the command for one table, in this process.
type manyRun struct {
	cmd    *cobra.Command
	choice manyFlags
	rows   *rowFlags
	shown  *progressFlag
	json   *jsonFlag
	point  *checkpointFlags
	phase  string
	from   tableHome
	to     *tableHome // nil if the command has but one place
	// do does a table: by a copy of the command's flags, changed by [ofTable].
	do func(*cobra.Command, ofTable) error

	dir    string        // of the checkpoint; "" for none
	file   *journal.File // [tablesName] in it
	tables []tableResult
	meter  *progress.Meter // of all tables
	parts  *progress.Parts

	mu      sync.Mutex // guards stopped, the output, and the file
	stopped error      // why no more tables begin
}

// run does what is left of the tables and prints what became of them.
func (r *manyRun) run() (err error) {
	began := time.Now()
	if err := r.shown.use(r.cmd); err != nil {
		return err
	}
	r.meter = sharedBy(r.cmd).meter
	if err := r.rows.Check(); err != nil {
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
	limits := job.Share(r.rows.Rows)
	r.meter.Phase(r.phase)
	r.parts = r.meter.Parts(len(r.tables), len(r.tables)-len(r.in(tablePending)))
	var group task.Group
	group.SetLimit(min(tablesAtOnce, r.rows.Workers))
	for i := range r.tables {
		if t := &r.tables[i]; t.State == tablePending {
			group.Go(func() error { return r.one(t, &together{table: t.Table, limits: limits}) })
		}
	}
	err = group.Wait()
	r.meter.End()
	return r.end(err, time.Since(began))
}

// begin finds the tables, or takes them from the checkpoint to go on with.
func (r *manyRun) begin() (err error) {
	if r.choice.all {
		if err = r.from.whole(r.cmd.Context()); err == nil && r.to != nil && !r.exports() {
			err = r.to.whole(r.cmd.Context())
		}
		if err != nil {
			return err
		}
	}
	if r.point.file != nil {
		r.dir = r.point.resume
		err = r.restore()
	} else {
		err = r.find()
	}
	for flag := range ownFile {
		if err == nil {
			err = job.MakeDirectory(r.flag(flag))
		}
	}
	if err == nil && r.file != nil {
		var all []any
		for _, t := range r.tables {
			all = append(all, t)
		}
		err = r.file.Renew(all)
	}
	if err == nil && r.exports() {
		err = r.claim()
	}
	return err
}

// open opens the checkpoint, if there is to be one. One that stands where the exports are made may move with them.
func (r *manyRun) open() (err error) {
	if err := job.MakeDirectory(r.dir); err != nil || r.dir == "" {
		return err
	}
	places := []string{r.from.address()}
	if !r.exports() || filepath.Clean(r.dir) != filepath.Clean(r.to.Path) {
		places = append(places, r.to.address())
	}
	r.point.checkpoint = r.dir // as --resume takes it
	_, err = r.point.beginAt(r.cmd, filepath.Join(r.dir, tablesName), job.Facts{Places: places})
	r.file = r.point.file
	return err
}

// restore takes over what became of the tables in earlier runs. Those that failed are tried again.
func (r *manyRun) restore() error {
	if err := r.open(); err != nil {
		return err
	}
	if r.exports() && r.point.export == "" {
		return job.Hint(usagef("--resume %s: another version of this program has begun the export", r.dir), "export to another place")
	}
	at := map[string]int{}
	err := journal.Events(r.file, func(t tableResult) error {
		if i, known := at[t.Table]; known {
			r.tables[i] = t
			return nil
		}
		at[t.Table], r.tables = len(r.tables), append(r.tables, t)
		return nil
	})
	if err != nil {
		return job.BadCheckpoint(err)
	}
	for i := range r.tables {
		t := &r.tables[i]
		if t.State == tableFailed {
			*t = tableResult{Table: t.Table, State: tablePending}
		}
		if list := r.own("failed", t.Table); t.State == tablePending && list != "" && !job.IsThere(r.pointOf(t.Table)) {
			if err := rowlist.Remove(r.cmd.Context(), list); err != nil { // all rows are done again
				return usagef("--failed: %w", err)
			}
		}
	}
	return nil
}

// find lists the tables, and makes a checkpoint if one was asked for. A directory that is exported to is its own.
func (r *manyRun) find() error {
	names, err := r.from.tables(r.cmd.Context())
	if err == nil && len(names) == 0 {
		err = usagef("%v: %s has no table", &r.choice, r.from.address())
	}
	if err == nil {
		names, err = r.choice.choose(names)
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		r.tables = append(r.tables, tableResult{Table: name, State: tablePending})
	}
	if r.dir = r.point.checkpoint; r.dir == "" && r.exports() && r.to.Local() {
		r.dir = r.to.Path
	}
	if r.exports() {
		r.point.export = uuid.NewString()
	}
	if err := r.open(); err != nil {
		return err
	}
	return r.refuse(names)
}

// exports reports whether the tables are written as exports.
func (r *manyRun) exports() bool {
	return r.to != nil && r.to.Objects != nil && r.cmd.Name() != "verify"
}

// flag returns the value of a flag that the command may have, "" if it is not given.
func (r *manyRun) flag(name string) string {
	if f := r.cmd.Flags().Lookup(name); f != nil && f.Changed {
		return f.Value.String()
	}
	return ""
}

// own returns the path of a table's own file, "" without one.
func (r *manyRun) own(flag, table string) string { return inside(r.flag(flag), table, ownFile[flag]) }

// pointOf returns the path of a table's checkpoint, "" without one. An export in a directory has it there.
func (r *manyRun) pointOf(table string) string {
	if r.exports() && r.to.Local() {
		return inside(r.to.Path, table, "/"+place.JournalName)
	}
	return inside(r.dir, table, tableExt)
}

// inside returns the path of a table's file in a directory. It is "" without a directory, and for a name that no table can have: such a
// name may lead elsewhere.
func inside(dir, table, ext string) string {
	if dir == "" || storage.CheckTableName(table) != nil {
		return ""
	}
	return filepath.Join(dir, table+ext)
}

// in returns the names of the tables that are in a state.
func (r *manyRun) in(state string) (names []string) {
	for _, t := range r.tables {
		if t.State == state {
			names = append(names, t.Table)
		}
	}
	return names
}

// one does a table, unless the command ends.
func (r *manyRun) one(t *tableResult, with *together) error {
	r.mu.Lock()
	stopped := r.stopped != nil
	r.mu.Unlock()
	if stopped || r.cmd.Context().Err() != nil {
		return nil
	}
	meter := r.parts.Begin(t.Table)
	s := sharedBy(r.cmd)
	s.meter, s.together = meter, with
	var out bytes.Buffer
	cause := storage.CheckTableName(t.Table) // a listing may have others, such as a path that leads elsewhere
	if cause == nil {
		c := *r.cmd // with the same flags, and a context and an output of its own
		c.SetContext(withShared(r.cmd.Context(), s))
		c.SetOut(&out)
		cause = ended(&c, r.do(&c, r.of(t.Table)))
	}
	t.take(with.result, cause)
	r.parts.End(meter, t.State != tablePending)
	if t.State == tableFailed {
		meter.Say(tableFailed, t.Error)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.meter.Clear()
	_, err := r.cmd.OutOrStdout().Write(out.Bytes())
	if r.file != nil && t.State != tablePending {
		r.file.Append(t)
		err = errors.Join(err, r.file.Flush(), r.file.Sync())
		if err == nil && with.ended != nil {
			err = with.ended.Remove()
		}
	}
	switch {
	case err != nil:
		r.stopped = err
	case errors.Is(cause, storage.ErrAway): // others would wait for the same
		r.stopped = cause
	}
	return err
}

// take takes in what the run of a table has as its result, and how it ended.
func (t *tableResult) take(result any, err error) {
	if result != nil {
		t.Result, _ = json.Marshal(result)
		_ = json.Unmarshal(t.Result, &struct{ Rows *int64 }{&t.Rows})
	}
	switch {
	case err == nil:
		t.State = tableSucceeded
	case errors.Is(err, task.ErrInterrupted):
		t.State = tablePending
	case errors.Is(err, errDifferent):
		t.State = tableDifferent
	default:
		t.State, t.Error = tableFailed, err.Error()
	}
}

// ofTable are the values of flags that a table has in place of the command's.
type ofTable struct {
	from, to, failed, state, checkpoint, resume string
}

// of returns those of a table. It goes on with what was begun.
func (r *manyRun) of(table string) ofTable {
	t := ofTable{from: r.from.of(table), failed: r.own("failed", table), state: r.own("state", table)}
	if r.to == nil {
		return t
	}
	t.to = r.to.of(table)
	point := r.pointOf(table)
	local, begun := r.exports() && r.to.Local(), job.IsThere(point)
	switch {
	case local && begun:
		t.resume = t.to
	case begun:
		t.resume = point
	case !local:
		t.checkpoint = point
	}
	return t
}

// point returns the flags of the table's own checkpoint.
func (t ofTable) point() checkpointFlags {
	to := t.to
	if t.resume == to { // an export's own journal does not say where it is
		to = ""
	}
	return checkpointFlags{checkpoint: t.checkpoint, resume: t.resume, own: map[string]string{
		"all": "", "tables": "", "from": t.from, "to": to, "failed": t.failed, "state": t.state,
	}}
}

// end prints what became of the tables, and returns the command's error.
func (r *manyRun) end(err error, took time.Duration) error {
	if err == nil && r.in(tablePending) != nil {
		err = cmp.Or(r.stopped, task.ErrInterrupted)
	}
	if failed := r.in(tableFailed); err == nil && failed != nil {
		err = failedTables{fmt.Errorf("%d of %s failed: %s", len(failed), progress.Plural(len(r.tables), "table"), strings.Join(failed, ", "))}
	}
	if err == nil && r.exports() {
		err = r.seal()
	}
	if printErr := r.print(took); err == nil {
		err = printErr
	}
	if r.to != nil { // count can't be resumed
		err = r.point.ended(r.cmd, err, func() error { return nil })
	}
	if err != nil {
		return err
	}
	if r.file != nil {
		for _, t := range r.tables { // of one that was killed when it had noted the table
			_ = os.Remove(r.pointOf(t.Table))
		}
		_ = os.Remove(r.dir) // one with files of others stays
	}
	if r.in(tableDifferent) != nil {
		return errDifferent
	}
	return nil
}

// seal completes the export of many tables.
func (r *manyRun) seal() error {
	var names []string
	for _, t := range r.tables {
		names = append(names, t.Table)
	}
	return job.BlobHint(place.SealTables(r.cmd.Context(), r.to.Objects, r.point.export, names))
}

// print prints a line a table, and the sum.
func (r *manyRun) print(took time.Duration) error {
	sum := tablesResult{
		Tables: len(r.tables), Succeeded: len(r.in(tableSucceeded)), Different: len(r.in(tableDifferent)), Failed: len(r.in(tableFailed)),
		Pending: len(r.in(tablePending)), Seconds: took.Round(time.Millisecond).Seconds(),
	}
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
	text := fmt.Sprintf("%s, %s: %d succeeded", progress.Plural(sum.Tables, "table"), progress.Plural(sum.Rows, "row"), sum.Succeeded)
	for _, state := range []string{tableDifferent, tableFailed, tablePending} {
		if n := len(r.in(state)); n > 0 {
			text += fmt.Sprintf(", %d %s", n, state)
		}
	}
	return r.json.print(r.cmd, sum, "%s in %.1f s\n", text, sum.Seconds)
}

// text is the state for people.
func (t tableResult) text() string {
	var n verify.Result
	switch {
	case t.Error != "":
		return t.State + ": " + t.Error
	case t.State == tableDifferent && json.Unmarshal(t.Result, &n) == nil:
		return fmt.Sprintf("%s: %d missing, %d extra, %d different", t.State, n.Missing, n.Extra, n.Different)
	}
	return t.State
}
