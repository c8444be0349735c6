package host

import (
	"context"
	"errors"
	"time"

	"tablesweep/internal/app/envelope"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// The real host leases a blob for each timer, for a minute at a time. A host without the lease tries again once a minute (SingletonOptions of the WebJobs
// SDK). Here, the lease is a row, which also stores the schedule's state. The real host stores the state in another blob.
const (
	timerTable    = "azurewebjobshosts"
	timerPosition = "timers" // the rows' partition
	timerLease    = time.Minute
)

// lease is the right to run a timer. Only one of the hosts on a storage account holds the lease. The next holder of the
// lease also gets the schedule's state. All times come from the service's clock.
type lease struct {
	table  *storage.Table
	name   string // the function's name
	holder string // the id of this host
}

// errHeld means that another host has the lease.
var errHeld = errors.New("another host holds the timer's lease")

// take acquires or renews the lease, and returns the schedule's state. If `update` is not nil, take stores *update as the new state. If another host
// has the lease, the error is [errHeld].
func (l lease) take(ctx context.Context, update *envelope.Status) (envelope.Status, error) {
	partition, at := timerPosition, &key.Bound{Key: l.name}
	page, err := l.table.Query(ctx, storage.Query{Range: key.Range{Partition: &partition, Low: at, High: at}})
	if storage.NotFound(err) {
		if err = l.table.Create(ctx); err == nil {
			page, err = storage.Page{}, nil
		}
	}
	if err != nil {
		return envelope.Status{}, err
	}
	op := storage.Op{Kind: storage.Insert}
	var status envelope.Status
	if len(page.Rows) > 0 {
		row := page.Rows[0].Entity()
		holder := row.Get("Holder")
		if holder != l.holder && holder != "" && page.Date.Sub(row.Timestamp) < timerLease {
			return envelope.Status{}, errHeld
		}
		op = storage.Op{Kind: storage.Replace, IfMatch: row.ETag}
		status = envelope.Status{Last: row.Time("Last"), Next: row.Time("Next"), Updated: row.Time("Updated")}
	}
	if update != nil {
		status = *update
	}
	op.Row = l.row(l.holder, status)
	err = l.table.Write(ctx, op)
	if storage.HasCode(err, "EntityAlreadyExists", "UpdateConditionNotSatisfied") {
		return envelope.Status{}, errHeld
	}
	return status, err
}

// release ends the lease early, so that another host need not wait until the lease expires.
func (l lease) release(ctx context.Context, status envelope.Status) error {
	if _, err := l.take(ctx, nil); err != nil {
		return err
	}
	return l.table.Write(ctx, storage.Op{Kind: storage.Replace, Row: l.row("", status)})
}

func (l lease) row(holder string, s envelope.Status) storage.Row {
	e := storage.Entity{
		Key:        key.Key{Partition: timerPosition, Row: l.name},
		Properties: []storage.Property{storage.StringProperty("Holder", holder)},
	}
	for _, t := range []struct {
		name string
		at   time.Time
	}{{"Last", s.Last}, {"Next", s.Next}, {"Updated", s.Updated}} {
		if !t.at.IsZero() {
			e.Properties = append(e.Properties, storage.TimeProperty(t.name, t.at))
		}
	}
	return e.Row()
}
