package ledger

import (
	"context"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// The one row of the partition "maintain" tells of Maintain's last run, of whichever process: in Poison how many
// messages the poison queues had, and in Error what went wrong.
const (
	maintainPartition = "maintain"
	maintainRow       = "last"
	maxMaintainError  = 1000 // characters
)

// Maintained tells of Maintain's last run.
type Maintained struct {
	At     time.Time // its end, by the service's clock; zero if it has never run
	Now    time.Time // the service's clock at the answer
	Poison int64     // messages in poison queues; they may be hidden
	Error  string    // "" if all went well
}

// Age returns how long ago the run ended.
func (m Maintained) Age() time.Duration { return m.Now.Sub(m.At) }

// NoteMaintained records that Maintain has run.
func (l *Ledger) NoteMaintained(ctx context.Context, poison int, failure error) error {
	properties := []storage.Property{storage.Int64Property("Poison", int64(poison))}
	if failure != nil {
		text := []rune(failure.Error())
		properties = append(properties, storage.StringProperty("Error", string(text[:min(len(text), maxMaintainError)])))
	}
	return l.write(ctx, "record that Maintain has run", op(storage.Replace, maintainPartition, maintainRow, properties...))
}

// Maintained reads when Maintain last ran, in one request.
func (l *Ledger) Maintained(ctx context.Context) (Maintained, error) {
	p, err := l.query(ctx, "read when Maintain last ran", storage.Query{Range: key.WithPrefix(maintainPartition, maintainRow), Top: 1})
	m := Maintained{Now: p.Date}
	for _, e := range p.Entities {
		m.At, m.Poison, m.Error = e.Timestamp, e.Int("Poison"), e.Get("Error")
	}
	return m, err
}
