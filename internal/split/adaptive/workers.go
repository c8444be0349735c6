package adaptive

import (
	"math"
	"slices"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
)

// Workers are the workers of one process. They share memory, so each piece uses what all workers have learned about letters ([alphabet]) and forks
// ([forks]). They are not safe for concurrent use.
type Workers struct {
	// If Partitions is set, the workers list partitions, skip rows, and cut pieces only between partitions.
	Partitions bool

	page    float64 // rows of a full page
	letters alphabet
	forks   forks
}

// NewWorkers returns workers that have not read a page yet. The argument `page` is the number of rows in a full page.
func NewWorkers(page int) *Workers { return &Workers{page: float64(page)} }

// Page handles a page that a step of a piece has read. The first keys of the page belong to the piece, and the result `yield` is the
// number of these keys. The result `rest` contains the step that continues after them. At the end of the piece, `rest` is empty.
func (w *Workers) Page(s *Piece, step scan.Step, p scan.Page) (yield int, rest []scan.Step) {
	yield = p.CountBefore(s.End)
	more := p.Next != nil && yield == len(p.Keys)
	if s.victim != nil && (yield > 0 || !more) {
		s.victim.noteTheft(s, yield > 0)
		s.victim = nil
	}
	if yield > 0 {
		w.read(s, p.Keys[:yield])
		s.since++
		s.robbed = 0
	}
	switch {
	case !more:
		return yield, nil
	case w.Partitions && yield > 0:
		return yield, []scan.Step{step.AfterPartition(p.Last().Partition)}
	}
	return yield, []scan.Step{step.Continue(*p.Next)}
}

// read learns from a page's keys. It updates the trails of the piece, and the letters and forks that all pieces share.
func (w *Workers) read(s *Piece, keys []key.Key) {
	if w.Partitions {
		keys = scan.Page{Keys: keys}.Partitions()
	}
	before, last := s.last, keys[len(keys)-1]
	var partitions, rows []string
	for _, k := range keys {
		partitions = append(partitions, k.Partition)
		if k.Partition == last.Partition {
			rows = append(rows, k.Row)
		}
	}
	if s.streak++; len(rows) < len(keys) {
		s.streak = 0
	}
	s.last, s.ahead = &last, nil
	inside := s.inLastPartition()
	if !inside {
		start := ""
		if before == nil {
			start = s.from.Partition
		}
		s.outer = w.learn(s.outer, partitions, 1, s.endPartition(), start)
	}
	if before == nil || before.Partition != last.Partition {
		if before != nil || s.from.Partition != last.Partition {
			s.inner = trail{} // the trail so far describes another partition
		}
	}
	if w.Partitions || !inside && s.streak == 0 {
		s.inner = trail{}
		return
	}
	start := ""
	if before == nil && s.from.Partition == last.Partition {
		start = s.from.Row
	}
	s.inner = w.learn(s.inner, rows, float64(len(rows))/float64(len(keys)), s.endRow(), start)
}

// learn adds a page's keys to the shared letters and forks. It returns a trail that summarizes the keys in t and the page's keys.
func (w *Workers) learn(t trail, keys []string, share float64, end *string, start string) trail {
	w.letters = w.letters.afterPage(keys)
	w.forks = w.forks.afterPage(keys)
	return t.afterPage(newGauge(w.letters, keys[len(keys)-1], end), keys, share, start)
}

// ahead estimates the unread keys of a piece. The gauge `rows` measures the rest of the current partition. It is nil if the piece extends beyond this
// partition and the partition is probably short. The gauge `partitions` measures the later partitions. It is nil if the piece ends in the current
// partition.
type ahead struct {
	rows, partitions *gauge
	total            float64
}

func (w *Workers) aheadOf(s *Piece) *ahead {
	if s.ahead != nil {
		return s.ahead
	}
	measure := func(here string, end *string, t trail) *gauge {
		g := newGauge(w.letters, here, end)
		g.survey(t, w.forks)
		return g
	}
	a, inside := &ahead{}, s.inLastPartition()
	if s.inner.Here != nil && (inside || s.streak >= longStreak) {
		a.rows = measure(s.last.Row, s.endRow(), s.inner)
		a.total += a.rows.total
	}
	if !inside {
		a.partitions = measure(s.last.Partition, s.endPartition(), s.outer)
		a.total += a.partitions.total
	}
	s.ahead = a
	return a
}

// keyAfter returns the key that lies the given number of pages after the last key read. ok is false if there is no such key.
func (a *ahead) keyAfter(pages float64, partition string) (k key.Key, ok bool) {
	if a.rows != nil {
		if pages < a.rows.total {
			row, ok := a.rows.keyAfter(pages)
			return key.Key{Partition: partition, Row: row}, ok
		}
		pages -= a.rows.total
	}
	if a.partitions == nil {
		return key.Key{}, false
	}
	next, ok := a.partitions.keyAfter(pages)
	return key.Key{Partition: next}, ok
}

// Theft divides a part of a piece (the victim) among new pieces (the thieves).
type Theft struct {
	Victim  *Piece   // the victim's end is the key at which the first thief begins
	Thieves []*Piece // in key order
}

// Steal assigns idle workers to pieces, and cuts these pieces. It cannot cut a piece before the piece's first page was read. There may be more new pieces
// than idle workers, because a cut within a partition may make two pieces: the rest of the partition, and the keys after it.
func (w *Workers) Steal(pieces []*Piece, idle int) []Theft {
	var thefts []Theft
	for i, n := range w.assign(pieces, idle) {
		s := pieces[i]
		if n == 0 {
			continue
		}
		s.robbed += n
		cuts := w.cuts(s, n)
		if len(cuts) == 0 {
			continue
		}
		whole := w.aheadOf(s).total
		t := s.cut(cuts)
		for _, thief := range t.Thieves {
			thief.believed = max(0, whole-w.aheadOf(s).total) / float64(len(t.Thieves))
		}
		thefts = append(thefts, t)
	}
	return thefts
}

// assign divides idle workers among the pieces. Each piece gets one worker, beginning with the largest piece. Long pieces get further workers.
func (w *Workers) assign(pieces []*Piece, idle int) []int {
	// A piece gets its first worker only if at least `least` pages are expected in the piece. For n > 1, a piece gets its nth worker only if at
	// least n pages, and at least n*n*least pages, are expected.
	const least = 0.25
	given := make([]int, len(pieces))
	worth := make([]float64, len(pieces))
	for i, s := range pieces {
		worth[i] = w.expectedPages(s)
	}
	for ; idle > 0; idle-- {
		best, first, most := -1, false, 0.0
		for i, pages := range worth {
			n := float64(given[i] + pieces[i].robbed)
			if n > 0 && pages < n+1 {
				continue
			}
			if pages /= (n + 1) * (n + 1); pages < least {
				continue
			}
			if best < 0 || n == 0 && !first || (n == 0) == first && pages > most {
				best, first, most = i, n == 0, pages
			}
		}
		if best < 0 {
			break
		}
		given[best]++
	}
	return given
}

// expectedPages returns how many pages a thief (see [Theft]) may expect in a piece. The result is the estimated number of unread pages, or the number
// of pages read since a thief last found rows, whichever is greater. Each thief that finds no rows lowers the result, until a thief finds rows again.
func (w *Workers) expectedPages(s *Piece) float64 {
	const most = 300
	if s.last == nil {
		return 0
	}
	in := 1 + s.misses
	return min(most, max(w.aheadOf(s).total, float64(s.since))) / (in * in)
}

// cuts returns up to n keys at which the piece can be cut. The keys are in table order.
func (w *Workers) cuts(s *Piece, n int) []key.Key {
	a := w.aheadOf(s)
	var cuts []key.Key
	for i := 1; i <= n; i++ {
		k, ok := a.keyAfter(a.total*math.Pow(float64(i)/float64(n+1), cutBias), s.last.Partition)
		if ok && s.contains(k) {
			cuts = append(cuts, k)
		}
	}
	slices.SortFunc(cuts, key.Key.Compare)
	return slices.Compact(cuts)
}

// Left returns the expected number of unread rows of the piece. If n pages of the piece have been read since a thief (see [Theft]) last found rows
// there, the result is at least n full pages of rows, because the estimate may be too low. If none of the piece's rows was read, and the piece was
// not cut from another piece, `ok` is false.
func (w *Workers) Left(s *Piece) (rows float64, ok bool) {
	switch {
	case s.last != nil:
		return max(w.aheadOf(s).total, float64(s.since)) * w.page, true
	case s.victim != nil:
		return s.believed * w.page, true
	}
	return 0, false
}
