package scale

import (
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"tablesweep/internal/emulator/refusal"
	"tablesweep/internal/emulator/table"
	"tablesweep/internal/key"
	"tablesweep/internal/odata"
)

// sink is the destination: it compares each row that it gets with the source's, and keeps a
// bit of it. It implements [table.Rows], and can only be written to.
type sink struct {
	rows
	seed maphash.Seed

	mu      sync.Mutex // guards the fields below
	arrived []uint64   // a bit for each row
	count   int64      // rows that arrived
	sum     uint64     // of the hashes of rows that arrived, as they arrived
	again   int64      // rows that arrived once more
	wrong   int64      // rows that are none of the source's
	first   string     // the first of these
}

func newSink(r rows) *sink {
	return &sink{rows: r, seed: maphash.MakeSeed(), arrived: make([]uint64, (r.count+63)/64)}
}

// Get finds nothing: a copy that overwrites does not look.
func (s *sink) Get(key.Key) (table.Row, error) { return table.Row{}, table.NotFound() }

// Query finds nothing.
func (s *sink) Query(table.Query) table.Answer { return table.Answer{} }

func (s *sink) Apply(now time.Time, operations []table.Operation) ([]table.Row, error) {
	results := make([]table.Row, len(operations))
	for i, op := range operations {
		if op.Action != table.Replace || op.IfMatch != "" {
			return nil, &table.OperationError{Index: i, Err: refusal.New(refusal.InvalidInput, "the destination takes replaced rows only")}
		}
		results[i] = table.Row{PartitionKey: op.Key.Partition, RowKey: op.Key.Row, Ticks: odata.Ticks(now), Properties: op.Properties}
	}
	for _, row := range results {
		s.take(row)
	}
	return results, nil
}

func (s *sink) take(row table.Row) {
	n, ok := number(row.Properties)
	ok = ok && n >= 0 && n < s.rows.count && s.key(n) == row.Key() && s.properties(n) == row.Properties
	hash := s.hash(row)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok {
		if s.wrong++; s.wrong == 1 {
			s.first = fmt.Sprintf("%q %q {%s}", row.PartitionKey, row.RowKey, row.Properties)
		}
		return
	}
	word, bit := &s.arrived[n/64], uint64(1)<<(n%64)
	if *word&bit != 0 {
		s.again++
		return
	}
	*word |= bit
	s.count++
	s.sum += hash
}

func (s *sink) hash(row table.Row) uint64 {
	return maphash.Comparable(s.seed, [3]string{row.PartitionKey, row.RowKey, string(row.Properties)})
}

// written returns the number of rows that have arrived.
func (s *sink) written() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// check returns what is wrong with the copy, nil if it is the source. It computes every row
// once more.
func (s *sink) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.wrong > 0:
		return fmt.Errorf("%d rows arrived that the source does not have; the first: %s", s.wrong, s.first)
	case s.count != s.rows.count:
		return fmt.Errorf("%d of %d rows arrived; the first that is missing is number %d", s.count, s.rows.count, s.missing())
	}
	var sum uint64
	for n := range s.rows.count {
		sum += s.hash(s.row(n))
	}
	if sum != s.sum {
		return fmt.Errorf("as many rows arrived as the source has, %d, but their hashes differ", s.count)
	}
	return nil
}

func (s *sink) missing() int64 {
	for n := range s.rows.count {
		if s.arrived[n/64]&(1<<(n%64)) == 0 {
			return n
		}
	}
	return -1
}
