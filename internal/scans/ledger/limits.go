package ledger

import (
	"context"
	"fmt"
	"time"

	"tablesweep/internal/storage"
)

const limitsRow = "y"

// Used records how much of the limits a scan or group has used.
type Used struct {
	Steps, Rows, Requests int64
	Waiting               int64     // steps that have a time slot and are not done
	Next                  time.Time // when a step may begin, by the service's clock, if no other step waits; zero before the first step

	etag string
}

// Used reads how much of the limits a scan has used.
func (l ScanData) Used(ctx context.Context, id ScanID) (Used, error) {
	e, _, err := l.get(ctx, fmt.Sprintf("read what scan %s has used", id), string(id), limitsRow)
	return Used{e.Int("Steps"), e.Int("Rows"), e.Int("Requests"), e.Int("Waiting"), e.Time("Next"), e.ETag}, err
}

// Use saves u. It reports false if another process has written the row since u was read.
func (l ScanData) Use(ctx context.Context, id ScanID, u Used) (bool, error) {
	row := op(storage.Replace, id, limitsRow, storage.Int64Property("Steps", u.Steps), storage.Int64Property("Rows", u.Rows),
		storage.Int64Property("Requests", u.Requests), storage.Int64Property("Waiting", u.Waiting), storage.TimeProperty("Next", u.Next))
	if row.IfMatch = u.etag; u.etag == "" {
		row.Kind = storage.Insert
	}
	err := l.write(ctx, fmt.Sprintf("record what scan %s has used", id), row)
	if storage.Conflict(err) {
		return false, nil
	}
	return err == nil, unlessOvertaken(err)
}
