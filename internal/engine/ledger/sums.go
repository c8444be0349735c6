package ledger

import (
	"time"

	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/storage"
)

// Totals are sums over the done steps.
type Totals struct {
	Steps        int64
	Rows         int64 // rows that steps yielded
	Written      int64 // rows that the action has written, or found as it wants them
	Failed       int64 // rows that could not be written
	Gone         int64 // of them, those that the source had no more when they were done again; Failed has them no more
	Queries      int64
	Transactions int64 // requests sent by steps, commit and messages included
	Throttled    int64 // of them, those that the storage throttled
}

func (t *Totals) add(d Totals) {
	t.Steps += d.Steps
	t.Rows += d.Rows
	t.Written += d.Written
	t.Failed += d.Failed
	t.Gone += d.Gone
	t.Queries += d.Queries
	t.Transactions += d.Transactions
	t.Throttled += d.Throttled
}

func totalsOf(e storage.Entity) Totals {
	return Totals{
		Steps: e.Int("Steps"), Rows: e.Int("Rows"), Written: e.Int("Written"), Failed: e.Int("Failed"), Gone: e.Int("Gone"),
		Queries: e.Int("Queries"), Transactions: e.Int("Transactions"), Throttled: e.Int("Throttled"),
	}
}

func (t Totals) properties() []storage.Property {
	p := []storage.Property{
		storage.Int64Property("Steps", t.Steps),
		storage.Int64Property("Rows", t.Rows),
		storage.Int64Property("Written", t.Written),
		storage.Int64Property("Failed", t.Failed),
		storage.Int64Property("Queries", t.Queries),
		storage.Int64Property("Transactions", t.Transactions),
		storage.Int64Property("Throttled", t.Throttled),
	}
	if t.Gone != 0 {
		p = append(p, storage.Int64Property("Gone", t.Gone))
	}
	return p
}

// Sums are what the done rows of a scan add up to.
type Sums struct {
	Totals
	Times Times
	Kept  int64     // failed rows that [Ledger.FailedRows] lists
	Last  time.Time // when the last step was done, by the service's clock; zero before

	children int64            // steps that became pending
	ahead    adaptive.Outlook // estimated work of these, less that of the done steps
}

// Pending returns how many steps are pending, and an estimate of their work.
func (s Sums) Pending() (steps int64, ahead adaptive.Outlook) {
	return s.children - s.Steps, s.ahead
}

// sumsOf returns the sums of one done row.
func sumsOf(e storage.Entity) Sums {
	s := Sums{
		Totals: totalsOf(e), Times: unpackTimes(e.Bytes("Times")), Kept: e.Int("Kept"), children: e.Int("Children"),
		ahead: adaptive.Outlook{Millipages: e.Int("Millipages"), Guessed: e.Int("Guessed"), Unknown: e.Int("Unknown")},
	}
	if s.Last = e.Time("LastAt"); !isFolded(e) && s.Steps > 0 {
		s.Last = e.Timestamp
	}
	if !isFolded(e) {
		s.Times.add(e.Timestamp, s.Totals)
	}
	return s
}

func (s *Sums) add(other Sums) {
	s.Totals.add(other.Totals)
	s.Times.plus(other.Times)
	s.Kept += other.Kept
	if other.Last.After(s.Last) {
		s.Last = other.Last
	}
	s.children += other.children
	s.ahead = s.ahead.Plus(other.ahead)
}

func (s Sums) properties() []storage.Property {
	p := s.Totals.properties()
	for _, n := range []struct {
		name  string
		value int64
	}{{"Kept", s.Kept}, {"Children", s.children}, {"Millipages", s.ahead.Millipages}, {"Guessed", s.ahead.Guessed}, {"Unknown", s.ahead.Unknown}} {
		if n.value != 0 {
			p = append(p, storage.Int64Property(n.name, n.value))
		}
	}
	return p
}

// sumColumns are the properties that sums are made of.
var sumColumns = []string{
	"Timestamp", "Steps", "Rows", "Written", "Failed", "Gone", "Queries", "Transactions", "Throttled",
	"Kept", "Children", "Millipages", "Guessed", "Unknown", "Times", "LastAt",
}
