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

// These constants determine which rows a call reads again. A call reads the newest rows again because a row may become
// visible after rows with later Timestamps. The cost is small even if there are many events per second.
const (
	againRows = 200                    // how many of the newest rows are read again
	againMost = 30 * time.Second       // maximum age of these rows
	settling  = 200 * time.Millisecond // rows younger than this are always read again
)

// The capacity of a position. Callers send a position in a URL, and hosts accept a URL of only a few thousand characters.
const (
	// maxSingle is the maximum number of groups that are newer than readUntil. A later call, with a later readUntil, returns the
	// rows that do not fit into these groups.
	maxSingle = 50
	// maxGroups is the maximum number of groups. About 30 groups are enough for 100,000 received rows, because older groups
	// are larger. Rows that were written after readUntil, and late rows between the received rows, require more groups.
	maxGroups = 90
	// maxLength is greater than the number of characters of any position. A position has at most 31 characters for
	// each group, and 120 other characters.
	maxLength = 3000
)

// ticks is a row's Timestamp, in units of 100 ns.
type ticks int64

const (
	second   ticks = 1e7
	lastTick       = 253402300800*second - 1 // the last tick of the year 9999
)

func ticksOf(t time.Time) ticks { return ticks(t.Unix())*second + ticks(t.Nanosecond()/100) }

func (t ticks) time() time.Time { return time.Unix(int64(t/second), int64(t%second)*100) }

// place is a row's position in the order of writing. Rows of one tick are in the order of their ids.
type place struct {
	written ticks
	id      string
}

// compare sorts newer places first.
func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(other.written, p.written), strings.Compare(p.id, other.id))
}

// position is a follower's progress in a stream. The position's text is short, even if there are many events. The follower
// reads only events whose ids are newer than a bound. It has received every event that was written before the time in `floor`,
// and no event that was written after the time in `newest`. The groups describe the received events that were written between
// these two times. If a row becomes visible late, the sum of its group changes, and the follower receives this group's rows
// again, but not those of other groups.
type position struct {
	newer     string // the bound, as in Span.Newer
	floor     ticks
	readUntil ticks   // all rows written up to this time were visible when the position was made; never earlier than `floor`
	newest    place   // the newest received row; zero if there are no groups
	groups    []group // newest first, at most maxGroups
}

// group describes adjacent rows that the follower has received. If several rows have the group's newest Timestamp, the
// group may contain only some of these rows: those with the oldest ids.
type group struct {
	from, to ticks  // Timestamps of the group's oldest and newest rows
	sum      uint64 // the sum of the hashes of the rows' ids
}

const (
	positionForm = "f1" // beginning of a position's text; 1 is the version of the text's form
	sumBits      = 48   // bits of a group's sum; with a probability of 1 in 2^48, a late event does not change the sum, and is missed
)

// String returns the text that parsePosition reads. The text needs no escaping in a URL. If the text is so long that hosts
// may refuse the URL, String panics, because the follower could never send this position.
func (p position) String() string {
	parts := []string{positionForm, p.newer, base36(p.floor), base36(p.readUntil - p.floor)}
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
	_, err := key.InvertedTime(parts[1][:inverted]) // checks the bound, because a query with an invalid bound would miss rows or find all rows
	failed := err != nil
	number := func(text string) ticks {
		n, err := strconv.ParseInt(text, 36, 64)
		failed = failed || err != nil || n < 0 || ticks(n) > lastTick
		return ticks(n)
	}
	p := position{newer: parts[1], floor: number(parts[2])}
	p.readUntil = p.floor + number(parts[3])
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

var errNoPosition = problem.Invalidf("after", `must be "now", the value of "next" in an answer, an id, a date, a time such as 2026-02-03T04:05:06Z, or a duration such as 15m, which means 15 minutes ago`)

// arrival is a row that was read, and the row's place. The field `given` is true if the follower has received the row.
type arrival struct {
	place
	partition string
	row       *storage.Row // nil if the contents are not in memory
	given     bool
}

// bytes returns an upper bound of the row's size in an answer, including the members that the answer adds. If the contents are
// not in memory, it returns 0.
func (a arrival) bytes() int {
	if a.row == nil {
		return 0
	}
	return len(a.row.JSON()) + 256
}

// dueRows yields the rows that the follower may receive now, oldest first. The argument `rows` is sorted newest first, and may
// lack rows that were written after readUntil. If a missing row becomes visible after this call, the follower receives all
// rows of its group again. To keep these groups small, each tick after readUntil gets a separate group in the position. A
// position has room for maxSingle such groups. dueRows stops before a row that needs one more group, and a later call returns
// the remaining rows.
func dueRows(rows []arrival, readUntil ticks) iter.Seq[*arrival] {
	return func(yield func(*arrival) bool) {
		singles := 0 // number of groups that are newer than readUntil
		for i, a := range rows {
			if a.given && a.written > readUntil && (i == 0 || rows[i-1].written != a.written) {
				singles++
			}
		}
		single := readUntil // the newest tick yielded
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

// takeDue returns the oldest due rows, at most `top` rows and at most [MaxAnswer] bytes, and marks them as received. The
// result is sorted by key, oldest first. The result `more` reports whether further rows are due. takeDue ends before the first
// row whose contents are not in memory. The contents of the oldest due row must be in memory.
func takeDue(rows []arrival, top int, readUntil ticks) (found []storage.Row, more bool) {
	bytes := 0
	for a := range dueRows(rows, readUntil) {
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

// markReceived marks the rows that the follower has received. The rows must be sorted newest first.
func (p position) markReceived(rows []arrival) {
	// cut removes and returns the first elements of the variable `rows`. It stops before the first row for which
	// the function `old` returns true.
	cut := func(old func(arrival) bool) (newer []arrival) {
		n := slices.IndexFunc(rows, old)
		if n < 0 {
			n = len(rows)
		}
		newer, rows = rows[:n], rows[n:]
		return newer
	}
	cut(func(a arrival) bool { return a.compare(p.newest) >= 0 })
	for _, g := range p.groups {
		cut(func(a arrival) bool { return a.written <= g.to })
		some := cut(func(a arrival) bool { return a.written < g.from })
		var sum uint64
		for i := len(some) - 1; i >= 0; i-- {
			if sum = add(sum, some[i].id); sum == g.sum { // the follower has received these rows, but perhaps not the later rows of the group's newest tick
				for ; i < len(some); i++ {
					some[i].given = true
				}
				break
			}
		}
	}
}

// advance returns the follower's next position. The argument `rows` is sorted newest first. It contains every row that was
// written before readUntil, but may lack rows that the follower has received. A row's field `given` is true if the follower
// has received the row. If a row becomes visible late, the follower receives the row's whole group again. Late rows are
// nearly always among the newest rows. Therefore groups of newer rows are smaller, so that fewer rows are sent again. The
// shards were read at different moments, so further rows may become visible between rows that were written after readUntil.
// Therefore each tick after readUntil gets a separate group. The argument `limit` is the newest bound that the position may
// have, or "" if any bound is possible.
func (p position) advance(rows []arrival, readUntil ticks, limit string) position {
	next := position{readUntil: readUntil, floor: ticksOf(readUntil.time().Add(-againMost))}
	if len(rows) > againRows {
		next.floor = max(next.floor, rows[againRows].written)
	}
	next.floor = min(next.floor, ticksOf(readUntil.time().Add(-settling)))
	for _, a := range rows {
		if !a.given {
			next.floor = min(next.floor, a.written)
		}
	}
	next.floor = max(next.floor, p.floor)
	next.newer = max(min(p.newer, Since(next.floor.time().Add(-window))), limit) // of two bounds, the smaller one is newer
	for _, a := range rows {
		if a.written >= next.floor {
			// This row may be read again, so the bound must include the row's id, even if the id is old.
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

// group divides the rows into at most maxGroups groups. The rows must be sorted newest first. If the rows need more groups, the
// oldest rows get no group, and are sent to the follower again.
func (p *position) group(rows []arrival) {
	size := 0 // number of rows in the last group; set to 0 at a row that the follower has not received, so that the next row begins a new group
	for n, a := range rows {
		last := len(p.groups) - 1
		switch {
		case a.written < p.floor:
			return
		case !a.given:
			size = 0
			continue
		case last >= 0 && p.groups[last].from == a.written: // all rows of a tick are in the same group
		case size > 0 && len(p.groups) == maxGroups:
		// Rows that were written after readUntil get separate groups, because further rows may appear between these rows.
		case size > 0 && size < n/2 && p.groups[last].from <= p.readUntil:
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
