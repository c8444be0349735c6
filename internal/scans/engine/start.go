package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/job/estimate"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/task"
)

// Start records a scan and sends its first message. It returns the scan's id. It first reads one row of the source,
// which finds a missing table or a bad filter at once, and creates the destination table or queue. An account that
// gives no good answer ends it after startTime.
func (e *Engine) Start(ctx context.Context, r Request) (string, error) {
	return e.StartOnce(ctx, r, claim.Sent{})
}

// StartOnce is Start for a request that may be sent again: a repetition gets the id of the scan that the first try has
// started, or starts it under that id. The claim has the id before the scan is recorded, and is kept as long as the scan.
// A request that is refused keeps its claim: another try of it may be starting the scan.
func (e *Engine) StartOnce(ctx context.Context, r Request, sent claim.Sent) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	once := sent.ID(string(jsonOf(r)))
	if once.None() {
		return e.start(ctx, r, "")
	}
	now, err := e.Now(ctx)
	if err != nil {
		return "", err
	}
	claims := e.claims()
	made, err := claims.TakeWith(ctx, once, ledger.NewID(now))
	if err != nil {
		return "", err
	}
	if made.Known {
		if _, err := e.ledger.Scan(ctx, made.Answer); !errors.Is(err, ledger.ErrNotFound) {
			return made.Answer, err
		}
		if now.Sub(made.Made) >= e.options.Retention { // the scan was removed, perhaps not yet with all of its rows
			if err := claims.Release(ctx, made); err != nil {
				return "", err
			}
			if made, err = claims.TakeWith(ctx, once, ledger.NewID(now)); err != nil {
				return "", err
			}
		}
	}
	return e.start(ctx, r, made.Answer)
}

// start launches a scan, and removes the request that its export has left for others to launch it.
func (e *Engine) start(ctx context.Context, r Request, id string) (string, error) {
	id, err := e.launch(ctx, r, id, e.mayOverwrite)
	if id != "" && r.exports() && (err == nil || problem.FateOf(err) != problem.Retry) {
		if err := e.ledger.Answered(ctx, id); err != nil {
			zerolog.Ctx(ctx).Debug().Err(err).Str("scan", id).Msg("request for a scan not removed; Maintain will")
		}
	}
	return id, err
}

// launch checks a request, and records its scan under an id; "" for a new one. may, unless nil, refuses a scan that is ready. launch returns the
// id if the scan may have been recorded.
func (e *Engine) launch(ctx context.Context, r Request, id string, may func(context.Context, *opened) error) (string, error) {
	o, err := e.check(ctx, r)
	if err != nil {
		return "", err
	}
	now, err := e.Now(ctx)
	if err != nil {
		return "", err
	}
	id = cmp.Or(id, ledger.NewID(now))
	hints, err := e.ready(ctx, id, o)
	if err == nil && may != nil {
		err = may(ctx, o)
	}
	if err != nil {
		return "", err
	}
	return id, e.create(ctx, id, now, o, hints)
}

// ready makes ready what the scan of a request that was checked needs: the destination, and hints.
func (e *Engine) ready(ctx context.Context, id string, o *opened) (hints []byte, err error) {
	if o.request.isGroup() {
		if o.tables, err = e.tablesOf(ctx, id, o.request); err != nil {
			return nil, err
		}
	}
	if o.prepare != nil {
		if err := o.prepare(ctx); err != nil {
			return nil, err
		}
	}
	if hints, err = e.savedHints(ctx, o); err != nil {
		return nil, err
	}
	if x := o.export(); x != nil { // in the end, each row comes from this one
		x.hash = x.content.Hash()
		o.request.Source.Export = x.hash
	}
	o.request.Action.MapHash = o.request.Action.mapHash()
	return hints, nil
}

// create records a scan that is ready under an id, and sends its first message. It may be repeated, by several at once.
func (e *Engine) create(ctx context.Context, id string, now time.Time, o *opened, hints []byte) error {
	if o.container != nil {
		if err := e.claim(ctx, o, id); err != nil {
			return err
		}
	}
	if o.request.isGroup() {
		if err := e.ledger.CreateGroup(ctx, id, now, jsonOf(o.request), jsonOf(o.tables), len(o.tables)); err != nil {
			return err
		}
		if err := e.tend(ctx, id, 0); err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Str("scan", id).Msg("scans of a group not started; Maintain will start them")
		}
		return nil
	}
	first := message{Scan: id, Step: o.strategy.Start(o.request.Range)}
	if err := first.seal(); err != nil {
		return err
	}
	if _, _, member := ledger.MemberOf(id); member { // a group of small tables has no other steps
		slot := []message{first}
		if err := e.takeSlots(ctx, o.request.Limits, id, 0, ledger.Totals{}, slot); err != nil {
			return err
		}
		first = slot[0]
	}
	err := e.ledger.Create(ctx, id, now, jsonOf(o.request), hints, first.pending(), first.ahead())
	if errors.Is(err, ledger.ErrLeftOut) { // this process was late, and has claimed the place anew
		return place.Withdraw(ctx, o.container, id)
	}
	if errors.Is(err, ledger.ErrScanLost) {
		return problem.Conflictf("id", "%v", ledger.ErrScanLost)
	}
	if err != nil {
		return err
	}
	// The scan is recorded now: if its message is lost, Maintain sends it.
	if err := e.send(ctx, first); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Str("scan", id).Msg("first message not sent; Maintain will send it")
	}
	return nil
}

// unopenedError is why a request can't be opened with this instance's settings.
type unopenedError struct{ error }

func (u *unopenedError) Unwrap() error { return u.error }

// check opens a request, and finds what would keep its scan from running or would do damage.
func (e *Engine) check(ctx context.Context, r Request) (*opened, error) {
	o, err := e.open(r)
	if err != nil {
		return nil, &unopenedError{err}
	}
	if d := o.destination; d != nil && o.table() != nil && d.Same(o.table()) {
		return nil, problem.Invalidf("action.destination", "is the source itself; name another table or connection")
	}
	now, err := e.Now(ctx)
	if err != nil {
		return nil, err
	}
	if r.isGroup() {
		o.began = now.UTC()
		return o, nil
	}
	if err := o.probe(ctx, now); err != nil || o.other == nil {
		return o, err
	}
	return o, o.probeOther(ctx)
}

// probe reads one row of the source with the request's filter and properties. An export has no clock of its own: it is read now.
func (o *opened) probe(ctx context.Context, now time.Time) error {
	r := o.request
	if x := o.export(); x != nil {
		o.began = now.UTC()
		return x.probe(ctx, "source", r)
	}
	p, _, err := o.source.Read(ctx, storage.RequestOptions{}, storage.Query{Range: r.Range.Range(), Filter: r.Filter, Select: r.Select, Top: 1})
	switch {
	case err == nil:
		o.began = p.Date
		return nil
	case r.Action.Proof && storage.Gone(err): // see [perhaps]
		return nil
	case storage.NotFound(err):
		return &goneError{problem.NotFoundf("source.table", "table %s does not exist in that account", r.Source.Table).Because(err)}
	case storage.BeingDeleted(err):
		return &goneError{problem.BeingDeleted("source.table", err)}
	case storage.Permanent(err) && r.Filter != "" && !storage.Denied(err):
		// Without the range, the service counts positions in the text that the caller wrote.
		if _, _, alone := o.source.Read(ctx, storage.RequestOptions{}, storage.Query{Filter: r.Filter, Top: 1}); storage.Permanent(alone) {
			err = alone
		}
		return problem.Invalidf("filter", "the Table service refuses it").Because(err)
	}
	return refusal("source", "the Table service refuses to read it; check the connection and its permissions", err)
}

// createDestination creates the table unless it exists. Who may not create tables can do with one that can be read.
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
	return refusal("action.destination", "the Table service refuses to create it; check the name, the connection and its permissions", err)
}

// estimateTime bounds an estimate's count: its caller waits for it.
const estimateTime = 20 * time.Second

// ledgerRequests is how many requests a step makes to the ledger and the queues.
const ledgerRequests = 3

// usualQueries is how many queries an invocation makes on the mean, about, where it may make more: it seldom finds as many steps.
const usualQueries = 2

// Estimate counts the rows that a scan would meet, and says what it would cost. It checks that it may write to the
// destination, and changes nothing. [estimate.Report] tells whether the time sufficed.
func (e *Engine) Estimate(ctx context.Context, r Request) (estimate.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if r.isGroup() {
		return estimate.Report{}, problem.Invalidf("source.tables", "can't be estimated; name one table")
	}
	o, err := e.check(ctx, r)
	if err != nil {
		return estimate.Report{}, err
	}
	creates := false
	if o.missing != nil {
		if creates, err = o.missing(ctx); err != nil {
			return estimate.Report{}, err
		}
	}
	rows := sweep.Spec{Source: o.source, Bounds: r.Range, Filter: r.Filter, PageRows: r.segmentSize(), Strategy: o.strategy}
	_, rows.Steal = o.strategy.(adaptive.Strategy)
	perStep := float64(ledgerRequests)
	if o.deletes() {
		perStep++ // to commit the deletion
	}
	if r.Limits != nil {
		perStep += slotRequests
	}
	work := estimate.Work{PerQuery: perStep / float64(min(o.queries, usualQueries)), Price: e.options.Price}
	if does := o.writes().action; does != nil {
		work.Writes = func(rows []storage.Row) int {
			if r.Action.Map != "" { // nobody knows what they become
				return len(rows)
			}
			return len(does.Split(rows))
		}
	}
	report, err := estimate.Count(ctx, rows, sweep.Options{}, estimateTime, work)
	if errors.Is(err, task.ErrInterrupted) {
		err = ctx.Err()
	}
	report.Creates = creates
	if r.Limits != nil && err == nil {
		report.LeastSeconds = r.Limits.takes(*report.Rows[0], report.Requests).Round(time.Second).Seconds()
	}
	return report, err
}
