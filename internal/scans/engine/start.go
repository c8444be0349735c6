package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/action"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
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
	if err := probe(ctx, o, now); err != nil || o.other == nil {
		return o, err
	}
	return o, probeOther(ctx, o)
}

// probe reads one row of the source with the request's filter and properties. An export has no clock of its own: it is read now.
func probe(ctx context.Context, o *opened, now time.Time) error {
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

// savedHints gives o the hints of an earlier scan of the same rows, and returns them packed. It drops unusable ones.
func (e *Engine) savedHints(ctx context.Context, o *opened) (packed []byte, err error) {
	if source, ok := o.source.(storage.Hinted); ok {
		return o.useHints(source), nil
	}
	packed, err = e.ledger.SavedHints(ctx, o.hintsName())
	if err != nil {
		return nil, err
	}
	if err := o.use(packed); err != nil {
		warnOfHints(ctx, err)
		return nil, nil
	}
	return packed, nil
}

// tablesOf returns the tables of a group, by name: those of an account or of an export of many tables.
func (e *Engine) tablesOf(ctx context.Context, id string, r Request) (names []string, err error) {
	if of, ok := strings.CutSuffix(id, verification); ok {
		if names, err = e.copied(ctx, of, r); !errors.Is(err, ledger.ErrNotFound) {
			return names, err
		}
	}
	if r.Source.Container == "" {
		var a *storage.Account
		if a, err = e.account("source", r.Source.Connection); err == nil {
			err = a.TableNames(ctx, func(name string) error {
				if !strings.HasPrefix(name, "$") && e.hostsTable(a.Table(name)) == "" {
					names = append(names, name)
				}
				return nil
			})
		}
		err = refusal("source", "the Table service refuses to list its tables; check the connection and its permissions", err)
	} else {
		var from *place.Blobs
		if _, from, err = e.blobs("source", r.Source); err == nil {
			names, err = exportsIn(ctx, from, r.Source.Tables == "*")
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !r.takesTable(name) })
	slices.Sort(names)
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0:
		return nil, problem.NotFoundf("source.tables", "no table there matches %s", secret.Name(r.Source.Tables))
	case len(names) > maxMembers:
		return nil, problem.Invalidf("source.tables", "%d tables match; %d are the most: use patterns that match fewer", len(names), maxMembers)
	}
	return names, nil
}

// copied returns the tables that a group has copied. Who proves its export asks tables.json; if that can't be read, the proof fails at its end.
func (e *Engine) copied(ctx context.Context, group string, r Request) (names []string, err error) {
	if r.Action.Proof {
		var from *place.Blobs
		if _, from, err = e.blobs("action.destination", *r.Action.Destination); err != nil {
			return nil, err
		}
		if names, err = exportsIn(ctx, from, true); err == nil || storage.Passing(err) {
			return names, err
		}
	}
	g, err := e.ledger.Group(ctx, group)
	if err == nil {
		err = json.Unmarshal(g.Tables, &names)
	}
	return names, err
}

// exportsIn returns the names of the exports in a place. whole demands that it is a complete export of many tables.
func exportsIn(ctx context.Context, from *place.Blobs, whole bool) (names []string, err error) {
	if !whole {
		names, err = place.ExportsIn(ctx, from)
		return names, unreadable("source", err)
	}
	all, err := place.OpenTables(ctx, from)
	for _, t := range all.Tables {
		names = append(names, t.Name)
	}
	return names, unreadable("source", err)
}

const maxMembers = 5000

// lookAtOnce is how many tables are looked at at once before a copy of many.
const lookAtOnce = 32

// mayOverwrite refuses a copy of many tables that would write over rows, unless its request says that it may. A scan that has started is not
// checked: what it writes itself is no rows of others.
func (e *Engine) mayOverwrite(ctx context.Context, o *opened) error {
	r := o.request
	if !r.overExisting() || r.Action.Overwrite || r.Action.Mode == action.Skip || r.Action.Mode == action.Fail {
		return nil
	}
	to, err := e.account("action.destination", r.Action.Destination.Connection)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(o.tables), func(name string) bool { return e.checkTable("", to.Table(name)) != nil }) // which are left out
	there, err := to.Look(ctx, others, lookAtOnce)
	if err != nil {
		return refusal("action.destination", "the Table service refuses to read its tables; check the connection and its permissions", err)
	}
	if full := storage.WithRows(there); full != nil {
		return problem.Conflictf("action.overwrite", "must be true to write over rows: %d of %d tables have some (%s); mode skip keeps them", len(full), len(o.tables), problem.Named(full, namedMembers))
	}
	return nil
}

// verificationOf returns the request for the scan that verifies a copy. An export is proved; what differs in the source by then is told.
func verificationOf(r Request) Request {
	r.Verify = false
	r.Action.Type, r.Action.Proof, r.Action.AllowExtra = Verify, r.exports(), !r.exports()
	return r
}
