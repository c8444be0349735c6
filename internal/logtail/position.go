package logtail

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"

	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// position says how far a follower has come in a stream: which events the follower has got, in a
// text that is short for any number of events. Everything older than floor is settled. The
// younger events are in groups, which are disjoint ranges of keys. A late event changes the
// sum of its group, and only that group is sent again.
type position struct {
	floor  string  // bound as in Span.Newer
	groups []group // newest first; each ends where the next one starts, the last one at floor
}

// group is a range of keys, and the sum over the ids of its events that the follower has got.
type group struct {
	start string // the group has no smaller key
	sum   uint64
}

const (
	positionForm = "f1" // start of the text: its version
	sumBits      = 48   // one late event in 2^48 is missed
)

// String returns the text that parsePosition reads. It needs no escaping in a URL.
func (p position) String() string {
	var b strings.Builder
	b.WriteString(positionForm + "." + p.floor)
	for _, g := range p.groups {
		sum := binary.BigEndian.AppendUint64(nil, g.sum)
		b.WriteString("." + g.start + "." + base64.RawURLEncoding.EncodeToString(sum[2:]))
	}
	return b.String()
}

func isPosition(text string) bool { return strings.HasPrefix(text, positionForm+".") }

func parsePosition(text string) (position, error) {
	parts := strings.Split(text, ".")
	if len(parts)%2 != 0 || parts[0] != positionForm || parts[1] == "" {
		return position{}, errNoPosition
	}
	p := position{floor: parts[1]}
	for pair := range slices.Chunk(parts[2:], 2) {
		sum, err := base64.RawURLEncoding.DecodeString(pair[1])
		if err != nil || len(sum) != sumBits/8 {
			return position{}, errNoPosition
		}
		p.groups = append(p.groups, group{pair[0], binary.BigEndian.Uint64(append([]byte{0, 0}, sum...))})
	}
	if !slices.IsSortedFunc(p.groups, func(a, b group) int { return strings.Compare(a.start, b.start) }) {
		return position{}, errNoPosition
	}
	return p, nil
}

var errNoPosition = problem.Invalidf("after", "must be now, a time such as 2026-02-03T04:05:06Z, a date, how long ago, such as 15m, an event's id, or what an answer has as next")

// delivery is the id of an event, and whether the follower has got it.
type delivery struct {
	id    string
	given bool
}

// positionAfter returns the position of a follower that has got some of these events, which
// are newest first, and all that are older than floor. Groups grow with the age of their
// events, because most late events are nearly new. A group's events are all given, or all
// not.
func positionAfter(events []delivery, floor string) position {
	p := position{floor: floor}
	for n := 0; n < len(events); {
		g := group{start: events[n].id}
		given, size := events[n].given, max(1, n/6)
		if n > 0 && (size > 1 || !given) {
			g.start = separator(events[n-1].id, g.start)
		}
		end := n + size
		for ; n < len(events) && events[n].given == given && (n < end || !given); n++ {
			if given {
				g.sum = add(g.sum, events[n].id)
			}
		}
		if given || len(p.groups) > 0 { // events newer than all groups count as not given
			p.groups = append(p.groups, g)
		}
		if given && size == 1 {
			p.groups = append(p.groups, group{start: events[n-1].id + "~"}) // keeps later arrivals out of the event's group
		}
	}
	return p
}

// separator returns the shortest prefix of b that sorts behind a. a sorts before b.
func separator(a, b string) string {
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	return b[:i+1]
}

func add(sum uint64, id string) uint64 {
	h := sha256.Sum256([]byte(id))
	return (sum + binary.BigEndian.Uint64(h[:8])) % (1 << sumBits)
}

// sorter separates events that a follower has got from those it has not.
type sorter struct {
	position position
	top      int  // the most events wanted
	none     bool // no event is wanted: all count as given

	at      int // index of the group of pending; -1 for events newer than all groups
	sum     uint64
	pending []Event
	events  []delivery // newest first
	unseen  []Event    // newest first; only the oldest ones, at most top
	behind  int        // how many events are unseen
}

// take takes the stream's rows, newest first. It fails if they are too many.
func (s *sorter) take(row storage.Entity) error {
	e, err := eventOf(row)
	if err != nil {
		return err
	}
	group := s.at
	for group+1 < len(s.position.groups) && s.position.groups[group+1].start <= e.ID {
		group++
	}
	if group != s.at || s.at < 0 {
		s.settle()
		s.at = group
	}
	s.pending = append(s.pending, e)
	s.sum = add(s.sum, e.ID)
	return s.tooMany()
}

// settle decides whether the pending events of a group are new to the follower.
func (s *sorter) settle() {
	given := s.none || s.at >= 0 && s.position.groups[s.at].sum == s.sum
	for _, e := range s.pending {
		s.events = append(s.events, delivery{e.ID, given})
	}
	if !given {
		s.behind += len(s.pending)
		if s.unseen = append(s.unseen, s.pending...); len(s.unseen) > s.top {
			s.unseen = slices.Delete(s.unseen, 0, len(s.unseen)-s.top)
		}
	}
	clear(s.pending)
	s.pending, s.sum = s.pending[:0], 0
}

func (s *sorter) tooMany() error {
	switch {
	case s.behind > maxBehind:
		return errBehind
	case len(s.events)+len(s.pending) > maxRecent:
		return errBusy
	}
	return nil
}

// next returns the unseen events, oldest first, the follower's position behind them, and whether
// there are more. No more events older than the bound settled can appear.
func (s *sorter) next(settled string) (events []Event, at position, more bool, err error) {
	s.settle()
	if err := s.tooMany(); err != nil {
		return nil, position{}, false, err
	}
	more = s.behind > len(s.unseen)
	floor := min(s.position.floor, settled) // the smaller bound is the newer
	if len(s.unseen) > 0 {
		newest := s.unseen[0].ID
		for i, e := range s.events {
			s.events[i].given = e.given || e.id >= newest
		}
		if more && newest > floor {
			floor = newest // the events that are not given are newer
		}
	}
	end, _ := slices.BinarySearchFunc(s.events, floor, func(e delivery, floor string) int { return strings.Compare(e.id, floor) })
	slices.Reverse(s.unseen)
	return s.unseen, positionAfter(s.events[:end], floor), more, nil
}
