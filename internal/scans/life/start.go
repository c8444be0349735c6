package life

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/stream/claim"
)

// Life starts, retries and ends scans and groups.
type Life struct {
	scans   *scans.Scans
	status  *status.Reader
	ledger  *ledger.Ledger
	checker *Checker
	exports *exports
}

// New returns the Life of these scans.
func New(of *scans.Scans, reader *status.Reader, checker *Checker) *Life {
	return &Life{scans: of, status: reader, ledger: of.Ledger, checker: checker, exports: &exports{of, of.Ledger}}
}

// Start records a scan, sends its first message, and returns its id. Before that, it creates the destination, and reads
// one row of the source, so that a missing table or a bad filter is found immediately. If an account does not answer,
// Start fails after [scans.StartTime].
func (l *Life) Start(ctx context.Context, r scans.Request) (ledger.ScanID, error) {
	return l.StartOnce(ctx, r, claim.Sent{})
}

// StartOnce starts a scan like [Life.Start], but only one scan even if the request is repeated. A repeated request gets
// the id that the first request got, and starts the scan if the first request did not. Before the scan is recorded, a
// claim records the scan's id. The claim is kept until the scan is removed. A refusal of the request does
// not remove the claim, because a repeated request may be starting the scan.
func (l *Life) StartOnce(ctx context.Context, r scans.Request, sent claim.Sent) (ledger.ScanID, error) {
	ctx, cancel := context.WithTimeout(ctx, scans.StartTime)
	defer cancel()
	once := sent.ID(string(scans.JSON(r)))
	if once.None() {
		return l.start(ctx, r, "")
	}
	now, err := l.scans.Now(ctx)
	if err != nil {
		return "", err
	}
	claims := l.claims()
	made, err := claims.TakeWith(ctx, once, string(ledger.NewScanID(now)))
	if err != nil {
		return "", err
	}
	if made.Known {
		id := ledger.ScanID(made.Answer)
		if _, err := l.ledger.Scan(ctx, id); !errors.Is(err, ledger.ErrNotFound) {
			return id, err
		}
		if now.Sub(made.Made) >= l.scans.Options.Retention { // the scan was removed, at least in part
			if err := claims.Release(ctx, made); err != nil {
				return "", err
			}
			if made, err = claims.TakeWith(ctx, once, string(ledger.NewScanID(now))); err != nil {
				return "", err
			}
		}
	}
	return l.start(ctx, r, ledger.ScanID(made.Answer))
}

// start launches a scan. If the scan is an export, start afterwards removes the start request made by exports.claim. But
// after an error that may be temporary, the start request stays, and another process can start the scan.
func (l *Life) start(ctx context.Context, r scans.Request, id ledger.ScanID) (ledger.ScanID, error) {
	id, err := l.launch(ctx, r, id, l.checker.mayOverwrite)
	if id != "" && r.Exports() && (err == nil || problem.FateOf(err) != problem.Retry) {
		if err := l.ledger.DropStart(ctx, id); err != nil {
			zerolog.Ctx(ctx).Debug().Err(err).Str("scan", string(id)).Msg("the start request was not removed; the function Maintain will remove it")
		}
	}
	return id, err
}

// launch checks a request, and records its scan under the id. If id is "", the scan gets a new id. Before the scan is
// recorded, the function `allow` can refuse it. If launch returns both an id and an error, the scan may have been
// recorded.
func (l *Life) launch(ctx context.Context, r scans.Request, id ledger.ScanID, allow func(context.Context, *scans.RunnableScan) error) (ledger.ScanID, error) {
	o, err := l.checker.check(ctx, r)
	if err != nil {
		return "", err
	}
	now, err := l.scans.Now(ctx)
	if err != nil {
		return "", err
	}
	id = cmp.Or(id, ledger.NewScanID(now))
	hints, err := l.checker.prepare(ctx, id, o)
	if err == nil && allow != nil {
		err = allow(ctx, o)
	}
	if err != nil {
		return "", err
	}
	return id, l.create(ctx, id, now, o, hints)
}

// create records a prepared scan, and sends its first message. Several processes may create the same scan.
func (l *Life) create(ctx context.Context, id ledger.ScanID, now time.Time, o *scans.RunnableScan, hints []byte) error {
	if o.Container != nil {
		if err := l.exports.claim(ctx, o, id); err != nil {
			return err
		}
	}
	if o.Request.IsGroup() {
		if err := l.ledger.CreateGroup(ctx, id, now, scans.JSON(o.Request), scans.JSON(o.Tables), len(o.Tables)); err != nil {
			return err
		}
		if err := l.advanceGroup(ctx, id, 0); err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Str("scan", string(id)).Msg("some scans of the group were not started; the function Maintain will start them")
		}
		return nil
	}
	first := scans.Message{Scan: id, Step: o.Strategy.Start(o.Request.Range)}
	if err := first.Prepare(); err != nil {
		return err
	}
	if id.IsMember() { // the limits must apply to the first step, because a small table has no other steps
		slot := []scans.Message{first}
		if err := l.scans.TakeSlots(ctx, o.Request.Limits, id, 0, ledger.Totals{}, slot); err != nil {
			return err
		}
		first = slot[0]
	}
	err := l.ledger.Create(ctx, id, now, scans.JSON(o.Request), hints, first.Pending(), first.Ahead())
	if errors.Is(err, ledger.ErrLeftOut) { // the group has left out the table, so the claim that was made above must be deleted
		return place.Withdraw(ctx, o.Container, place.ExportID(id))
	}
	if errors.Is(err, ledger.ErrScanLost) {
		return problem.Conflictf("id", "%v", ledger.ErrScanLost)
	}
	if err != nil {
		return err
	}
	// If the message cannot be sent, Maintain sends it later, because the scan is recorded.
	if err := l.scans.Send(ctx, first); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Str("scan", string(id)).Msg("the scan's first message was not sent; the function Maintain will send it")
	}
	return nil
}

// verificationOf returns the request for a copy's verification. If the copy is an export, the verification reports
// differences from the source, but does not fail because of them.
func verificationOf(r scans.Request) scans.Request {
	r.Verify, r.Action.Overwrite = false, false
	r.Action.Type, r.Action.Proof, r.Action.AllowExtra = scans.Verify, r.Exports(), !r.Exports()
	return r
}
