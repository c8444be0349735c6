package engine

import (
	"context"
	"time"

	"tablesweep/internal/engine/ledger"
)

// detailTime is how old a scan's timeline and ranges may be. They are read together.
const detailTime = 15 * time.Second

// detail returns a scan's detail, at most detailTime old.
func (e *Engine) detail(ctx context.Context, id string) (ledger.Snapshot, error) {
	found, err := e.details.get(ctx, id, func(ledger.Snapshot) (ledger.Snapshot, error) { return e.ledger.Detail(ctx, id) })
	return found, notFound(id, err)
}

// detailEnded drops a scan's detail from before its end.
func (e *Engine) detailEnded(ended ledger.Scan) {
	e.details.outdate(ended.ID, func(s ledger.Snapshot) bool { return s.Scan.State == ledger.Running || s.Scan.Attempt < ended.Attempt })
}
