package scans

import (
	"cmp"
	"context"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/record/rowmap"
	"tablesweep/internal/storage"
)

const (
	// exportQueries is the default number of queries in an invocation of an export or a comparison.
	exportQueries = 16
	// heldBytes is the maximum size of the rows that a comparison keeps in memory until it has read the same keys in
	// the other place.
	heldBytes = 16 << 20

	writeThere = "write to the destination"
	// ExportRefused explains a refusal by the Blob service.
	ExportRefused = "an export lists, reads and writes blobs, but the Blob service refuses one of these operations; check the name, the connection and its permissions"
)

type plan struct {
	Work work
	// Prepare creates the destination. It is nil if there is nothing to create.
	Prepare func(context.Context) error
	// Missing reports whether the destination is missing, and changes nothing. An error means that the work cannot
	// write to the destination. Missing is nil for work that writes nothing.
	Missing func(context.Context) (bool, error)
	// Destination is the table that the work writes to or compares with, or nil.
	Destination *storage.Table
	// Container is the place to which the work writes files, or nil.
	Container *place.Blobs
	// Properties is true if a row's keys are not enough for the work.
	Properties bool
}

// work describes what steps do with rows: [counting], [Writing], [Deleting], [Exporting] or [Comparing]. Package step
// does the work. All work is idempotent, because a step may be repeated.
type work interface {
	// queries returns the default number of queries in an invocation.
	queries() int
}

type counting struct{}

// With one query per step, a large count would make more commits than the ledger's partition allows.
func (counting) queries() int { return 4 }

// Writing writes rows, or messages made from rows.
type Writing struct {
	Action action.Work
	What   string // names the work in errors, such as "delete rows"
	// Packs is set if Writing packs rows into transactions. If a page has many partitions, it needs many
	// transactions. In that case, steps of the function CopyRows write most of the page's rows.
	Packs bool
}

func (Writing) queries() int { return 1 }

// Writes returns the scan's work if this work is a [Writing] or a [Deleting]. For any other work, the result has no Action.
func (o *RunnableScan) Writes() Writing {
	switch w := o.Work.(type) {
	case Writing:
		return w
	case Deleting:
		return w.Writing
	}
	return Writing{}
}

// Deleting deletes rows. One step reads the rows, and a second step deletes them.
type Deleting struct{ Writing }

// Deletes reports whether the scan deletes rows of its source.
func (o *RunnableScan) Deletes() bool {
	_, deletes := o.Work.(Deleting)
	return deletes
}

// plan returns the plan of a request's action and map. The argument `source` is nil for an export. Errors are
// [problem.Invalid].
func (ss *Scans) plan(r Request, source *storage.Table) (plan, error) {
	p, err := ss.planWithoutMap(r, source)
	if err != nil || r.Action.Map == "" {
		return p, err
	}
	rows, err := r.Action.rowMap()
	if err != nil {
		return p, problem.Invalidf("action.map", "%v", err)
	}
	switch w := p.Work.(type) {
	case Exporting:
		w.Kept = rows
		p.Work = w
	case Writing: // mapped rows are not handed over to CopyRows, because a map may turn the rows of one partition into rows of other partitions
		w.Action, w.Packs = action.Mapped{Work: w.Action, Map: rows.Rows, Limiter: &ss.limiter}, false
		p.Work = w
	}
	return p, nil
}

func (ss *Scans) planWithoutMap(r Request, source *storage.Table) (plan, error) {
	switch r.Action.Type {
	case Copy:
		if r.Exports() {
			return ss.exportTo(*r.Action.Destination)
		}
		p, err := ss.writing(r.Action)
		p.Work = Writing{Action: action.Copy{Destination: p.Destination, Mode: r.Action.Mode}, What: writeThere, Packs: true}
		p.Properties = true
		return p, err
	case Keys:
		p, err := ss.writing(r.Action)
		p.Work = Writing{Action: copyKeys{action.Copy{Destination: p.Destination}, cmp.Or(r.Source.Table, r.Source.Container)}, What: writeThere}
		return p, err
	case Delete:
		if source == nil {
			return plan{}, problem.Invalidf("source.container", "names an export, but the delete action needs a table")
		}
		if err := ss.CheckTable("source", source); err != nil {
			return plan{}, err
		}
		return plan{
			Work: Deleting{Writing{Action: action.Delete{Table: source}, What: "delete rows"}},
			Missing: func(ctx context.Context) (bool, error) {
				return false, Refusal("source", "the Table service refuses to delete from it; check the connection and its permissions", source.MayDelete(ctx))
			},
		}, nil
	case Enqueue:
		return ss.enqueue(*r.Action.Queue, r.Action.Message)
	}
	return plan{Work: counting{}}, nil
}

// writing returns the plan of an action that writes to a destination table. The caller must set the plan's field Work.
func (ss *Scans) writing(a Action) (plan, error) {
	const field = "action.destination"
	account, err := ss.Account(field, a.Destination.Connection)
	if err != nil {
		return plan{}, err
	}
	destination := account.Table(a.Destination.Table)
	return plan{
		Destination: destination,
		Prepare:     func(ctx context.Context) error { return createDestination(ctx, destination) },
		Missing: func(ctx context.Context) (bool, error) {
			exists, err := destination.MayWrite(ctx)
			return !exists, Refusal(field, "the Table service refuses to write to it; check the name, the connection and its permissions", err)
		},
	}, ss.CheckTable(field, destination)
}

func (ss *Scans) enqueue(ref QueueRef, message string) (plan, error) {
	a, err := ss.Account("action.queue", ref.Connection)
	if err == nil {
		err = ss.checkQueue("action.queue", a, ref.Name)
	}
	if err != nil {
		return plan{}, err
	}
	q, err := a.Queue(ref.Name)
	if err != nil {
		return plan{}, problem.Invalidf("action.queue", "%v", err)
	}
	template, err := action.ParseTemplate(cmp.Or(message, action.WholeRow))
	if err != nil {
		return plan{}, problem.Invalidf("action.message", "%v", err)
	}
	return plan{
		Work:       Writing{Action: action.Enqueue{Queue: q, Message: template}, What: "enqueue messages"},
		Properties: true,
		Missing: func(ctx context.Context) (bool, error) { // shows whether the queue may be read, but not whether messages may be put
			_, err := q.Length(ctx)
			if storage.Gone(err) {
				return true, nil
			}
			return false, Refusal("action.queue", "the Queue service refuses to show it; check the name, the connection and its permissions", err)
		},
		Prepare: func(ctx context.Context) error {
			err := q.Create(ctx)
			if storage.BeingDeleted(err) {
				return problem.BeingDeleted("action.queue", err)
			}
			return Refusal("action.queue", "the Queue service refuses to create it; check the name, the connection and its permissions", err)
		},
	}, nil
}

type copyKeys struct {
	action.Copy
	source string // the name of the table or container
}

// Split makes one new row for each partition key, and divides the new rows into transactions. All new rows are in one
// partition, which is named after the source. So one transaction can write 100 new rows.
func (c copyKeys) Split(rows []storage.Row) [][]storage.Row {
	var keys []storage.Row
	for _, row := range rows {
		if n := len(keys); n == 0 || keys[n-1].Key.Row != row.Key.Partition {
			keys = append(keys, storage.Row{Key: key.Key{Partition: c.source, Row: row.Key.Partition}})
		}
	}
	return c.Copy.Split(keys)
}

// Refusal returns an error about a field of the request if err is a permanent error of a service, and otherwise err. If
// the service does not accept the app's key or role, the error is about the member "connection" of the field.
func Refusal(field, detail string, err error) error {
	if storage.Denied(err) {
		field += ".connection"
	}
	if storage.Permanent(err) {
		return problem.Invalidf(field, "%s", detail).Because(err)
	}
	return err
}

// ExportFile is the ledger's record of a data file.
type ExportFile struct {
	At   time.Time  `json:"at"` // when the step's last page was read, by the service's clock
	File place.File `json:"file"`
}

// Exporting writes each step's rows to a file in a container.
type Exporting struct {
	Codec *place.Codec
	Kept  *rowmap.Map // the scan's row map, which must not change keys; nil if the scan has none
}

func (Exporting) queries() int { return exportQueries }

// Comparing compares the rows of two places.
type Comparing struct{ AllowExtra bool }

func (Comparing) queries() int { return exportQueries }

// createDestination creates the table unless it exists. Without permission to create tables, it succeeds if the table
// can be read.
func createDestination(ctx context.Context, t *storage.Table) error {
	err := t.Create(ctx)
	if err == nil {
		return nil
	}
	if storage.BeingDeleted(err) {
		return problem.BeingDeleted("action.destination.table", err)
	}
	if storage.Denied(err) {
		if _, readErr := t.Query(ctx, storage.Query{Top: 1}); readErr == nil {
			return nil
		}
	}
	return Refusal("action.destination", "the Table service refuses to create it; check the name, the connection and its permissions", err)
}

// comparison returns the plan of a comparison, and sets o's places and filter. Errors are [problem.Invalid].
func (ss *Scans) comparison(r Request, o *RunnableScan) (plan, error) {
	const field = "action.destination"
	ref := *r.Action.Destination
	a, err := ss.Account(field, ref.Connection)
	if err != nil {
		return plan{}, err
	}
	var table *storage.Table
	if ref.Container == "" {
		table = a.Table(ref.Table)
		o.Other = table
	} else if o.Other, err = ss.exportAt(field, ref); err != nil {
		return plan{}, err
	}
	filter, only := r.Filter, ""
	if storage.ComparesTime(filter) { // only the source is filtered by Timestamp, because the rows of the two places have different Timestamps
		filter, only = "", filter
	}
	o.Filter = filter
	depth := verify.DepthOf(r.Action.Mode)
	source := o.Source
	if r.Action.Proof && o.Table() != nil {
		source = storage.OrEmpty{Source: source} // a missing table counts as empty, so the export is read to its end
	}
	o.Reader = verify.Pair(source, o.Other, depth, only, heldBytes, ss.Options.Memory)
	return plan{Work: Comparing{r.Action.AllowExtra}, Destination: table, Properties: depth != verify.Keys}, nil
}

// exportTo returns the plan of an export. Errors are [problem.Invalid].
func (ss *Scans) exportTo(ref TableRef) (plan, error) {
	a, to, err := ss.Blobs("action.destination", ref)
	if err == nil {
		err = ss.checkContainer("action.destination", a, ref.Container)
	}
	if err != nil {
		return plan{}, err
	}
	codec, err := ss.codec()
	if err != nil {
		return plan{}, err
	}
	return plan{
		Work: Exporting{Codec: codec}, Container: to, Properties: true,
		Prepare: func(ctx context.Context) error {
			err := to.Make(ctx)
			if storage.BeingDeleted(err) {
				return problem.BeingDeleted("action.destination.container", err)
			}
			return Refusal("action.destination", ExportRefused, err)
		},
		Missing: func(ctx context.Context) (bool, error) {
			err := CheckFree(ctx, to, false)
			if storage.Gone(err) { // the container is missing
				return true, nil
			}
			return false, Refusal("action.destination", ExportRefused, err)
		},
	}, nil
}

func takenBy(name string, _ int64) error {
	return problem.Conflictf("action.destination", "is taken: it contains %s; name another prefix", name)
}

// CheckFree fails if a place contains objects. It also fails if the place is inside another export, because readers of
// that export would find the new objects. A member's place may be inside its group's export.
func CheckFree(ctx context.Context, to *place.Blobs, member bool) error {
	err := to.List(ctx, "", takenBy)
	if err != nil || member {
		return err
	}
	name, err := place.EnclosingExport(ctx, to)
	if err == nil && name != "" {
		err = problem.Conflictf("action.destination", "lies within the export that contains the blob %s; name a prefix outside of this export", name)
	}
	return err
}
