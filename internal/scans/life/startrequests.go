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

// Any instance may fulfil a start request. Several processes may request and start the same scan, but it starts only
// once. If the scan cannot be started, the reason is stored in the request's row. A request for a retry contains
// the number of the attempt that failed or was canceled, so the scan is retried only once.

const (
	refusedKept      = 7 * 24 * time.Hour // how long a refusal is kept
	concurrentStarts = 8
	// settingsTime is how long instances with older settings may still run. Such instances cannot handle requests that
	// need newer settings.
	settingsTime = 15 * time.Minute
	lateStart    = time.Hour   // if an instance starts a scan within this time after the withdrawal of its start request, Maintain cancels the scan
	startsTime   = time.Minute // the time limit for all starts in one run of Maintain; the next run makes the other starts
)

// RequestStart makes a start request for a scan with this id, unless one exists. It also sends a message. If the
// message is lost, Maintain starts the scan later.
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

// RequestCheckedStart makes a start request for a new scan. The caller's process may lack the scan's connections, so
// the instance that starts the scan makes the checks of [Life.Start]. Even if there is an error, the scan's id is
// returned, because the request may have been recorded.
func (l *Life) RequestCheckedStart(ctx context.Context, r scans.Request) (ledger.ScanID, error) {
	now, err := l.scans.Now(ctx)
	if err != nil {
		return "", err
	}
	id := ledger.NewScanID(now)
	return id, l.requestStart(ctx, ledger.StartRequest{ID: id, Request: scans.JSON(r), Kind: ledger.CheckedStart})
}

// RequestRetry requests a retry of a scan. If the argument `rows` is true, the failed rows are also retried.
// RequestRetry checks only what the ledger records. The instance that carries out the retry makes the other checks.
func (l *Life) RequestRetry(ctx context.Context, id ledger.ScanID, rows bool) error {
	s, retryable, err := l.mayRetry(ctx, id, rows, 0)
	if err != nil || !retryable {
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

// sendStart sends the message for a scan's start request. For a member, sendStart does nothing, because the group sends
// the member's message. If this message is lost, Maintain carries out the member's start request.
func sendStart(ctx context.Context, by *scans.Scans, id ledger.ScanID) {
	if !id.IsMember() {
		by.SendStart(ctx, id)
	}
}

// sendStarts is called after a scan has ended. It calls sendStart for each start request that was not refused,
// because any requested scan may have waited for this end.
func (l *Life) sendStarts(ctx context.Context) {
	all, err := l.ledger.StartRequests(ctx)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("the start requests were not read; the function Maintain will start their scans")
	}
	for _, a := range all {
		if a.Refused == "" {
			sendStart(ctx, l.scans, a.ID)
		}
	}
}

// StartRequested carries out a scan's start request, or starts a member that its group has begun. If another instance
// has started the scan, StartRequested does nothing.
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

// tryStart fulfils a start request, or records why it is refused.
func (l *Life) tryStart(ctx context.Context, a ledger.StartRequest) error {
	if a.Refused != "" {
		switch {
		case a.Refused == ledger.CanceledStart && a.Age < lateStart:
			return cancelStarted(ctx, l, a)
		case a.Age < refusedKept:
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
		if a.Kind == ledger.CheckedStart {
			now, _, err := l.ledger.StartRequest(ctx, a.ID)
			if err != nil {
				return err
			}
			if now.Refused == ledger.CanceledStart {
				return cancelStarted(ctx, l, now)
			}
		}
		return l.ledger.DropStartRequest(ctx, a)
	case problem.Of(err).Kind == problem.Stale: // an instance of a newer version starts the scan
		return nil
	case !refused(err, a.Age):
		return fmt.Errorf("start the requested scan %s: %w", a.ID, err)
	}
	zerolog.Ctx(ctx).Error().Err(err).Str("scan", string(a.ID)).Msg("a start request was refused")
	return l.ledger.RefuseStart(ctx, a, scans.Shortened(err.Error()))
}

// cancelStarted cancels a scan that an instance started although its request was withdrawn, and then removes the
// request.
func cancelStarted(ctx context.Context, l *Life, a ledger.StartRequest) error {
	_, err := l.ledger.Scan(ctx, a.ID)
	if err == nil {
		err = l.Cancel(ctx, a.ID)
	}
	switch {
	case errors.Is(err, ledger.ErrNotFound): // the scan was not started
		return nil
	case err != nil && problem.Of(err).Kind != problem.Conflict: // a Conflict means that the scan has ended
		return err
	}
	return l.ledger.DropStartRequest(ctx, a)
}

// refused reports whether this error refuses a start request of this age. The result is false while later tries may
// succeed.
func refused(err error, age time.Duration) bool {
	if errors.As(err, new(*unopenedError)) && !errors.As(err, new(*scans.OwnError)) {
		return age >= settingsTime
	}
	return age >= maxLost || problem.FateOf(err) != problem.Retry
}

// startStored starts the scan of a stored request, unless the scan exists.
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
	if _, err := l.ledger.Scan(ctx, a.ID); err == nil { // another instance has started this scan, so the rows that caused the refusal may be the scan's own rows
		return nil
	}
	if unopened := (*unopenedError)(nil); errors.As(refusal, &unopened) { // refuse immediately; a caller waits for the reason
		return unopened.error
	}
	return refusal
}

// startNow starts a scan with the given id. See launch for the argument `allow`.
func (l *Life) startNow(ctx context.Context, id ledger.ScanID, r scans.Request, allow func(context.Context, *scans.RunnableScan) error) error {
	ctx, cancel := context.WithTimeout(ctx, scans.StartTime)
	defer cancel()
	_, err := l.launch(ctx, r, id, allow)
	return err
}
