package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"tablesweep/internal/action"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/record/rowmap"
	"tablesweep/internal/storage"
)

// work is what a scan's action does with the rows of a step. It is idempotent, since a step may
// be repeated. The zero value, that of count, does nothing.
type work struct {
	action action.Work // nil for count, and for a copy into a container
	// what names the work in errors, such as "delete rows".
	what string
	// prepare creates the destination of the writes; nil if there is nothing to create.
	prepare func(context.Context) error
	// missing reports whether the destination is missing. Its error is a destination that may not
	// be written to. It changes nothing; nil if nothing is written.
	missing func(context.Context) (bool, error)
	// destination is the table that it writes to, or compares with, if that is not the source.
	destination *storage.Table
	// deletes is set if it deletes rows of the source.
	deletes bool
	// packs is set if it writes transactions before the commit: a page of many partitions takes long, and is handed over
	packs bool
	// compares is set if it compares the rows of two places.
	compares bool
	// properties is set if it needs more of a row than its keys.
	properties bool
	// raw is set if it writes rows as they were read.
	raw bool
	// export is the place in a container that it writes files to, by the codec; nil if it does not.
	export *place.Blobs
	codec  *place.Codec
	// kept makes of the rows of an export others with their keys; nil if they stay as they are.
	kept *rowmap.Map
}

// countQueries is how many queries an invocation of a count makes. With one, a large
// count would commit more often than the ledger's partition allows.
const countQueries = 4

func (w work) queries() int {
	switch {
	case w.export != nil, w.compares:
		return exportQueries
	case w.action == nil:
		return countQueries
	}
	return 1
}

// count returns how many rows the action makes of the source's, whether it can write them or not.
func (w work) count(rows []storage.Entity) (n int64) {
	for _, unit := range w.action.Split(rows) {
		n += int64(len(unit))
	}
	return n
}

// work returns the work of a request's action with what its map makes of the rows; source is nil if the rows come from an export. Its errors are [problem.Invalid].
func (e *Engine) work(r Request, source *storage.Table) (work, error) {
	w, err := e.plain(r, source)
	if err != nil || r.Action.Map == "" {
		return w, err
	}
	rows, err := r.Action.rows()
	if err != nil {
		return w, problem.Invalidf("action.map", "%v", err)
	}
	if w.raw = false; w.export != nil {
		w.kept = rows
	} else { // rows of one partition become those of others, so nothing is handed over
		w.action, w.packs = action.Mapped{Work: w.action, Map: rows.Rows, Limiter: &e.limiter}, false
	}
	return w, nil
}

// plain returns the work of a request's action without a map.
func (e *Engine) plain(r Request, source *storage.Table) (work, error) {
	switch r.Action.Type {
	case Copy:
		if r.exports() {
			return e.exportTo(*r.Action.Destination)
		}
		w, err := e.writing(r.Action)
		w.action = action.Copy{Destination: w.destination, Mode: r.Action.Mode}
		w.packs, w.properties, w.raw = true, true, true
		return w, err
	case Keys:
		w, err := e.writing(r.Action)
		w.action = copyKeys{action.Copy{Destination: w.destination}, cmp.Or(r.Source.Table, r.Source.Container)}
		return w, err
	case Delete:
		if source == nil {
			return work{}, problem.Invalidf("source.container", "has an export, which never changes; delete deletes rows of a table")
		}
		if err := e.checkTable("source", source); err != nil {
			return work{}, err
		}
		return work{
			action: action.Delete{Table: source}, what: "delete rows", deletes: true,
			missing: func(ctx context.Context) (bool, error) {
				return false, refusal("source", "the Table service refuses to delete from it; check the connection and its permissions", source.MayDelete(ctx))
			},
		}, nil
	case Enqueue:
		return e.enqueue(*r.Action.Queue, r.Action.Message)
	}
	return work{}, nil
}

// writing returns the work of an action that writes to a destination.
func (e *Engine) writing(a Action) (work, error) {
	const field = "action.destination"
	account, err := e.account(field, a.Destination.Connection)
	if err != nil {
		return work{}, err
	}
	destination := account.Table(a.Destination.Table)
	return work{
		what:        "write to the destination",
		destination: destination,
		prepare:     func(ctx context.Context) error { return createDestination(ctx, destination) },
		missing: func(ctx context.Context) (bool, error) {
			exists, err := destination.MayWrite(ctx)
			return !exists, refusal(field, "the Table service refuses to write to it; check the name, the connection and its permissions", err)
		},
	}, e.checkTable(field, destination)
}

func (e *Engine) enqueue(ref QueueRef, message string) (work, error) {
	a, err := e.account("action.queue", ref.Connection)
	if err == nil {
		err = e.checkQueue("action.queue", a, ref.Name)
	}
	if err != nil {
		return work{}, err
	}
	q, err := a.Queue(ref.Name)
	if err != nil {
		return work{}, problem.Invalidf("action.queue", "%v", err)
	}
	template, err := action.ParseTemplate(cmp.Or(message, action.WholeRow))
	if err != nil {
		return work{}, problem.Invalidf("action.message", "%v", err)
	}
	return work{
		action:     action.Enqueue{Queue: q, Message: template},
		what:       "enqueue messages",
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
func (c copyKeys) Split(rows []storage.Entity) [][]storage.Entity {
	var keys []storage.Entity
	for _, row := range rows {
		if n := len(keys); n == 0 || keys[n-1].Key.Row != row.Key.Partition {
			keys = append(keys, storage.Entity{Key: key.Key{Partition: c.source, Row: row.Key.Partition}})
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

// write does the scan's work with the rows and adds the result to done. It returns the rows that
// could not be written. Over a broken one, all deliveries but the last fail.
func (o *opened) write(ctx context.Context, rows []storage.Entity, delivery int, done *ledger.Totals) ([]action.Failure, error) {
	options := o.options
	if o.request.Action.Type == Enqueue && options.Ask != nil { // what is not put now is put again by a retry, with all other messages
		if err := options.Ask(ctx); err != nil {
			return nil, err
		}
		options.Ask = nil
	}
	r, err := action.All(ctx, options, o.limiter, o.work.action, rows)
	if err != nil {
		return nil, fatalIfPermanent(o.work.what, err)
	}
	if i := slices.IndexFunc(r.Failed, func(f action.Failure) bool { return f.Broken }); i >= 0 && delivery < MaxDeliveries {
		return nil, fmt.Errorf("%s: %v", o.work.what, r.Failed[i])
	}
	done.Written, done.Failed = r.Written, int64(len(r.Failed))
	if len(r.Failed) > 0 {
		f := r.Failed[0]
		zerolog.Ctx(ctx).Warn().Int("rows", len(r.Failed)).Str("partitionKey", f.Key.Partition).Str("rowKey", f.Key.Row).Str("reason", f.Reason).Msg("rows failed; this is the first")
	}
	return r.Failed, nil
}
