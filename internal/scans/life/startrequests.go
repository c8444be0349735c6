package life

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
)

// A scan can be asked for by its id: a row in the ledger has its request, and any instance starts it. Who asks may die, and
// many may ask for the same scan, and start it: it is one scan. A scan that can't be started leaves the reason in that row.
// A command without the app's connections asks for a retry in the same way. Its row names the attempt that it follows, so it is one retry.

const (
	refusedKept  = 7 * 24 * time.Hour // how long the reason is kept
	startsAtOnce = 8                  // starts at once
	// settingsTime is how long instances with older settings may run beside newer ones, and can't open what these ask for.
	settingsTime = 15 * time.Minute
	startsTime   = time.Minute // for all of them; the next Maintain goes on
)

// RequestStart has an instance start a scan with an id, unless that exists or was asked for before. It makes a message for that;
// without it, Maintain starts the scan.
func (l *Life) RequestStart(ctx context.Context, id ledger.ScanID, r scans.Request) error {
	return l.requestStart(ctx, ledger.StartRequest{ID: id, Request: scans.JSON(r)})
}

func (l *Life) requestStart(ctx context.Context, a ledger.StartRequest) error {
	added, err := l.ledger.AddStartRequest(ctx, a)
	if err != nil || !added {
		return err
	}
	l.scans.SendStart(ctx, a.ID)
	return nil
}

// RequestCheckedStart has an instance start a new scan, after the checks of [Life.Start], which this process may lack the connections for. It
// returns the scan's id, and after an error as well: the request may have been recorded.
func (l *Life) RequestCheckedStart(ctx context.Context, r scans.Request) (ledger.ScanID, error) {
	now, err := l.scans.Now(ctx)
	if err != nil {
		return "", err
	}
	id := ledger.NewScanID(now)
	return id, l.requestStart(ctx, ledger.StartRequest{ID: id, Request: scans.JSON(r), Kind: ledger.CheckedStart})
}

// RequestRetry has an instance retry a scan, as [Life.Retry] or [Life.RetryFailed] do. It refuses what the ledger alone shows to be wrong.
func (l *Life) RequestRetry(ctx context.Context, id ledger.ScanID, rows bool) error {
	s, may, err := l.mayRetry(ctx, id, rows, 0)
	if err != nil || !may {
		return err
	}
	a := ledger.StartRequest{ID: id, Kind: ledger.Retry, Attempt: s.Attempt}
	if rows {
		a.Kind = ledger.RetryFailed
	}
	if err := l.ledger.PutRetryRequest(ctx, a); err != nil {
		return err
	}
	sendStart(ctx, l.scans, id)
	return nil
}

// sendStart sends the message for a start request. A member's message would be taken for its group's: Maintain fulfils its request.
func sendStart(ctx context.Context, by *scans.Scans, id ledger.ScanID) {
	if !id.IsMember() {
		by.SendStart(ctx, id)
	}
}

// sendStarts has the scans started that were asked for: they may have waited for the end of another one.
func (l *Life) sendStarts(ctx context.Context) {
	all, err := l.ledger.StartRequests(ctx)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("scans that were asked for not read; Maintain will start them")
	}
	for _, a := range all {
		if a.Refused == "" {
			sendStart(ctx, l.scans, a.ID)
		}
	}
}

// StartRequested starts a scan that was asked for, or a group's member that was begun, unless another instance has done it.
func (l *Life) StartRequested(ctx context.Context, id ledger.ScanID) error {
	if group, number, ok := id.InGroup(); ok {
		return l.startMember(ctx, group, number)
	}
	a, found, err := l.ledger.StartRequest(ctx, id)
	if err != nil || !found {
		return err
	}
	return l.tryStart(ctx, a)
}

// tryStart starts or retries a scan that was asked for, or keeps the reason why it can't.
func (l *Life) tryStart(ctx context.Context, a ledger.StartRequest) error {
	if a.Refused != "" {
		if a.Age < refusedKept {
			return nil
		}
		return l.ledger.DropStartRequest(ctx, a)
	}
	turn, err := starts, error(nil)
	if a.Kind.Retry() {
		err = l.retry(ctx, a.ID, a.Kind == ledger.RetryFailed, a.Attempt)
	} else if turn, err = l.turnOf(ctx, a.ID); err == nil && turn == starts {
		err = l.startStored(ctx, a)
	}
	switch {
	case err == nil && turn == waits:
		return nil
	case err == nil:
		return l.ledger.DropStartRequest(ctx, a)
	case problem.Of(err).Kind == problem.Stale: // an instance of a newer version starts it
		return nil
	case !refused(err, a.Age):
		return fmt.Errorf("start scan %s, which was asked for: %w", a.ID, err)
	}
	zerolog.Ctx(ctx).Error().Err(err).Str("scan", string(a.ID)).Msg("scan refused that was asked for")
	return l.ledger.RefuseStart(ctx, a, scans.Shortened(err.Error()))
}

// refused reports whether an error of a start, which somebody wanted so long ago, is its refusal: no later try is worth while.
func refused(err error, age time.Duration) bool {
	if errors.As(err, new(*unopenedError)) && !errors.As(err, new(*scans.OwnError)) {
		return age >= settingsTime
	}
	return age >= maxLost || problem.FateOf(err) != problem.Retry
}

// startStored starts the scan of a stored request, unless it exists.
func (l *Life) startStored(ctx context.Context, a ledger.StartRequest) error {
	_, err := l.ledger.Scan(ctx, a.ID)
	if !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	r, err := scans.ParseStored(a.Request)
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		return err
	}
	if a.Kind != ledger.CheckedStart {
		return l.startNow(ctx, a.ID, r, nil)
	}
	refusal := l.startNow(ctx, a.ID, r, l.checker.mayOverwrite)
	if refusal == nil {
		return nil
	}
	if _, err := l.ledger.Scan(ctx, a.ID); err == nil { // another instance has started it: the rows may be its own
		return nil
	}
	if unopened := (*unopenedError)(nil); errors.As(refusal, &unopened) { // somebody waits for the reason
		return unopened.error
	}
	return refusal
}

// startNow starts a scan under an id. may is that of [Life.launch].
func (l *Life) startNow(ctx context.Context, id ledger.ScanID, r scans.Request, may func(context.Context, *scans.RunnableScan) error) error {
	ctx, cancel := context.WithTimeout(ctx, scans.StartTime)
	defer cancel()
	_, err := l.launch(ctx, r, id, may)
	return err
}
