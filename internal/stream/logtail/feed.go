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

// Now is the position behind all rows that a log has at this moment.
const Now = "now"

// MaxAnswer is the most bytes of one answer with events, changes or records, as JSON. One of them alone may have more.
const MaxAnswer = 8 << 20

const (
	// maxBehind is the most rows that may follow a position. A follower holds their places in memory, and the contents of few.
	maxBehind = 100_000
	// maxHeld is the most bytes of contents that are held while rows are read.
	maxHeld = 3 * MaxAnswer
	// placeBytes is what a place takes of memory, with its strings.
	placeBytes = 256
	// startRead is how far before now a follower reads that starts now.
	startRead = 2 * time.Second
)

var errBehind = fmt.Errorf("more than %d follow", maxBehind)

// Next are the rows behind a position in a log.
type Next struct {
	Rows  []storage.Row `json:"-"`    // in the order of their keys, oldest first
	After string        `json:"next"` // the position behind them
	More  bool          `json:"more"` // there are more; ask at once
}

// Each calls fn with each of the rows, until fn fails. Then n has no rows.
func (n *Next) Each(fn func(storage.Row) error) error {
	rows := n.Rows
	n.Rows = nil
	for i := range rows {
		if err := fn(rows[i]); err != nil {
			return err
		}
		rows[i] = storage.Row{} // fn has what it needs of it
	}
	return nil
}

// Feed is a log that is followed: each of its rows is found once, whatever clock has made its key, in the order in
// which the service has written them.
type Feed struct {
	Log
	// Now returns the service's time.
	Now func() time.Time
	// Oldest returns a time before that of the key of any row that is not written yet, but for the minute that a
	// write may take. nil means the time of the last row that was read.
	Oldest func(ctx context.Context) (time.Time, error)

	// merge reads the first pages of a span; nil means Log's.
	merge func(ctx context.Context, s Span) (*merge, error)
}

// After returns the rows behind a position: [Now], a time as [ParseTime] reads it, a key that a [Clock] has made, or the
// position that an earlier call returned. A follower needs to keep nothing but the position. Rows come in the order in
// which they were written, and those of one answer in the order of their keys. There are at most top, of [MaxAnswer] bytes. If more than
// 100,000 rows follow the position, the error is a [problem.Conflict].
//
// A call makes one query for each 1,000 rows of a partition that the caller has not got yet, however small top
// is, with up to 200 from before that, or those of 0.2 s if these are more. The service finds them
// among all rows with keys from a minute before the last call on, since it has no index of Timestamps. A row of which the call could not
// hold the contents until its turn takes a request of its own: only those that came late, if the rows before them are large.
func (f Feed) After(ctx context.Context, after string, top int) (Next, error) {
	if err := input.Top(top, MaxTop); err != nil {
		return Next{}, err
	}
	next, _, err := f.after(ctx, after, top)
	return next, tooFar(err)
}

// tooFar returns what callers are told if err is errBehind.
func tooFar(err error) error {
	if errors.Is(err, errBehind) {
		return problem.Conflictf("after", "%v; read them with since, and start again with after=%s", errBehind, Now)
	}
	return err
}

// after does what After does, for any top. It also returns all rows that it has read.
func (f Feed) after(ctx context.Context, after string, top int) (Next, []arrival, error) {
	if after == Now {
		return f.start(ctx)
	}
	from, err := f.position(after)
	if err != nil {
		return Next{}, nil, err
	}
	oldest, err := f.oldest(ctx, from)
	if err != nil {
		return Next{}, nil, err
	}
	rows, known, err := f.arrivals(ctx, from, true)
	if err != nil {
		return Next{}, nil, err
	}
	from.settle(rows)
	if rows, err = f.fill(ctx, rows, top, known); err != nil {
		return Next{}, nil, err
	}
	found, more := takeDue(rows, top, known)
	return Next{found, from.after(rows, known, oldest).String(), more}, rows, nil
}

// start returns the position behind all rows that a log has now, and those that it has read. If these are more than a
// position can remember, it reads again a second later, when fewer of them are newer than known.
func (f Feed) start(ctx context.Context) (Next, []arrival, error) {
	var newest ticks // of the first reading
	for now := f.Now(); ; {
		at := now.Add(-startRead)
		from := position{newer: Since(at.Add(-window)), floor: ticksOf(at)}
		oldest, err := f.oldest(ctx, position{})
		if err != nil {
			return Next{}, nil, err
		}
		from.newer = max(from.newer, oldest)
		rows, known, err := f.arrivals(ctx, from, false)
		if err != nil {
			return Next{}, nil, err
		}
		if now = known.time(); at.After(now.Add(-settling)) { // the service's clock was set, or ours
			continue
		}
		if len(rows) > 0 && newest == 0 {
			newest = rows[0].written
		}
		given := 0
		for a := range due(rows, known) {
			a.given = true
			given++
		}
		if given < len(rows) && known < newest {
			if !task.Sleep(ctx, time.Second) {
				return Next{}, nil, ctx.Err()
			}
			continue
		}
		return Next{After: from.after(rows, known, oldest).String()}, rows, nil
	}
}

// oldest returns the newest bound that a position behind p may have, "" for any. It must be asked for before the rows
// are read: what becomes a row in between is found among these. It takes no request as long as p's own bound is
// good enough.
func (f Feed) oldest(ctx context.Context, p position) (bound string, err error) {
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

// arrivals reads the rows that a position leaves open, newest first. All that were written until known
// are among them, or were among those that the position was made from. With contents, the rows that come next have theirs.
func (f Feed) arrivals(ctx context.Context, p position, contents bool) (rows []arrival, known ticks, err error) {
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
			a.row = new(row.Clone()) // the rest of its page may go
		}
		if !part.Use(placeBytes + int64(a.bytes())) {
			return nil, 0, fmt.Errorf("read log: %w", memory.ErrFull)
		}
		held += a.bytes()
		if rows = append(rows, a); held > maxHeld {
			left := p.thin(rows)
			part.Use(int64(left - held))
			held = left
		}
	}
	slices.SortFunc(rows, func(a, b arrival) int { return a.compare(b.place) })
	return rows, max(p.known, ticksOf(m.known)), nil
}

// thin drops the contents of rows, but for those that most likely come next: the oldest ones that the follower has not got, and of the
// others, of which few come again, the oldest ones. It returns how many bytes are left.
func (p position) thin(rows []arrival) (held int) {
	slices.SortFunc(rows, func(a, b arrival) int { return a.compare(b.place) })
	var kept [2]int // bytes
	for i := range slices.Backward(rows) {
		a, of := &rows[i], 0
		if a.row == nil {
			continue
		}
		if a.compare(p.newest) >= 0 {
			of = 1
		}
		if kept[of] += a.bytes(); kept[of] > MaxAnswer {
			kept[of], a.row = MaxAnswer, nil // and so are all newer ones
		}
	}
	return kept[0] + kept[1]
}

// fill reads the dropped contents of the rows that come next. It leaves rows out that are gone by now.
func (f Feed) fill(ctx context.Context, rows []arrival, top int, known ticks) ([]arrival, error) {
	gone := map[place]bool{}
	n, bytes := 0, 0
	for a := range due(rows, known) {
		if n == top || bytes >= MaxAnswer {
			break
		}
		if a.row == nil {
			e, found, err := f.Table.Get(ctx, key.Key{Partition: a.partition, Row: f.Prefix + a.id})
			if err != nil {
				return nil, fmt.Errorf("read log: %w", err)
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

// position reads what callers send as after, but not [Now].
func (f Feed) position(after string) (position, error) {
	if isPosition(after) {
		return parsePosition(after)
	}
	newer, err := bound("after", after, f.Now())
	if after == "" || err != nil {
		return position{}, errNoPosition
	}
	return position{newer: newer}, nil
}
