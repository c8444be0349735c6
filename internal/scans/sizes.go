package scans

import (
	"math"
	"sync"

	"tablesweep/internal/storage"
)

// firstPart is how many bytes of memory a scan's first step takes: about as many as a page of small rows needs.
const firstPart = 2 << 20

// Sizes learns from a scan's steps in this process how much memory a step needs, and how many rows a page can have. It
// is safe for concurrent use.
type Sizes struct {
	mu   sync.Mutex
	part int64 // bytes of memory that a step probably needs; 0 if unknown
	rows storage.Top
	made int // how many bytes of rows a map makes from 1,000 bytes of source rows; a number below 1,000 has no effect
}

// MemoryNeed returns how many bytes of memory a step takes at first.
func (s *Sizes) MemoryNeed() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.part == 0 {
		return firstPart
	}
	return s.part
}

// LearnMemory records how much memory a step has needed. If steps need less memory than before, the result of MemoryNeed
// decreases only slowly.
func (s *Sizes) LearnMemory(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part = max(bytes, s.part*3/4)
}

// Top returns how many rows a query should request, at most limit.
func (s *Sizes) Top(limit int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows.Limit(limit)
}

// Learn records a page's size, as [storage.Top.Learn] does. If a map makes rows larger, Learn instead records the
// estimated size of the rows that the map makes from the page.
func (s *Sizes) Learn(requested, rows, bytes, answers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows.Learn(requested, rows, max(bytes, bytes*s.made/1000), answers)
}

// LearnMapped records that the scan's map has made an output of `made` bytes from source rows. `rows` is the number of
// these rows, and `bytes` is their size. Later queries request so few rows that the map makes at most about 4 MiB from the
// rows of one query.
func (s *Sizes) LearnMapped(rows, bytes, made int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made = made * 1000 / max(1, bytes)
	s.rows.Learn(math.MaxInt, rows, made, 1)
}
