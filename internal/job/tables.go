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

// TablesJournal is the file of a checkpoint's directory that says which tables are done.
const TablesJournal = "tables.jsonl"

// tablesAtOnce is how many tables are under way at most.
const tablesAtOnce = 8

// The states of a table.
const (
	Pending   = "pending"
	Succeeded = "succeeded"
	Different = "different" // a comparison found differences
	Failed    = "failed"
)

// ErrDifferent ends a comparison that found differences.
var ErrDifferent = errors.New("the tables differ")

// TableResult is what became of a table: a line of the result, and of [TablesJournal].
type TableResult struct {
	Table  string          `json:"table"`
	State  string          `json:"state"`
	Rows   int64           `json:"rows"`
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"` // what the job says of one table
}

// Tables is a job about many tables: the same job for each of them, several at once.
type Tables struct {
	Process
	Rows
	Phase         string
	Choice        Choice
	From          Home
	To            *Home       // nil if the command has but one place
	Failed, State string      // the directories of each table's file; "" for none
	Compares      bool        // tables are compared, and not written
	AllowExtra    bool        // a table that only the destination has is no difference
	Options       []Option    // as they are given
	Checkpoint    *Checkpoint // of the command; those of the tables stand in a directory
	Do            func(context.Context, *Part) error
	// Overwrites is asked once, before anything is written, if tables of the destination have rows that may be overwritten. Its error ends the
	// job. nil if nobody needs to be asked.
	Overwrites func(tables []string) error

	All     []TableResult // set by Begin
	Journal *journal.File // set by Begin; gets what became of each table; nil if that is not kept
	dir     string        // of the checkpoints; "" for none
	mu      sync.Mutex    // guards the output and the journal
}

// Part is the job for one of many tables.
type Part struct {
	Process // its own meter and output, and limits that it shares
	Own
	Table  string
	Result any           // what it says of its table, set by Do; with rows, if it has that figure
	Ended  *journal.File // its checkpoint, set by Do if nothing of it is left to do; it goes when that is noted
}

// sharedLimits are those that jobs about many tables keep to together.
type sharedLimits struct {
	requests *storage.Limit
	sweeps   *sweep.Share
}

// In returns the names of the tables that are in a state.
func (t *Tables) In(state string) (names []string) {
	for _, r := range t.All {
		if r.State == state {
			names = append(names, r.Table)
		}
	}
	return names
}

// resume takes over what became of the tables in earlier runs. Those that failed are tried again.
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

// Again makes tables that were done pending once more.
func (t *Tables) Again(which func(table string) bool) {
	for i, r := range t.All {
		if which(r.Table) {
			t.All[i] = TableResult{Table: r.Table, State: Pending}
		}
	}
}

// Run does the tables that are pending. One that fails does not stop the others. The error says why some are pending still: it is
// [task.ErrInterrupted] after an interrupt.
func (t *Tables) Run(ctx context.Context) error {
	t.limits = &sharedLimits{storage.NewLimit(t.MaxRequests), sweep.NewShare(t.Workers, t.MaxRows)}
	t.Meter.Phase(t.Phase)
	parts := t.Meter.Parts(len(t.All), len(t.All)-len(t.In(Pending)))
	var group task.Group
	group.SetLimit(min(tablesAtOnce, t.Workers))
	more, stop := context.WithCancelCause(ctx) // ends when no more tables are to begin
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
			p := &Part{Process: t.Process, Table: r.Table, Own: t.own(r.Table)}
			p.Meter = parts.Begin(r.Table)
			cause := t.one(ctx, r, p)
			parts.End(p.Meter, r.State != Pending)
			if r.State == Failed {
				p.Meter.Print(Failed, r.Error)
			}
			err := t.note(r, p)
			if err != nil || errors.Is(cause, storage.ErrAway) { // others would wait for the same
				stop(cmp.Or(err, cause))
			}
			return err
		})
	}
	err := group.Wait()
	t.Meter.End()
	if err == nil && t.In(Pending) != nil {
		if err = context.Cause(more); err == nil || ctx.Err() != nil {
			err = task.ErrInterrupted
		}
	}
	return err
}

// one does a table, and returns how that ended.
func (t *Tables) one(ctx context.Context, r *TableResult, p *Part) error {
	p.Out = &bytes.Buffer{}
	err := storage.CheckTableName(r.Table) // a listing may have others, such as a path that leads elsewhere
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

// note prints what a table's job printed, and keeps what became of it.
func (t *Tables) note(r *TableResult, p *Part) error {
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

// Home is where many tables stand: an account, or a place with their exports.
type Home struct {
	Place                    // of exports, which are neither a table nor in an account of their own
	Account *storage.Account // nil for exports
	// IsStateTable reports whether an app keeps its scans in tables of this name.
	IsStateTable func(name string) bool
}

// of returns a table's place, as a command line names it.
func (h Home) of(table string) string { return h.Path + table }

// Address identifies the home.
func (h Home) Address() string {
	if h.Account != nil {
		return strings.TrimSuffix(h.Account.Table("t").Address(), "/t")
	}
	return h.Place.Address()
}

// tables returns the names of the tables, in order. Exports that are not complete are among them. It returns apart those that an app, or
// its host, keeps for itself: written back, they would undo what the app has done since.
func (h Home) tables(ctx context.Context) (names, own []string, err error) {
	if h.Account == nil {
		names, err = place.ExportsIn(ctx, h.Objects)
		err = blobHint(err)
	} else {
		err = h.Account.TableNames(ctx, func(name string) error {
			if !strings.HasPrefix(name, "$") { // the service's own
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

// whole refuses a place of exports that is no complete export of many tables: some may be missing.
func (h Home) whole(ctx context.Context) error {
	if h.Objects == nil {
		return nil
	}
	_, err := place.OpenTables(ctx, h.Objects)
	if err == nil || storage.Passing(err) || storage.Denied(err) {
		return blobHint(err)
	}
	hint := "--tables '*' takes the complete exports that are there, and names the others"
	if h.Local() && IsThere(filepath.Join(h.Path, TablesJournal)) {
		hint = fmt.Sprintf("tablesweep export --resume %s completes it; %s", strings.TrimRight(h.Path, "/"), hint)
	}
	return Hint(Refuse("all", ": %w", err), hint)
}
