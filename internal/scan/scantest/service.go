package scantest

import (
	"math/rand/v2"
	"slices"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

// Service answers the queries of one scan of a case's table, for drivers that are
// no [scan.Strategy].
type Service struct {
	table    *table
	volatile []key.Key
}

// Open returns the service of a case.
func (c Case) Open(r *rand.Rand) *Service {
	return &Service{
		table:    &table{rows: slices.Clone(c.Rows), segment: c.Segment, faulty: c.Faulty, rand: r, issued: map[string]bool{}},
		volatile: c.volatile(),
	}
}

// Query answers a step. Some of the rows that come and go then do so.
func (s *Service) Query(step scan.Step) (scan.Page, error) {
	p, err := s.table.query(step)
	r := s.table.rand
	for range len(s.volatile) / 4 {
		if k := s.volatile[r.IntN(len(s.volatile))]; r.IntN(2) == 0 {
			s.table.insert(k)
		} else {
			s.table.remove(k)
		}
	}
	return p, err
}
