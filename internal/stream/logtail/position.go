package logtail

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// The rows that a call reads again, so that it finds a row that becomes visible later than one with a later Timestamp. They
// cost little, however many events arrive a second.
const (
	againRows = 200                    // the newest rows
	againMost = 30 * time.Second       // but none written before this
	settling  = 200 * time.Millisecond // and all written since this
)

// The capacity of a position. Callers send it in a URL, and hosts accept only a few thousand characters there.
const (
	// maxSingle is how many groups can be newer than known. Further rows are held back until they are older.
	maxSingle = 50
	// maxGroups is the maximum number of groups. Beside the groups newer than known, 100,000 rows need about 30. They need more
	// only if rows become visible late between most of these groups.
	maxGroups = 90
	// maxLength exceeds the length of any position: 31 characters for each group and 120 for the rest.
	maxLength = 3000
)

// ticks is a row's Timestamp, in 100 ns.
type ticks int64

const (
	second   ticks = 1e7
	lastTick       = 253402300800*second - 1 // of the year 9999
)

func ticksOf(t time.Time) ticks { return ticks(t.Unix())*second + ticks(t.Nanosecond()/100) }

func (t ticks) time() time.Time { return time.Unix(int64(t/second), int64(t%second)*100) }

// place orders rows by the time of their writing, and rows of one tick by their ids.
type place struct {
	written ticks
	id      string
}

// compare sorts newer places first.
func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(other.written, p.written), strings.Compare(p.id, other.id))
}

// position is a follower's progress in a stream, in a text that is short for any number of
// events. The follower wants the events with ids newer than a bound. It has received all of these that
// were written before floor, and none that were written after newest. Of the events between the two, it has received
// those in groups. A row that became visible late changes the sum of its group, and only that group is sent
// again.
type position struct {
	newer  string // bound as in Span.Newer
	floor  ticks
	known  ticks   // all rows written until then were visible; at least floor
	newest place   // if there are groups
	groups []group // newest first, at most maxGroups
}

// group is some adjacent rows that the follower has received, and the sum over their ids. Of the group's oldest and newest
// ticks, the follower may have received only the rows with the older ids.
type group struct {
	from, to ticks // time of its oldest and its newest row
	sum      uint64
}

const (
	positionForm = "f1" // start of the text: its version
	sumBits      = 48   // one late event in 2^48 is missed
)

// String returns the text that parsePosition reads. It needs no escaping in a URL. It panics if the text is too long for
// hosts, because the follower could never continue from there.
func (p position) String() string {
	parts := []string{positionForm, p.newer, base36(p.floor), base36(p.known - p.floor)}
	if len(p.groups) > 0 {
		parts = append(parts, p.newest.id, base36(p.newest.written-p.floor))
	}
	for _, g := range p.groups {
		sum := binary.BigEndian.AppendUint64(nil, g.sum)
		parts = append(parts, base36(g.from-p.floor), base36(g.to-g.from), base64.RawURLEncoding.EncodeToString(sum[2:]))
	}
	text := strings.Join(parts, ".")
	if len(text) >= maxLength {
		panic(fmt.Sprintf("logtail: internal error: a position of %d characters", len(text)))
	}
	return text
}

func base36(t ticks) string { return strconv.FormatInt(int64(t), 36) }

func isPosition(text string) bool { return strings.HasPrefix(text, positionForm+".") }

func parsePosition(text string) (position, error) {
	parts := strings.Split(text, ".")
	if n := len(parts); n != 4 && (n < 9 || n%3 != 0) || parts[0] != positionForm || len(parts[1]) < inverted {
		return position{}, errNoPosition
	}
	_, err := key.InvertedTime(parts[1][:inverted]) // any other bound would leave out rows, or admit all
	failed := err != nil
	number := func(text string) ticks {
		n, err := strconv.ParseInt(text, 36, 64)
		failed = failed || err != nil || n < 0 || ticks(n) > lastTick
		return ticks(n)
	}
	p := position{newer: parts[1], floor: number(parts[2])}
	p.known = p.floor + number(parts[3])
	if len(parts) > 4 {
		p.newest = place{p.floor + number(parts[5]), parts[4]}
		for g := range slices.Chunk(parts[6:], 3) {
			from := p.floor + number(g[0])
			sum, err := base64.RawURLEncoding.DecodeString(g[2])
			if err != nil || len(sum) != sumBits/8 {
				return position{}, errNoPosition
			}
			p.groups = append(p.groups, group{from, from + number(g[1]), binary.BigEndian.Uint64(append([]byte{0, 0}, sum...))})
		}
	}
	if failed || !slices.IsSortedFunc(p.groups, func(a, b group) int { return cmp.Compare(b.to, a.from) }) {
		return position{}, errNoPosition
	}
	return p, nil
}

var errNoPosition = problem.Invalidf("after", "must be now, a time such as 2026-02-03T04:05:06Z, a date, how long ago, such as 15m, an id, or the value of next in an answer")

// arrival is a row with its place, and whether the follower has received it.
type arrival struct {
	place
	partition string
	row       *storage.Row // nil if the contents are not in memory
	given     bool
}

// bytes returns an upper bound of the row's size in an answer, which adds a few members, or 0 without contents.
func (a arrival) bytes() int {
	if a.row == nil {
		return 0
	}
	return len(a.row.JSON()) + 256
}

// due yields the rows that the follower may receive now, oldest first. The given rows are newest first. Some rows written since
// known may not have been seen yet, so each tick since then needs a separate group of the position. Beyond maxSingle, rows are
// held back until a later call.
func due(rows []arrival, known ticks) iter.Seq[*arrival] {
	return func(yield func(*arrival) bool) {
		singles := 0 // groups written since known
		for i, a := range rows {
			if a.given && a.written > known && (i == 0 || rows[i-1].written != a.written) {
				singles++
			}
		}
		single := known // the newest tick yielded
		for i := range slices.Backward(rows) {
			a := &rows[i]
			if a.given {
				continue
			}
			if a.written > single {
				if singles++; singles > maxSingle {
					return
				}
				single = a.written
			}
			if !yield(a) {
				return
			}
		}
	}
}

// takeDue returns the oldest due rows, at most top and at most [MaxAnswer] bytes, and marks them as received. They are sorted by
// key, oldest first. more reports whether further rows are due. The first row must have its contents.
func takeDue(rows []arrival, top int, known ticks) (found []storage.Row, more bool) {
	bytes := 0
	for a := range due(rows, known) {
		if len(found) == top || len(found) > 0 && (a.row == nil || bytes+a.bytes() > MaxAnswer) {
			more = true
			break
		}
		found, bytes = append(found, *a.row), bytes+a.bytes()
		a.given, a.row = true, nil
	}
	slices.SortFunc(found, func(a, b storage.Row) int { return strings.Compare(b.Key.Row, a.Key.Row) })
	return found, more
}

// settle marks the rows that the follower has received. The rows are newest first.
func (p position) settle(rows []arrival) {
	// until removes from rows all rows before the first one for which old is true, and returns them.
	until := func(old func(arrival) bool) (newer []arrival) {
		n := slices.IndexFunc(rows, old)
		if n < 0 {
			n = len(rows)
		}
		newer, rows = rows[:n], rows[n:]
		return newer
	}
	until(func(a arrival) bool { return a.compare(p.newest) >= 0 })
	for _, g := range p.groups {
		until(func(a arrival) bool { return a.written <= g.to })
		some := until(func(a arrival) bool { return a.written < g.from })
		var sum uint64
		for i := len(some) - 1; i >= 0; i-- {
			if sum = add(sum, some[i].id); sum == g.sum { // newer rows of its newest tick may not have been received
				for ; i < len(some); i++ {
					some[i].given = true
				}
				break
			}
		}
	}
}

// after returns the position of a follower that has received some of the given rows, and all other rows that were written
// before known. The given rows are newest first. Groups grow with the age of their rows, because late rows are nearly new. Each
// tick since known has its own group, because the shards were read at different moments. oldest is the newest bound that the
// position may have, "" for any.
func (p position) after(rows []arrival, known ticks, oldest string) position {
	next := position{known: known, floor: ticksOf(known.time().Add(-againMost))}
	if len(rows) > againRows {
		next.floor = max(next.floor, rows[againRows].written)
	}
	next.floor = min(next.floor, ticksOf(known.time().Add(-settling)))
	for _, a := range rows {
		if !a.given {
			next.floor = min(next.floor, a.written)
		}
	}
	next.floor = max(next.floor, p.floor)
	next.newer = max(min(p.newer, Since(next.floor.time().Add(-window))), oldest) // the smaller bound is the newer
	for _, a := range rows {                                                      // the rows that are read again, however old their ids
		if a.written >= next.floor {
			next.newer = max(next.newer, a.id+"~")
		}
	}
	first := slices.IndexFunc(rows, func(a arrival) bool { return a.given })
	if first < 0 || rows[first].written < next.floor {
		return next
	}
	next.newest = rows[first].place
	next.group(rows[first:])
	return next
}

// group sets the groups of rows, newest first. If maxGroups groups are not enough, the oldest rows are in no group, and are
// sent again.
func (p *position) group(rows []arrival) {
	size := 0 // of the last group; 0 if the previous row was not received
	for n, a := range rows {
		last := len(p.groups) - 1
		switch {
		case a.written < p.floor:
			return
		case !a.given:
			size = 0
			continue
		case last >= 0 && p.groups[last].from == a.written: // groups never split a tick
		case size > 0 && len(p.groups) == maxGroups:
		// Between rows that were written since known, further rows may appear.
		case size > 0 && size < n/2 && p.groups[last].from <= p.known:
		case len(p.groups) == maxGroups:
			return
		default:
			p.groups, size, last = append(p.groups, group{to: a.written}), 0, last+1
		}
		p.groups[last].from = a.written
		p.groups[last].sum = add(p.groups[last].sum, a.id)
		size++
	}
}

func add(sum uint64, id string) uint64 {
	h := sha256.Sum256([]byte(id))
	return (sum + binary.BigEndian.Uint64(h[:8])) % (1 << sumBits)
}
