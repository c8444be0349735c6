package ledger

import (
	"context"
	"fmt"
	"time"

	"tablesweep/internal/storage"
)

// limitsRow is a row of a scan with limits: what its steps have used, and Next.
const limitsRow = "y"

// Used is what the steps of a scan with limits, or of a group with them, have used.
type Used struct {
	Steps, Rows, Requests int64
	Waiting               int64     // steps with a slot that are not done
	Next                  time.Time // when a step might begin if none were waiting, by the service's clock; zero before the first

	etag string
}

// Used reads what the steps of a scan have used.
func (l ScanData) Used(ctx context.Context, id ScanID) (Used, error) {
	e, _, err := l.get(ctx, fmt.Sprintf("read what scan %s has used", id), string(id), limitsRow)
	return Used{e.Int("Steps"), e.Int("Rows"), e.Int("Requests"), e.Int("Waiting"), e.Time("Next"), e.ETag}, err
}

// Use records what the steps of a scan have used. It reports false if another process has done so since u was read.
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
