package ledger

import (
	"context"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// startRequestPrefix begins the list of scans that are to be started, in the partition of the lists: r|ID.
const startRequestPrefix = "r|"

// Requests has the rows of scans that are to be started.
type Requests struct{ rows }

// StartRequest is a request for a scan that some instance is to start, by its id.
type StartRequest struct {
	ID      ScanID
	Request []byte        // opaque, JSON
	Refused string        // why it was not started; empty unless it was refused
	Age     time.Duration // since it was asked for, or refused; by the service's clock

	etag string
}

// AddStartRequest asks for a scan. It inserts and never replaces: everybody may ask, and again. added is false if somebody had asked
// before, perhaps a first try of this call.
func (l Requests) AddStartRequest(ctx context.Context, id ScanID, request []byte) (added bool, err error) {
	err = l.write(ctx, "ask for scan "+string(id), op(storage.Insert, scansPartition, startRequestPrefix+string(id),
		storage.Int64Property("Version", version), storage.BinaryProperty("Request", request)))
	if storage.Conflict(err) {
		return false, nil
	}
	return err == nil, err
}

// StartRequests returns scans that were asked for, at most a thousand. It leaves out those of a newer version.
func (l Requests) StartRequests(ctx context.Context) (all []StartRequest, err error) {
	p, err := l.query(ctx, "list scans that were asked for", storage.Query{Range: key.WithPrefix(scansPartition, startRequestPrefix)})
	for _, e := range p.Entities() {
		if e.Int("Version") == version {
			all = append(all, startRequestOf(e, p.Date))
		}
	}
	return all, err
}

// StartRequest returns the request for a scan. It reports false if there is none.
func (l Requests) StartRequest(ctx context.Context, id ScanID) (StartRequest, bool, error) {
	e, found, err := l.get(ctx, "read the request for scan "+string(id), scansPartition, startRequestPrefix+string(id))
	if err != nil || !found || e.Int("Version") != version {
		return StartRequest{}, false, err
	}
	return startRequestOf(e, e.Timestamp), true, nil
}

func startRequestOf(e storage.Entity, now time.Time) StartRequest {
	return StartRequest{
		ID: ScanID(strings.TrimPrefix(e.Key.Row, startRequestPrefix)), Request: e.Bytes("Request"), Refused: e.Get("Error"),
		Age: now.Sub(e.Timestamp), etag: e.ETag,
	}
}

// RefuseStart keeps the reason why a scan is not started.
func (l Requests) RefuseStart(ctx context.Context, a StartRequest, reason string) error {
	refused := op(storage.Merge, scansPartition, startRequestPrefix+string(a.ID), storage.StringProperty("Error", reason))
	refused.IfMatch = a.etag
	return unlessOvertaken(l.write(ctx, "refuse scan "+string(a.ID), refused))
}

// DropStartRequest removes the request for a scan that was started, or was refused long ago.
func (l Requests) DropStartRequest(ctx context.Context, id ScanID) error {
	return l.unlistInTurn(ctx, "answer the request for scan "+string(id), startRequestPrefix+string(id))
}
