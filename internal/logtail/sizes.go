package logtail

import (
	"sync/atomic"

	"tablesweep/internal/storage"
)

// Sizes learns how large rows are from the pages that a process reads, so that it asks for few large ones at once. It is about what was read last,
// and forgets large rows slowly. The zero value knows nothing: it lets ask for as many rows as are wanted.
type Sizes struct{ mean atomic.Int64 }

// Rows returns how many rows to ask for, of most, if so many bytes of them are enough.
func (s *Sizes) Rows(most int, bytes int64) int {
	if mean := s.mean.Load(); mean > 0 {
		return int(max(1, min(int64(most), bytes/mean)))
	}
	return most
}

// Saw learns from a page.
func (s *Sizes) Saw(p storage.Page) {
	if len(p.Rows) == 0 {
		return
	}
	now, before := int64(p.Bytes/len(p.Rows)), s.mean.Load()
	s.mean.Store(max(now, before-(before-now)/4))
}

// Full learns that there was no memory for so many rows of so many bytes: a quarter of them comes next.
func (s *Sizes) Full(rows int, bytes int64) {
	if mean := 4 * bytes / int64(rows); mean > s.mean.Load() {
		s.mean.Store(mean)
	}
}
