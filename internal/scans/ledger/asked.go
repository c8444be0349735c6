package ledger

import (
	"context"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// askedPrefix begins the list of scans that are to be started, in the partition of the lists: r|ID.
const askedPrefix = "r|"

// Requests has the rows of scans that are to be started.
type Requests struct{ rows }

// Asked is a request for a scan that some instance is to start, by its id.
type Asked struct {
	ID      ScanID
	Request []byte        // opaque, JSON
	Refused string        // why it was not started; empty unless it was refused
	Age     time.Duration // since it was asked for, or refused; by the service's clock

	etag string
}

// NoteStartRequest asks for a scan. It inserts and never replaces: everybody may ask, and again. asked is false if somebody had asked
// before, perhaps a first try of this call.
func (l Requests) NoteStartRequest(ctx context.Context, id ScanID, request []byte) (asked bool, err error) {
	err = l.write(ctx, "ask for scan "+string(id), op(storage.Insert, scansPartition, askedPrefix+string(id),
		storage.Int64Property("Version", version), storage.BinaryProperty("Request", request)))
	if storage.Conflict(err) {
		return false, nil
	}
	return err == nil, err
}

// Asked returns scans that were asked for, at most a thousand. It leaves out those of a newer version.
func (l Requests) Asked(ctx context.Context) (all []Asked, err error) {
	p, err := l.query(ctx, "list scans that were asked for", storage.Query{Range: key.WithPrefix(scansPartition, askedPrefix)})
	for _, e := range p.Entities() {
		if e.Int("Version") == version {
			all = append(all, askedOf(e, p.Date))
		}
	}
	return all, err
}

// AskedFor returns the request for a scan. It reports false if there is none.
func (l Requests) AskedFor(ctx context.Context, id ScanID) (Asked, bool, error) {
	e, found, err := l.get(ctx, "read the request for scan "+string(id), scansPartition, askedPrefix+string(id))
	if err != nil || !found || e.Int("Version") != version {
		return Asked{}, false, err
	}
	return askedOf(e, e.Timestamp), true, nil
}

func askedOf(e storage.Entity, now time.Time) Asked {
	return Asked{
		ID: ScanID(strings.TrimPrefix(e.Key.Row, askedPrefix)), Request: e.Bytes("Request"), Refused: e.Get("Error"),
		Age: now.Sub(e.Timestamp), etag: e.ETag,
	}
}

// Refuse keeps the reason why a scan is not started.
func (l Requests) Refuse(ctx context.Context, a Asked, reason string) error {
	refused := op(storage.Merge, scansPartition, askedPrefix+string(a.ID), storage.StringProperty("Error", reason))
	refused.IfMatch = a.etag
	return unlessOvertaken(l.write(ctx, "refuse scan "+string(a.ID), refused))
}

// Answered removes the request for a scan that was started, or was refused long ago.
func (l Requests) Answered(ctx context.Context, id ScanID) error {
	return l.unlistInTurn(ctx, "answer the request for scan "+string(id), askedPrefix+string(id))
}
