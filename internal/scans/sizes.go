package scans

import (
	"math"
	"sync"

	"tablesweep/internal/storage"
)

// firstPart is the part of a scan's first step, in bytes: about what a page of small rows takes.
const firstPart = 2 << 20

// Sizes are those of what the steps of a scan have read in this process. They are safe for concurrent use.
type Sizes struct {
	mu   sync.Mutex
	part int64 // bytes of memory that a step is thought to need; 0 if that is unknown
	rows storage.Top
	made int // bytes that a map makes of 1,000 bytes of rows, if they become more
}

// MemoryNeed returns how much memory a step takes at first.
func (s *Sizes) MemoryNeed() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.part == 0 {
		return firstPart
	}
	return s.part
}

// LearnMemory takes in how much memory a step has needed. Steps that needed less let it sink slowly.
func (s *Sizes) LearnMemory(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part = max(bytes, s.part*3/4)
}

// Top returns how many rows to ask for, of most.
func (s *Sizes) Top(most int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows.Of(most)
}

// Learn takes in a page, as [storage.Top.Learn] does, by the bytes that a map makes of it.
func (s *Sizes) Learn(requested, rows, bytes, answers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows.Learn(requested, rows, max(bytes, bytes*s.made/1000), answers)
}

// LearnMapped takes in what a map has made of rows: so many bytes of so many others. Pages have as many rows as become 4 MiB.
func (s *Sizes) LearnMapped(rows, bytes, made int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made = made * 1000 / max(1, bytes)
	s.rows.Learn(math.MaxInt, rows, made, 1)
}
