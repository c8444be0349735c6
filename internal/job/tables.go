package job

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"tablesweep/internal/file/journal"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// TablesJournal is the file in a checkpoint's directory that records which tables are done.
const TablesJournal = "tables.jsonl"

// maxTables is the maximum number of tables that are processed concurrently.
const maxTables = 8

// The states of a table.
const (
	Pending   = "pending"
	Succeeded = "succeeded"
	Different = "different" // a comparison found differences
	Failed    = "failed"
)

// ErrDifferent ends a comparison that found differences.
var ErrDifferent = errors.New("the tables differ")

// TableResult is the result for a table. It is one line of the printed result, and one line of [TablesJournal].
type TableResult struct {
	Table  string          `json:"table"`
	State  string          `json:"state"`
	Rows   int64           `json:"rows"`
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"` // the result of the table's job
}

// Tables runs the same job for each of many tables, several of them concurrently.
type Tables struct {
	Process
	Rows
	Phase         string
	Choice        Choice
	From          Home
	To            *Home       // nil if the command has only one place
	Failed, State string      // directories that contain a file for each table; "" for none
	Compares      bool        // the job only compares the tables
	AllowExtra    bool        // a table that exists only in the destination is not a difference
	Options       []Option    // the command's options, with their given values
	Checkpoint    *Checkpoint // the checkpoint of the command; the tables' checkpoints are in a directory
	Do            func(context.Context, *Part) error
	// If some of the destination's tables already contain rows, Overwrites is called with these tables before anything is written. Tables with a
	// file in the directory State are left out, because an earlier copy wrote their rows. If Overwrites returns an error, the job ends. Overwrites
	// is nil if no confirmation is needed.
	Overwrites func(tables []string) error

	All     []TableResult // the tables and their results; set by Begin
	Journal *journal.File // records each table's result; set by Begin; nil without a checkpoint
	dir     string        // the directory of the checkpoints; "" for none
	mu      sync.Mutex    // guards the output and the journal
}

// Part is the job for one of many tables.
type Part struct {
	Process // the command's process, but with the table's own meter and output, and with shared limits
	Own
	Table  string
	Result any           // the table's result, set by Do; its JSON may contain rows
	Ended  *journal.File // the table's checkpoint, set by Do if the job is complete, and removed once the result is recorded
}

type sharedLimits struct {
	requests *storage.Limit
	sweeps   *sweep.Share
}

// NamesIn returns the names of the tables that are in the given state.
func (t *Tables) NamesIn(state string) (names []string) {
	for _, r := range t.All {
		if r.State == state {
			names = append(names, r.Table)
		}
	}
	return names
}

// resume reads the results of earlier runs from the journal. Failed tables are tried again.
func (t *Tables) resume() error {
	at := map[string]int{}
	err := journal.Events(t.Journal, func(r TableResult) error {
		if r.State == Failed {
			r = TableResult{Table: r.Table, State: Pending}
		}
		if i, known := at[r.Table]; known {
			t.All[i] = r
			return nil
		}
		at[r.Table], t.All = len(t.All), append(t.All, r)
		return nil
	})
	if err != nil {
		return BadCheckpoint(err)
	}
	return nil
}

// Repeat calls the function with each table, and makes the table pending again if the function returns true.
func (t *Tables) Repeat(which func(table string) bool) {
	for i, r := range t.All {
		if which(r.Table) {
			t.All[i] = TableResult{Table: r.Table, State: Pending}
		}
	}
}

// Run runs the jobs of pending tables. A failed table does not stop the others. If tables are still pending, Run returns an error. After an
// interrupt, this error is [task.ErrInterrupted].
func (t *Tables) Run(ctx context.Context) error {
	t.limits = &sharedLimits{storage.NewLimit(t.MaxRequests), sweep.NewShare(t.Workers, t.MaxRows)}
	t.Meter.Phase(t.Phase)
	parts := t.Meter.Parts(len(t.All), len(t.All)-len(t.NamesIn(Pending)))
	var group task.Group
	group.SetLimit(min(maxTables, t.Workers))
	more, stop := context.WithCancelCause(ctx) // no further table begins once this context ends
	defer stop(nil)
	for i := range t.All {
		r := &t.All[i]
		if r.State != Pending {
			continue
		}
		group.Go(func() error {
			if more.Err() != nil {
				return nil
			}
			p := &Part{Process: t.Process, Table: r.Table, Own: t.ownOptions(r.Table)}
			p.Meter = parts.Begin(r.Table)
			cause := t.runOne(ctx, r, p)
			parts.End(p.Meter, r.State != Pending)
			if r.State == Failed {
				p.Meter.Print(Failed, r.Error)
			}
			err := t.record(r, p)
			if err != nil || errors.Is(cause, storage.ErrAway) { // if an account does not answer, the other tables would wait for it too
				stop(cmp.Or(err, cause))
			}
			return err
		})
	}
	err := group.Wait()
	t.Meter.End()
	if err == nil && t.NamesIn(Pending) != nil {
		if err = context.Cause(more); err == nil || ctx.Err() != nil {
			err = task.ErrInterrupted
		}
	}
	return err
}

func (t *Tables) runOne(ctx context.Context, r *TableResult, p *Part) error {
	p.Out = &bytes.Buffer{}
	err := storage.CheckTableName(r.Table) // a listing may contain invalid names, even paths to other directories
	if err == nil {
		err = t.Do(ctx, p)
	}
	if p.Result != nil {
		r.Result, _ = json.Marshal(p.Result)
		_ = json.Unmarshal(r.Result, &struct{ Rows *int64 }{&r.Rows})
	}
	switch {
	case err == nil:
		r.State = Succeeded
	case errors.Is(err, task.ErrInterrupted):
		r.State = Pending
	case errors.Is(err, ErrDifferent):
		r.State = Different
	default:
		r.State, r.Error = Failed, err.Error()
	}
	return err
}

func (t *Tables) record(r *TableResult, p *Part) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Meter.Clear()
	_, err := t.Out.Write(p.Out.(*bytes.Buffer).Bytes())
	if t.Journal != nil && r.State != Pending {
		t.Journal.Append(r)
		err = errors.Join(err, t.Journal.Flush(), t.Journal.Sync())
		if err == nil && p.Ended != nil {
			err = p.Ended.Remove()
		}
	}
	return err
}

// Home contains many tables. It is an account, or a place with the tables' exports.
type Home struct {
	Place                    // the place of the exports; zero for an account
	Account *storage.Account // nil for exports
	// IsStateTable reports whether an app may store its state in a table of this name.
	IsStateTable func(name string) bool
}

// pathOf returns a table's place as it is written on a command line.
func (h Home) pathOf(table string) string { return h.Path + table }

// Address identifies the home.
func (h Home) Address() string {
	if h.Account != nil {
		return strings.TrimSuffix(h.Account.Table("t").Address(), "/t")
	}
	return h.Place.Address()
}

// tableNames returns the sorted names of the tables, including incomplete exports. The result `own` contains the tables with the state of an app or of an
// app's host. The result `names` contains all other tables. A table in `own` must not be restored, because its old rows would undo later work of the app.
func (h Home) tableNames(ctx context.Context) (names, own []string, err error) {
	if h.Account == nil {
		names, err = place.ExportsIn(ctx, h.Objects)
		err = blobHint(err)
	} else {
		err = h.Account.TableNames(ctx, func(name string) error {
			if !strings.HasPrefix(name, "$") { // only the service's own tables have names with $
				names = append(names, name)
			}
			return nil
		})
	}
	kept := func(name string) bool { return h.IsStateTable(name) || storage.OfHost(name) }
	for _, name := range names {
		if kept(name) {
			own = append(own, name)
		}
	}
	return slices.DeleteFunc(names, kept), own, err
}

// checkComplete returns an error if the place is a directory or prefix without a complete export of many tables. An incomplete export may lack tables.
func (h Home) checkComplete(ctx context.Context) error {
	if h.Objects == nil {
		return nil
	}
	_, err := place.OpenTables(ctx, h.Objects)
	if err == nil || storage.Passing(err) || storage.Denied(err) {
		return blobHint(err)
	}
	hint := "--tables '*' reads all complete exports in the place, and names the incomplete ones"
	if h.Local() && IsThere(filepath.Join(h.Path, TablesJournal)) {
		hint = fmt.Sprintf(`"tablesweep export --resume %s" completes it; %s`, strings.TrimRight(h.Path, "/"), hint)
	}
	return Hint(Refuse("all", ": %w", err), hint)
}
