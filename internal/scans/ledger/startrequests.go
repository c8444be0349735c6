package ledger

import (
	"context"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// A start request has the key r|ID, in the partition of the lists.
const startRequestPrefix = "r|"

// kindVersion is the version of a row with the property Kind. Programs that do not know Kind would start a scan without
// the checks that a [CheckedStart] needs. These programs do not know kindVersion either, so they ignore the row.
const kindVersion = 2

// StartKind is the kind of a start request.
type StartKind string

// The kinds of start requests.
const (
	Start        StartKind = ""            // the request was checked before, or needs no check
	CheckedStart StartKind = "check"       // the app checks the request, as POST /api/scans does
	Retry        StartKind = "retry"       // of the pending steps
	RetryFailed  StartKind = "retryFailed" // retries the pending steps and the failed rows
)

// Retry reports whether the request is for a retry.
func (a StartKind) Retry() bool { return a == Retry || a == RetryFailed }

// Requests reads and writes start requests.
type Requests struct{ rows }

// StartRequest is a request to start or retry the scan with a given id. Any instance may fulfil it.
type StartRequest struct {
	ID      ScanID
	Request []byte // opaque, JSON; empty for a retry
	Kind    StartKind
	Attempt int64         // the attempt to retry; 0 for a start
	Refused string        // why the request was refused, or ""
	Age     time.Duration // time since the request was made or refused, by the service's clock

	etag string
}

// AddStartRequest requests a start. It inserts a row and never replaces one, so any process may repeat the call. If the
// row already exists, `added` is false. The row may come from another call, or from an earlier try of this call.
func (l Requests) AddStartRequest(ctx context.Context, a StartRequest) (added bool, err error) {
	err = l.write(ctx, "record the start request of scan "+string(a.ID), a.row(storage.Insert))
	if storage.Conflict(err) {
		return false, nil
	}
	return err == nil, err
}

// PutRetryRequest requests a retry. It replaces an earlier request for the scan, for example a refused one.
func (l Requests) PutRetryRequest(ctx context.Context, a StartRequest) error {
	return l.write(ctx, "request a retry of scan "+string(a.ID), a.row(storage.Replace))
}

func (a StartRequest) row(kind storage.OpKind) storage.Op {
	properties := []storage.Property{storage.Int64Property("Version", version), storage.BinaryProperty("Request", a.Request)}
	if a.Kind != Start {
		properties[0] = storage.Int64Property("Version", kindVersion)
		properties = append(properties, storage.StringProperty("Kind", string(a.Kind)))
	}
	if a.Kind.Retry() {
		properties[1] = storage.Int64Property("Attempt", a.Attempt)
	}
	return op(kind, scansPartition, startRequestPrefix+string(a.ID), properties...)
}

func readable(e storage.Entity) bool {
	v := e.Int("Version")
	return v == version || v == kindVersion
}

// StartRequests returns up to a thousand start requests. It omits start requests that a newer version of the program
// has written.
func (l Requests) StartRequests(ctx context.Context) (all []StartRequest, err error) {
	p, err := l.query(ctx, "list start requests", storage.Query{Range: key.WithPrefix(scansPartition, startRequestPrefix)})
	for _, e := range p.Entities() {
		if readable(e) {
			all = append(all, startRequestOf(e, p.Date))
		}
	}
	return all, err
}

// StartRequest returns the request for a scan. It reports false if there is none.
func (l Requests) StartRequest(ctx context.Context, id ScanID) (StartRequest, bool, error) {
	e, found, err := l.get(ctx, "read the request for scan "+string(id), scansPartition, startRequestPrefix+string(id))
	if err != nil || !found || !readable(e) {
		return StartRequest{}, false, err
	}
	return startRequestOf(e, e.Timestamp), true, nil
}

func startRequestOf(e storage.Entity, now time.Time) StartRequest {
	return StartRequest{
		ID: ScanID(strings.TrimPrefix(e.Key.Row, startRequestPrefix)), Request: e.Bytes("Request"), Kind: StartKind(e.Get("Kind")), Attempt: e.Int("Attempt"),
		Refused: e.Get("Error"), Age: now.Sub(e.Timestamp), etag: e.ETag,
	}
}

// RefuseStart records why a request was refused.
func (l Requests) RefuseStart(ctx context.Context, a StartRequest, reason string) error {
	refused := op(storage.Merge, scansPartition, startRequestPrefix+string(a.ID), storage.StringProperty("Error", reason))
	refused.IfMatch = a.etag
	return unlessOvertaken(l.write(ctx, "refuse scan "+string(a.ID), refused))
}

// DropStartRequest removes the request `a`. If `a.Refused` is empty, it removes the request even if another process has
// refused or repeated the request since `a` was read. Otherwise, it removes the request only if the request's row has
// not changed since `a` was read. DropStartRequest keeps a newer request that has another kind or is for another attempt.
func (l Requests) DropStartRequest(ctx context.Context, a StartRequest) error {
	for {
		err := l.write(ctx, "answer the request for scan "+string(a.ID), unlist(startRequestPrefix+string(a.ID), a.etag))
		if err == nil || !overtaken(err) {
			return err
		}
		there, found, err := l.StartRequest(ctx, a.ID)
		if err != nil || !found || a.Refused != "" || there.Kind != a.Kind || there.Attempt != a.Attempt {
			return err
		}
		a = there
	}
}

// CanceledStart is the reason in a start request that was refused because the scan was canceled.
const CanceledStart = "canceled before it began"

// WithdrawStart refuses a command's request to start a scan, with the reason [CanceledStart], and reports whether the
// request is now refused for this reason. An instance that read the request before the refusal may still start the
// scan. In that case, the instance must cancel the scan.
func (l Requests) WithdrawStart(ctx context.Context, id ScanID) (bool, error) {
	a, found, err := l.StartRequest(ctx, id)
	if err == nil && found && a.Kind == CheckedStart && a.Refused == "" {
		if err = l.RefuseStart(ctx, a, CanceledStart); err == nil {
			a, _, err = l.StartRequest(ctx, id)
		}
	}
	return a.Refused == CanceledStart, err
}

// WithdrawRetry removes the request to retry an ended scan, unless the request was refused. It reports whether it has
// removed the request. After the removal, it also writes the scan's row, so that an instance with an older copy of
// the row cannot begin the retry.
func (l *Ledger) WithdrawRetry(ctx context.Context, id ScanID) (bool, error) {
	a, found, err := l.StartRequest(ctx, id)
	if err != nil || !found || !a.Kind.Retry() || a.Refused != "" {
		return false, err
	}
	if err := l.DropStartRequest(ctx, a); err != nil {
		return false, err
	}
	s, err := l.Scan(ctx, id)
	if err != nil || s.State == Running {
		return true, err
	}
	same := op(storage.Merge, id, scanRow, storage.StringProperty("State", string(s.State)))
	same.IfMatch = s.etag
	return true, unlessOvertaken(l.write(ctx, "withdraw the retry of scan "+string(id), same))
}

// DropStart removes the request to start a scan, but not a request to retry it.
func (l Requests) DropStart(ctx context.Context, id ScanID) error {
	a, found, err := l.StartRequest(ctx, id)
	if err != nil || !found || a.Kind.Retry() {
		return err
	}
	return l.DropStartRequest(ctx, a)
}
