package job

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// Sync makes a table equal to another place. Between [Sync.Plan] and [Sync.Do], a caller may request confirmation.
type Sync struct {
	options PairOptions
	spec    sweep.Spec
	deletes bool
}

// NewSync prepares a sync of two places. If `deletes` is true, the sync deletes extra rows. NewSync changes nothing.
func NewSync(ctx context.Context, o PairOptions, deletes bool) (*Sync, error) {
	if storage.ComparesTime(o.Filter) {
		return nil, Hint(Refuse("filter", " compares Timestamp, but a row and its copy have different Timestamps, so equal rows would count as extra"), "filter by another property")
	}
	s, err := o.specOf(o.From)
	if err == nil && o.From.Export() != nil {
		err = o.checkComplete(o.From.Export().Manifest())
	}
	if err != nil {
		return nil, err
	}
	s.Steal = true // lets workers read many ranges of the destination at the same time
	s.Source = o.mappedSource(s.Source, false)
	_, err = tryRow(ctx, s)
	return &Sync{options: o, spec: s, deletes: deletes}, refuseMoved("map", err)
}

// Plan compares the places, and stores the plan's rows in the file. Without a file, Plan only counts the rows, and [Sync.Do] cannot use the plan. A
// missing destination counts as empty. Plan changes nothing in storage.
func (s *Sync) Plan(ctx context.Context, f *verify.PlanFile) (p SyncPlan, found verify.Result, err error) {
	p.rows = verify.NewPlan(f, s.deletes)
	if found, err = s.compare(ctx, p.rows); err != nil {
		return p, found, err
	}
	p.PlanCounts = p.rows.Counts()
	if there := found.Rows + found.Extra - found.Missing; there == 0 { // the destination is empty, or perhaps missing
		_, err = s.options.To.Table().Query(ctx, storage.Query{Select: []string{}, Top: 1})
		if storage.Gone(err) {
			p.Create, err = 1, nil
		}
	}
	if err == nil {
		err = s.mayDelete(found)
	}
	return p, found, err
}

func (s *Sync) compare(ctx context.Context, p *verify.Plan) (verify.Result, error) {
	s.options.Meter.Phase("comparing")
	defer s.options.Meter.End()
	r, err := verify.Compare(ctx, s.spec, storage.OrEmpty{Source: s.options.To.Source}, verify.Options{Options: s.options.comparison(), Plan: p})
	return r, syncError(err)
}

// mayDelete returns an error if the source has no row in the range, but the sync would delete rows of the destination.
func (s *Sync) mayDelete(found verify.Result) error {
	if !s.deletes || found.Rows > 0 || found.Extra == 0 {
		return nil
	}
	return Hint(Refuse("", "the source has no row in the range, so nothing is deleted"), fmt.Sprintf(`%s has %s in this range; "tablesweep delete" removes rows`, s.options.To.Table(), problem.Plural(found.Extra, "row")))
}

// SyncPlan is the plan of a sync, with its counts.
type SyncPlan struct {
	Create int64 `json:"create,omitempty"` // tables to create
	verify.PlanCounts
	Failed int64 `json:"failed,omitempty"` // tables that could not be compared; the other counts leave these tables out
	rows   *verify.Plan
}

// Add adds the counts for another table.
func (p *SyncPlan) Add(other SyncPlan) {
	p.Create += other.Create
	p.Copy, p.Change, p.Delete, p.Leave = p.Copy+other.Copy, p.Change+other.Change, p.Delete+other.Delete, p.Leave+other.Leave
}

// Changes reports whether the plan changes anything.
func (p SyncPlan) Changes() bool { return p.Create+p.Copy+p.Change+p.Delete > 0 }

// Differs returns [ErrDifferent] if the places are not equal.
func (p SyncPlan) Differs() error {
	if p.Changes() || p.Leave > 0 {
		return ErrDifferent
	}
	return nil
}

// String describes the plan's changes.
func (p SyncPlan) String() string {
	text := "would "
	if p.Create > 0 {
		text += fmt.Sprintf("create %s, ", problem.Plural(p.Create, "table"))
	}
	text += fmt.Sprintf("copy %s, change %d, delete %d", problem.Plural(p.Copy, "row"), p.Change, p.Delete)
	if p.Leave > 0 {
		text += fmt.Sprintf(", and leave %s", problem.Plural(p.Leave, "extra row"))
	}
	if p.Failed > 0 {
		text += fmt.Sprintf("; not counted: %s that could not be compared", problem.Plural(p.Failed, "table"))
	}
	return text
}

// SyncResult is the result of a sync, and of the comparison after it.
type SyncResult struct {
	verify.Result
	Written int64 `json:"written"`
	Deleted int64 `json:"deleted"`
	Failed  int64 `json:"failed,omitempty"` // rows that the destination refused
	Kept    int64 `json:"kept,omitempty"`   // rows that other programs changed after the plan was made; the sync leaves these unchanged
}

// Do makes a plan's changes, and then compares again. It does not change a row that another program has changed since the plan was made. If Do
// fails, it may have made some of the changes.
func (s *Sync) Do(ctx context.Context, plan SyncPlan) (r SyncResult, err error) {
	to := s.options.To.Table()
	if err := to.Create(ctx); err != nil {
		return r, err
	}
	s.options.Meter.Phase("syncing")
	did, err := plan.rows.Apply(ctx, s.spec, to, s.options.comparison(), s.options.From.Export() != nil)
	s.options.Meter.End()
	s.options.printChanges()
	if err == nil {
		r.Result, err = s.compare(ctx, nil)
	}
	r.Written, r.Deleted, r.Kept, r.Failed = did.Written, did.Deleted, did.Kept, did.Failed
	return r, syncError(err)
}

// SyncAgain is the hint for an interrupted sync.
const SyncAgain = "run the sync again; it compares the places again from the beginning"

func syncError(err error) error {
	if err = refuseMoved("map", err); errors.Is(err, task.ErrInterrupted) {
		err = Hint(err, SyncAgain)
	}
	return err
}

// checkComplete returns an error if the export may lack rows of the range, or properties of these rows. A sync would remove such properties from
// the destination, and may also remove such rows.
func (o PairOptions) checkComplete(m place.Manifest) error {
	own, from := o.Bounds.Range(), o.From.Path
	within := own
	if m.Range != nil {
		of := m.Range.Range()
		within = own.Narrow(of.Low, of.High)
	}
	switch {
	case m.Since != nil:
		return Refuse("from", " %s contains only the rows that had changed since %s, so a sync would treat all other rows as extra", from, m.Since)
	case m.Select != nil:
		return Refuse("from", " %s contains only the properties %s, so a sync would remove all other properties", from, strings.Join(m.Select, ","))
	case m.Mapped:
		return Hint(Refuse("from", " %s was made with --map, --rename or --drop, so the export may lack rows and properties of %s", from, m.Table), "write the export's rows to a new table with tablesweep import, and sync from the new table")
	case m.Filter != "" && m.Filter != o.Filter:
		return Hint(Refuse("from", " %s contains only the rows that match a filter, so a sync would treat all other rows as extra", from), fmt.Sprintf("sync only these rows: --filter %q", m.Filter))
	case storage.RangeFilter(own) != storage.RangeFilter(within):
		return Hint(Refuse("from", " %s contains only the rows of a range, so a sync would treat all other rows as extra", from), "to sync only these rows, limit the sync to the export's range with --prefix, --after and --before")
	}
	return nil
}
