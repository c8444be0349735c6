package engine

import (
	"context"
	"sync"
	"time"

	"tablesweep/internal/engine/ledger"
)

// detailTime is how old a scan's timeline and ranges may be. They are read together.
const detailTime = 15 * time.Second

// details caches snapshots of scans.
type details struct {
	mu   sync.Mutex // guards byID
	byID map[string]*detail
}

type detail struct {
	mu   sync.Mutex // guards the fields below; held while the scan is read
	at   time.Time
	scan ledger.Snapshot
}

// detail returns a scan's detail, at most detailTime old.
func (e *Engine) detail(ctx context.Context, id string) (ledger.Snapshot, error) {
	now := time.Now()
	e.details.mu.Lock()
	for old, d := range e.details.byID {
		if old != id && d.mu.TryLock() {
			if now.Sub(d.at) >= detailTime {
				delete(e.details.byID, old)
			}
			d.mu.Unlock()
		}
	}
	if e.details.byID == nil {
		e.details.byID = map[string]*detail{}
	}
	d := e.details.byID[id]
	if d == nil {
		d = &detail{}
		e.details.byID[id] = d
	}
	e.details.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.at) < detailTime {
		return d.scan, nil
	}
	found, err := e.ledger.Detail(ctx, id)
	if err != nil {
		return found, notFound(id, err)
	}
	d.at, d.scan = time.Now(), found
	return found, nil
}

// ended drops the snapshot of a scan from before its end.
func (d *details) ended(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if was := d.byID[id]; was != nil && was.mu.TryLock() { // else it is being read
		if was.scan.Scan.State == ledger.Running {
			was.at = time.Time{}
		}
		was.mu.Unlock()
	}
}
