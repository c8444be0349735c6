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
	added, err := l.ledger.AddStartRequest(ctx, id, scans.JSON(r))
	if err != nil || !added {
		return err
	}
	l.scans.SendStart(ctx, id)
	return nil
}

// sendStarts has the scans started that were asked for: they may have waited for the end of another one.
func (l *Life) sendStarts(ctx context.Context) {
	all, err := l.ledger.StartRequests(ctx)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("scans that were asked for not read; Maintain will start them")
	}
	for _, a := range all {
		if a.Refused == "" {
			l.scans.SendStart(ctx, a.ID)
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

// tryStart starts a scan that was asked for, or keeps the reason why it can't be started.
func (l *Life) tryStart(ctx context.Context, a ledger.StartRequest) error {
	if a.Refused != "" {
		if a.Age < refusedKept {
			return nil
		}
		return l.ledger.DropStartRequest(ctx, a.ID)
	}
	turn, err := l.turnOf(ctx, a.ID)
	if err == nil && turn == starts {
		err = l.startStored(ctx, a.ID, a.Request)
	}
	switch {
	case err == nil && turn == waits:
		return nil
	case err == nil:
		return l.ledger.DropStartRequest(ctx, a.ID)
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

// startStored starts the scan of a stored request under an id, unless it exists.
func (l *Life) startStored(ctx context.Context, id ledger.ScanID, request []byte) error {
	_, err := l.ledger.Scan(ctx, id)
	if !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	r, err := scans.ParseStored(request)
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		return err
	}
	return l.startNow(ctx, id, r)
}

// startNow starts a scan under an id.
func (l *Life) startNow(ctx context.Context, id ledger.ScanID, r scans.Request) error {
	ctx, cancel := context.WithTimeout(ctx, scans.StartTime)
	defer cancel()
	_, err := l.launch(ctx, r, id, nil)
	return err
}
