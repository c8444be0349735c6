package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// plan is what a request's action comes to: its work, and what that needs of the places.
type plan struct {
	work work
	// prepare creates the destination of the writes; nil if there is nothing to create.
	prepare func(context.Context) error
	// missing reports whether the destination is missing. Its error is a destination that may not
	// be written to. It changes nothing; nil if nothing is written.
	missing func(context.Context) (bool, error)
	// destination is the table that it writes to, or compares with, if that is not the source.
	destination *storage.Table
	// container is the place in a container that it writes files to; nil if it does not.
	container *place.Blobs
	// properties is set if it needs more of a row than its keys.
	properties bool
}

// work is what the steps of a scan do with the rows that they read: [counting], [writing], [deleting], [exporting] or [comparing].
// It is idempotent, since a step may be repeated. The steps themselves know how it is done.
type work interface {
	// queries is how many queries an invocation makes at most, unless the request says it.
	queries() int
}

// taking is the work of one step.
type taking interface {
	// wide reports whether an invocation may make several queries at once, and leave gaps between their rows.
	wide() bool
	// page takes the rows of a page that was read at a time. It returns those that the step holds until its end.
	page(ctx context.Context, of scan.Step, at time.Time, rows []storage.Row) (held []storage.Row, err error)
	// uses is how many bytes of memory the step holds beside those rows.
	uses() int64
	// room is for how many bytes of further pages there is room beside those that were read; below 0 for none.
	room(read int) int
	// end does the work with what the step has found. What it adds to the outcome is committed with that.
	end(ctx context.Context, o *stepScan, m message, delivery int, found *yield, out *outcome) error
}

// begin begins the work of a step.
func (o *stepScan) begin() taking {
	switch w := o.work.(type) {
	case writing:
		return written{writing: w}
	case deleting:
		return &pagesToDelete{written: written{writing: w.writing}}
	case exporting:
		return &draft{FileDraft: place.NewFile(w.codec), kept: w.kept, sizes: o.sizes}
	case comparing:
		return &compared{comparing: w}
	}
	return counted{}
}

// holding holds all rows until the end.
type holding struct{}

func (holding) wide() bool { return true }

func (holding) page(_ context.Context, _ scan.Step, _ time.Time, rows []storage.Row) ([]storage.Row, error) {
	return rows, nil
}

func (holding) uses() int64 { return 0 }

func (holding) room(read int) int { return readBytes - read }

// counting counts rows.
type counting struct{}

// queries is more than 1: a large count would commit more often than the ledger's partition allows.
func (counting) queries() int { return 4 }

// counted is the work of a step that counts rows.
type counted struct{ holding }

func (counted) end(_ context.Context, _ *stepScan, _ message, _ int, found *yield, out *outcome) error {
	out.done.Rows = int64(len(found.rows()))
	return nil
}

// writing writes rows, or what becomes of them.
type writing struct {
	action action.Work
	what   string // names the work in errors, such as "delete rows"
	// packs is set if it writes transactions before the commit: a page of many partitions takes long, and is handed over
	packs bool
}

func (writing) queries() int { return 1 }

// written is the work of a step that writes rows.
type written struct {
	holding
	writing
}

func (w written) end(ctx context.Context, o *stepScan, m message, delivery int, found *yield, out *outcome) error {
	if w.packs {
		found.handOver(m)
	}
	rows := found.rows()
	out.done.Rows = int64(len(rows))
	failed, err := w.write(ctx, o, rows, delivery, &out.done.Totals)
	if err != nil {
		return err
	}
	if found.blame(failed, m.Rows); len(failed) > 0 {
		found.count(w)
	}
	keepFailed(&out.done, failed, found.keptOf(failed, o.request.Action.Type == Keys || o.request.Action.Map != ""))
	return nil
}

// count returns how many rows the action makes of the source's, whether it can write them or not.
func (w written) count(rows []storage.Row) (n int64) {
	for _, unit := range w.action.Split(rows) {
		n += int64(len(unit))
	}
	return n
}

// writes returns the work of a scan that writes or deletes rows. Its action is nil for other scans.
func (o *opened) writes() writing {
	switch w := o.work.(type) {
	case writing:
		return w
	case deleting:
		return w.writing
	}
	return writing{}
}

// deleting deletes rows. A step leaves those that it has read to their deletion.
type deleting struct{ writing }

// deletes reports whether the scan deletes rows of its source.
func (o *opened) deletes() bool {
	_, deletes := o.work.(deleting)
	return deletes
}

// plan returns the plan of a request's action with what its map makes of the rows; source is nil if the rows come from an export. Its errors are [problem.Invalid].
func (e *Engine) plan(r Request, source *storage.Table) (plan, error) {
	p, err := e.plain(r, source)
	if err != nil || r.Action.Map == "" {
		return p, err
	}
	rows, err := r.Action.rows()
	if err != nil {
		return p, problem.Invalidf("action.map", "%v", err)
	}
	switch w := p.work.(type) {
	case exporting:
		w.kept = rows
		p.work = w
	case writing: // rows of one partition become those of others, so nothing is handed over
		w.action, w.packs = action.Mapped{Work: w.action, Map: rows.Rows, Limiter: &e.limiter}, false
		p.work = w
	}
	return p, nil
}

// plain returns the plan of a request's action without a map.
func (e *Engine) plain(r Request, source *storage.Table) (plan, error) {
	switch r.Action.Type {
	case Copy:
		if r.exports() {
			return e.exportTo(*r.Action.Destination)
		}
		p, err := e.writing(r.Action)
		p.work = writing{action: action.Copy{Destination: p.destination, Mode: r.Action.Mode}, what: writeThere, packs: true}
		p.properties = true
		return p, err
	case Keys:
		p, err := e.writing(r.Action)
		p.work = writing{action: copyKeys{action.Copy{Destination: p.destination}, cmp.Or(r.Source.Table, r.Source.Container)}, what: writeThere}
		return p, err
	case Delete:
		if source == nil {
			return plan{}, problem.Invalidf("source.container", "has an export, which never changes; delete deletes rows of a table")
		}
		if err := e.checkTable("source", source); err != nil {
			return plan{}, err
		}
		return plan{
			work: deleting{writing{action: action.Delete{Table: source}, what: "delete rows"}},
			missing: func(ctx context.Context) (bool, error) {
				return false, refusal("source", "the Table service refuses to delete from it; check the connection and its permissions", source.MayDelete(ctx))
			},
		}, nil
	case Enqueue:
		return e.enqueue(*r.Action.Queue, r.Action.Message)
	}
	return plan{work: counting{}}, nil
}

const writeThere = "write to the destination"

// writing returns the plan of an action that writes to a destination, without its work.
func (e *Engine) writing(a Action) (plan, error) {
	const field = "action.destination"
	account, err := e.account(field, a.Destination.Connection)
	if err != nil {
		return plan{}, err
	}
	destination := account.Table(a.Destination.Table)
	return plan{
		destination: destination,
		prepare:     func(ctx context.Context) error { return createDestination(ctx, destination) },
		missing: func(ctx context.Context) (bool, error) {
			exists, err := destination.MayWrite(ctx)
			return !exists, refusal(field, "the Table service refuses to write to it; check the name, the connection and its permissions", err)
		},
	}, e.checkTable(field, destination)
}

func (e *Engine) enqueue(ref QueueRef, message string) (plan, error) {
	a, err := e.account("action.queue", ref.Connection)
	if err == nil {
		err = e.checkQueue("action.queue", a, ref.Name)
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
		work:       writing{action: action.Enqueue{Queue: q, Message: template}, what: "enqueue messages"},
		properties: true,
		missing: func(ctx context.Context) (bool, error) { // it only finds out whether the queue may be read
			_, err := q.Length(ctx)
			if storage.Gone(err) {
				return true, nil
			}
			return false, refusal("action.queue", "the Queue service refuses to show it; check the name, the connection and its permissions", err)
		},
		prepare: func(ctx context.Context) error {
			err := q.Create(ctx)
			if storage.BeingDeleted(err) {
				return problem.BeingDeleted("action.queue", err)
			}
			return refusal("action.queue", "the Queue service refuses to create it; check the name, the connection and its permissions", err)
		},
	}, nil
}

// copyKeys copies the keys of partitions.
type copyKeys struct {
	action.Copy
	source string // the table's name, or the container's
}

// Split cuts the rows that are written: one for each partition. Its partition key is the source's name: so a hundred
// fit into a transaction. Its row key is the partition.
func (c copyKeys) Split(rows []storage.Row) [][]storage.Row {
	var keys []storage.Row
	for _, row := range rows {
		if n := len(keys); n == 0 || keys[n-1].Key.Row != row.Key.Partition {
			keys = append(keys, storage.Row{Key: key.Key{Partition: c.source, Row: row.Key.Partition}})
		}
	}
	return c.Copy.Split(keys)
}

// refusal returns an error of a service as the caller's, who named what it refuses; an error that may pass as it is. A key or a role
// that the service does not take is the connection's.
func refusal(field, detail string, err error) error {
	if storage.Denied(err) {
		field += ".connection"
	}
	if storage.Permanent(err) {
		return problem.Invalidf(field, "%s", detail).Because(err)
	}
	return err
}

// write does the work with the rows and adds the result to done. It returns the rows that
// could not be written. Over a broken one, all deliveries but the last fail.
func (w written) write(ctx context.Context, o *stepScan, rows []storage.Row, delivery int, done *ledger.Totals) ([]action.Failure, error) {
	options := o.options
	if o.request.Action.Type == Enqueue && options.MayProceed != nil { // what is not put now is put again by a retry, with all other messages
		if err := options.MayProceed(ctx); err != nil {
			return nil, err
		}
		options.MayProceed = nil
	}
	r, err := action.All(ctx, options, o.limiter, w.action, rows)
	if err != nil {
		return nil, fatalIfPermanent(w.what, err)
	}
	if i := slices.IndexFunc(r.Failed, func(f action.Failure) bool { return f.Broken }); i >= 0 && delivery < MaxDeliveries {
		return nil, fmt.Errorf("%s: %v", w.what, r.Failed[i])
	}
	done.Written, done.Failed = r.Written, int64(len(r.Failed))
	if len(r.Failed) > 0 {
		f := r.Failed[0]
		zerolog.Ctx(ctx).Warn().Int("rows", len(r.Failed)).Str("partitionKey", f.Key.Partition).Str("rowKey", f.Key.Row).Str("reason", f.Reason).Msg("rows failed; this is the first")
	}
	return r.Failed, nil
}
