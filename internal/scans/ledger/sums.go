package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// Totals are sums over the done steps.
type Totals struct {
	Steps        int64
	Rows         int64 // processed by steps
	Written      int64 // including rows that already had the intended content
	Failed       int64 // rows that could not be written
	Gone         int64 // failed rows that were no longer in the source at their retry; not in Failed
	Queries      int64
	Transactions int64 // requests sent by steps, including commits and messages
	Throttled    int64 // requests that the storage throttled

	Missing, Extra, Different int64 // rows that differ in a comparison
}

// Differences returns how many rows differ.
func (t Totals) Differences() int64 { return t.Missing + t.Extra + t.Different }

type count struct {
	name     string
	n        *int64
	optional bool // if a row lacks the property, the count is 0
}

func (t *Totals) counts() []count {
	return []count{
		{"Steps", &t.Steps, false}, {"Rows", &t.Rows, false}, {"Written", &t.Written, false}, {"Failed", &t.Failed, false},
		{"Queries", &t.Queries, false}, {"Transactions", &t.Transactions, false}, {"Throttled", &t.Throttled, false},
		{"Gone", &t.Gone, true}, {"Missing", &t.Missing, true}, {"Extra", &t.Extra, true}, {"Different", &t.Different, true},
	}
}

func totalsOf(e storage.Entity) (t Totals) {
	readCounts(t.counts(), e)
	return t
}

func readCounts(counts []count, e storage.Entity) {
	for _, c := range counts {
		*c.n = e.Int(c.name)
	}
}

func properties(counts []count) (p []storage.Property) {
	for _, c := range counts {
		if *c.n != 0 || !c.optional {
			p = append(p, storage.Int64Property(c.name, *c.n))
		}
	}
	return p
}

// Sums are sums over a scan's done rows.
type Sums struct {
	Totals
	Times Times
	Kept  int64     // failed rows that [Ledger.FailedRows] lists
	Last  time.Time // when the last step was done, by the service's clock; zero if none is done

	children int64        // how many steps have become pending
	ahead    scan.Outlook // the estimated work of the pending steps: the work of all children, minus the work of the done steps
	balance  int64        // the sum of the hashes of the children's ids, minus the sum of the hashes of the done steps' ids; an overflow is harmless
}

// Pending returns the number of pending steps, and an estimate of their work.
func (s Sums) Pending() (steps int64, ahead scan.Outlook) {
	return s.children - s.Steps, s.ahead
}

func hashOf(step StepID) int64 {
	sum := sha256.Sum256([]byte(step))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

func (s *Sums) counts() []count {
	return append(s.Totals.counts(), count{"Kept", &s.Kept, true}, count{"Children", &s.children, true},
		count{"Millipages", &s.ahead.Millipages, true}, count{"Unknown", &s.ahead.Unknown, true}, count{"Balance", &s.balance, false})
}

var sumColumns = func() []string {
	columns := []string{"Timestamp", "Times", "LastAt"}
	for _, c := range new(Sums).counts() {
		columns = append(columns, c.name)
	}
	return columns
}()

func sumsOf(e storage.Entity) (s Sums) {
	readCounts(s.counts(), e)
	s.Times, s.Last = unpackTimes(e.Bytes("Times")), e.Time("LastAt")
	if !isFolded(e) {
		s.Times.add(e.Timestamp, s.Totals)
		if s.Steps > 0 {
			s.Last = e.Timestamp
		}
	}
	return s
}

func (s *Sums) add(other Sums) {
	more := other.counts()
	for i, c := range s.counts() {
		*c.n += *more[i].n
	}
	s.Times.plus(other.Times)
	if other.Last.After(s.Last) {
		s.Last = other.Last
	}
}
