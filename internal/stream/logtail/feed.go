package logtail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/input"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

// Now is the position after all rows that the log contains at the time of the call.
const Now = "now"

// MaxAnswer is the maximum number of bytes of JSON in one answer with events, changes or records. An answer with a single
// event, change or record may be larger.
const MaxAnswer = 8 << 20

const (
	// If more than maxBehind rows follow a follower's position, the follower's call fails. While a call reads rows, it keeps a
	// [place] in memory for each row. But it does not keep the contents of all rows if they need more than maxHeld bytes.
	maxBehind = 100_000
	// maxHeld is the maximum number of bytes of rows' contents in memory while rows are read.
	maxHeld = 3 * MaxAnswer
	// placeBytes is the number of bytes of memory for a place and its strings.
	placeBytes = 256
	// startRead is how far back in time a new follower reads. The follower makes its first position from the rows that it reads.
	startRead = 2 * time.Second
)

var errBehind = fmt.Errorf("more than %d events or changes come after this position", maxBehind)

// Next contains the rows after a position in a log.
type Next struct {
	Rows  []storage.Row `json:"-"`    // in the order of their keys, oldest first
	After string        `json:"next"` // the position after the rows
	More  bool          `json:"more"` // more rows follow; call again immediately
}

// Each calls fn with one row after another, until fn fails. It removes the rows from n.
func (n *Next) Each(fn func(storage.Row) error) error {
	rows := n.Rows
	n.Rows = nil
	for i := range rows {
		if err := fn(rows[i]); err != nil {
			return err
		}
		rows[i] = storage.Row{} // so that the row can be freed
	}
	return nil
}

// Feed follows a log. It returns each row once. Its answers follow the order in which the service wrote the rows, even if
// the clocks that made the rows' keys differ.
type Feed struct {
	Log
	// Now returns the service's time.
	Now func() time.Time
	// Oldest returns a time. The keys of rows that are written after the call are at most one minute older than this
	// time. If Oldest is nil, the feed uses the present time.
	Oldest func(ctx context.Context) (time.Time, error)

	// If merge is set, the feed calls it instead of Log.merge.
	merge func(ctx context.Context, s Span) (*merge, error)
}

// After returns the rows after a position: [Now], a time (see [ParseTime]), a key from a [Clock], or the position that
// an earlier call returned. A follower needs to store only the position. Each answer contains rows that were written
// later than the rows of earlier answers. Within one answer, the rows are in key order. An answer has at most `top`
// rows, and at most [MaxAnswer] bytes. If more than 100,000 rows follow the position, the error is a
// [problem.Conflict].
//
// A call makes one query for each 1,000 rows that it reads from a partition, even if `top` is small. A call reads the
// new rows, and reads up to 200 older rows again. If more than 200 rows were written in the 0.2 s before the last
// call, all of those rows are read again. The service searches all rows with keys from one minute before the last
// call until now. A large row that became visible late may need a separate request for its contents.
func (f Feed) After(ctx context.Context, after string, top int) (Next, error) {
	if err := input.Top(top, MaxTop); err != nil {
		return Next{}, err
	}
	next, _, err := f.after(ctx, after, top)
	return next, tooFar(err)
}

// tooFar replaces errBehind by an error for the caller. Other errors are unchanged.
func tooFar(err error) error {
	if errors.Is(err, errBehind) {
		return problem.Conflictf("after", `%v; read only the newest events or changes, for example with "since=1h", and then continue with "after=%s"`, errBehind, Now)
	}
	return err
}

// after is like [Feed.After], but accepts any value of `top`, and also returns all rows that it has read.
func (f Feed) after(ctx context.Context, after string, top int) (Next, []arrival, error) {
	if after == Now {
		return f.start(ctx)
	}
	from, err := f.parseAfter(after)
	if err != nil {
		return Next{}, nil, err
	}
	limit, err := f.newestBound(ctx, from)
	if err != nil {
		return Next{}, nil, err
	}
	rows, readUntil, err := f.arrivals(ctx, from, true)
	if err != nil {
		return Next{}, nil, err
	}
	from.markReceived(rows)
	if rows, err = f.fill(ctx, rows, top, readUntil); err != nil {
		return Next{}, nil, err
	}
	found, more := takeDue(rows, top, readUntil)
	return Next{found, from.advance(rows, readUntil, limit).String(), more}, rows, nil
}

// start returns the position after all rows that the log contains now. The second result contains the rows that start has
// read. A position has room for only a few of the rows that were written during the reading. If the log contains more
// such rows, start waits a second, and then reads again.
func (f Feed) start(ctx context.Context) (Next, []arrival, error) {
	var newest ticks // the newest row of the first reading
	for now := f.Now(); ; {
		at := now.Add(-startRead)
		from := position{newer: Since(at.Add(-window)), floor: ticksOf(at)}
		limit, err := f.newestBound(ctx, position{})
		if err != nil {
			return Next{}, nil, err
		}
		from.newer = max(from.newer, limit)
		rows, readUntil, err := f.arrivals(ctx, from, false)
		if err != nil {
			return Next{}, nil, err
		}
		if now = readUntil.time(); at.After(now.Add(-settling)) { // the service's clock or ours was changed
			continue
		}
		if len(rows) > 0 && newest == 0 {
			newest = rows[0].written
		}
		given := 0
		for a := range dueRows(rows, readUntil) {
			a.given = true
			given++
		}
		if given < len(rows) && readUntil < newest {
			if !task.Sleep(ctx, time.Second) {
				return Next{}, nil, ctx.Err()
			}
			continue
		}
		return Next{After: from.advance(rows, readUntil, limit).String()}, rows, nil
	}
}

// newestBound returns the newest bound that the position after p may have, or "" if any bound is possible. Call
// newestBound before the rows are read. A bound from a later call could exclude rows that are written after the
// reading. If p's own bound is recent enough, newestBound makes no request.
func (f Feed) newestBound(ctx context.Context, p position) (bound string, err error) {
	if f.Oldest == nil {
		return "", nil
	}
	if len(p.newer) >= inverted {
		t, err := key.InvertedTime(p.newer[:inverted])
		if err == nil && f.Now().Sub(t) < 4*window {
			return p.newer, nil
		}
	}
	t, err := f.Oldest(ctx)
	return Since(t.Add(-window)), err
}

// arrivals reads the rows that a follower at the position p may still lack. The newest row comes first. The result
// contains all such rows that were written up to readUntil, and may contain later rows. If `contents` is true, arrivals
// keeps the contents of the rows that the follower receives next.
func (f Feed) arrivals(ctx context.Context, p position, contents bool) (rows []arrival, readUntil ticks, err error) {
	span := Span{Newer: p.newer}
	if p.floor > 0 {
		span.Since = p.floor.time()
	}
	read := f.merge
	if read == nil {
		read = func(ctx context.Context, s Span) (*merge, error) { return f.Log.merge(ctx, s, storage.PageRows) }
	}
	m, err := read(ctx, span)
	if err != nil {
		return nil, 0, err
	}
	part := memory.PartIn(ctx)
	n, held := 0, 0
	for row, err := range m.rows(ctx) {
		if n++; err == nil && n > maxBehind {
			err = errBehind
		}
		if err != nil {
			return nil, 0, err
		}
		id := strings.TrimPrefix(row.Key.Row, f.Prefix)
		a := arrival{place: place{ticksOf(row.Timestamp()), id}, partition: row.Key.Partition}
		if a.written < p.floor {
			continue
		}
		if contents {
			a.row = new(row.Clone()) // a copy, so that the row's page can be freed
		}
		if !part.Use(placeBytes + int64(a.bytes())) {
			return nil, 0, fmt.Errorf("the log cannot be read: %w", memory.ErrFull)
		}
		held += a.bytes()
		if rows = append(rows, a); held > maxHeld {
			left := p.thin(rows)
			part.Use(int64(left - held))
			held = left
		}
	}
	slices.SortFunc(rows, func(a, b arrival) int { return a.compare(b.place) })
	return rows, max(p.readUntil, ticksOf(m.readUntil)), nil
}

// thin drops the contents of rows that the follower will probably not receive next. It divides the rows into those
// after p.newest and those up to p.newest. In each of the two groups, it keeps at most MaxAnswer bytes: the contents of
// the oldest rows. The follower has received most rows up to p.newest, so it needs the contents of only a few of these
// rows. thin returns the number of remaining bytes.
func (p position) thin(rows []arrival) (held int) {
	slices.SortFunc(rows, func(a, b arrival) int { return a.compare(b.place) })
	var kept [2]int // kept[0]: bytes of the rows after p.newest; kept[1]: bytes of the rows up to p.newest
	for i := range slices.Backward(rows) {
		a, of := &rows[i], 0
		if a.row == nil {
			continue
		}
		if a.compare(p.newest) >= 0 {
			of = 1
		}
		if kept[of] += a.bytes(); kept[of] > MaxAnswer {
			kept[of], a.row = MaxAnswer, nil // from here on, no contents of this group's rows are kept
		}
	}
	return kept[0] + kept[1]
}

// fill completes the rows that the follower receives next. If [position.thin] has dropped a row's contents, fill reads the row
// again. If this row no longer exists, the result leaves out the row.
func (f Feed) fill(ctx context.Context, rows []arrival, top int, readUntil ticks) ([]arrival, error) {
	gone := map[place]bool{}
	n, bytes := 0, 0
	for a := range dueRows(rows, readUntil) {
		if n == top || bytes >= MaxAnswer {
			break
		}
		if a.row == nil {
			e, found, err := f.Table.Get(ctx, key.Key{Partition: a.partition, Row: f.Prefix + a.id})
			if err != nil {
				return nil, fmt.Errorf("the log cannot be read: %w", err)
			}
			if !found {
				gone[a.place] = true
				continue
			}
			a.row = new(e.Row())
		}
		n, bytes = n+1, bytes+a.bytes()
	}
	return slices.DeleteFunc(rows, func(a arrival) bool { return gone[a.place] }), nil
}

// parseAfter parses the argument of [Feed.After], except [Now].
func (f Feed) parseAfter(after string) (position, error) {
	if isPosition(after) {
		return parsePosition(after)
	}
	newer, err := bound("after", after, f.Now())
	if after == "" || err != nil {
		return position{}, errNoPosition
	}
	return position{newer: newer}, nil
}
