package logtail

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tablesweep/internal/input"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/task"
)

const (
	// MaxTop is the maximum number of events that [Streams.Read] returns.
	MaxTop = storage.PageRows
	// window is the maximum time between the time in an event's key and the moment when the event becomes readable. If an
	// event takes longer to become readable, followers miss it.
	window = time.Minute
	// appendTime is the maximum duration of an append. A longer append fails, because followers could miss its events.
	appendTime = window - 10*time.Second

	parallelBatches = 8 // concurrent transactions of one Append
)

// Options configure [Streams].
type Options struct {
	Table *storage.Table
	// Retention is the time for which events are kept; 0 means forever.
	Retention time.Duration
	// Streams contains the settings of single streams, by name.
	Streams map[string]StreamSettings
	// Now is the app's own clock; nil means time.Now. The times in events' ids come from this clock, corrected by the Date of
	// the service's answers.
	Now func() time.Time
}

// StreamSettings configure one stream. Streams without settings have the zero value.
type StreamSettings struct {
	Shards    int            // number of shards over which events are spread; 0 means 1
	Retention *time.Duration // nil means the retention of the options, 0 means forever
}

// Streams is a table of streams. It is safe for concurrent use. Create it with [New].
type Streams struct {
	options Options
	clock   *Clock
	tidying claim.Tidying

	mu      sync.Mutex           // guards the fields below
	known   map[string]listing   // rows of the list, by escaped name
	spread  map[string]int       // number of shards to which a stream's events may be written, by the stream's escaped name
	sizes   map[string]*Sizes    // sizes of streams' events, by escaped name
	turn    int                  // number of transactions; determines the shard of the next transaction
	trimmed map[string]time.Time // when each stream was last trimmed, by name
}

// New returns the streams of a table.
func New(o Options) *Streams {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Streams{
		options: o, clock: NewClock(),
		known: map[string]listing{}, spread: map[string]int{}, sizes: map[string]*Sizes{}, trimmed: map[string]time.Time{},
	}
}

// Prepare creates the table if it is missing.
func (s *Streams) Prepare(ctx context.Context) error { return s.options.Table.Create(ctx) }

// TryPrepare is Prepare without retries.
func (s *Streams) TryPrepare(ctx context.Context) error {
	return s.options.Table.With(storage.RequestOptions{Once: true}).Create(ctx)
}

// Event is a row of a stream.
type Event struct {
	ID     string        `json:"id"`   // the event's row key; also a cursor
	Time   time.Time     `json:"time"` // time of the append, by its writer's clock
	Record record.Record `json:"event"`
}

// PartialError means that some events of an Append were possibly not appended.
type PartialError struct {
	// IDs contains the id of each event, or "" if it is unknown whether the event was appended.
	IDs []string
	Err error
}

func (e *PartialError) Error() string {
	n := 0
	for _, id := range e.IDs {
		if id != "" {
			n++
		}
	}
	return fmt.Sprintf("%d of %d events are known to have been appended: %v", n, len(e.IDs), e.Err)
}

func (e *PartialError) Unwrap() error { return e.Err }

// Append adds events to a stream, and returns their ids, oldest first. Up to 100 events that fit into one entity group
// transaction are added together or not at all. For more events, Append uses several concurrent transactions. If one of these
// fails, the error is a [PartialError].
func (s *Streams) Append(ctx context.Context, stream string, records record.Some) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, appendTime)
	defer cancel()
	shards, escaped, err := s.toWrite(ctx, stream)
	if err != nil {
		return nil, err
	}
	ids := s.clock.nextKeys(s.now(), records.Len())
	// The keys are unique to this call. So a conflict means that an earlier try has inserted the events, and that its
	// answer was lost.
	written, err := s.write(ctx, shards, ids, records.At, storage.Conflict)
	if err != nil {
		return nil, s.notAppended(stream, escaped, &PartialError{IDs: written, Err: err})
	}
	return ids, nil
}

// toWrite returns the shards to which a stream's events may be written, and the stream's escaped name. If the service's time is unknown,
// toWrite sends a request, because the answer contains the time.
func (s *Streams) toWrite(ctx context.Context, stream string) (shards []Shard, escaped string, err error) {
	escaped, err = escapeName(stream)
	if err != nil {
		return nil, "", err
	}
	if secret.In(stream) {
		return nil, "", problem.Invalidf("stream", "contains text that looks like a key, a signature or a token; remove this text, because names of streams are stored and shown")
	}
	if _, known := s.options.Table.Now(s.options.Now()); !known {
		s.forget(escaped) // so that shardsToWrite requests the stream's row; the service's answer contains its time
	}
	n, err := s.shardsToWrite(ctx, stream, escaped)
	if err != nil {
		return nil, "", fmt.Errorf("the append to stream %q failed: %w", stream, err)
	}
	return shardsOf(escaped, n), escaped, nil
}

func (s *Streams) notAppended(stream, escaped string, err error) error {
	if storage.HasCode(err, "TableNotFound") { // the list of streams was deleted with the table
		s.forget(escaped)
	}
	return fmt.Errorf("the append to stream %q failed: %w", stream, err)
}

// AppendEach appends events like Append, and creates the table if it is missing. It calls `show` with each event's index
// and id. The id is "" if it is unknown whether the event was appended.
func (s *Streams) AppendEach(ctx context.Context, stream string, records record.Some, show func(i int, id string)) error {
	ids, err := s.Append(ctx, stream, records)
	if storage.HasCode(err, "TableNotFound", "TableBeingDeleted") { // no event has been written yet
		if err = s.Prepare(ctx); err == nil {
			ids, err = s.Append(ctx, stream, records)
		}
	}
	var partial *PartialError
	if errors.As(err, &partial) {
		ids = partial.IDs
	}
	for i, id := range ids {
		show(i, id)
	}
	return err
}

// now returns the service's time, or our own time if the service's is unknown.
func (s *Streams) now() time.Time {
	now, _ := s.options.Table.Now(s.options.Now())
	return now
}

// forget deletes a stream from the caches.
func (s *Streams) forget(escaped string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, escaped)
	delete(s.spread, escaped)
}

// write inserts events with the given keys. The result contains the events' ids, or "" for events that may be missing.
// If a transaction fails, and the function `ignored` returns true for its error, write treats the transaction as
// successful.
func (s *Streams) write(ctx context.Context, shards []Shard, keys []string, recordAt func(i int) record.Record, ignored func(error) bool) ([]string, error) {
	ids := make([]string, len(keys))
	errs := make([]error, len(keys)) // errs[i] is the error of the transaction whose first event has the index i
	var g task.Group                 // has no context, so the other transactions continue after a failure
	g.SetLimit(parallelBatches)
	for first := 0; first < len(keys); {
		shard := shards[s.nextTurn()%len(shards)]
		b := s.options.Table.Batch()
		for next := first; next < len(keys) && b.Add(insert(shard, keys[next], recordAt(next))); next++ {
		}
		from, to := first, first+b.Rows()
		first = to
		g.Go(func() error {
			if err := b.Do(ctx); err != nil && !ignored(err) {
				errs[from] = err
				return nil
			}
			for i := from; i < to; i++ {
				ids[i] = keys[i]
			}
			return nil
		})
	}
	return ids, errors.Join(append(errs, g.Wait())...)
}

func insert(shard Shard, id string, r record.Record) storage.Op {
	return storage.Op{Kind: storage.Insert, Row: storage.Entity{Key: key.Key{Partition: string(shard), Row: id}, Properties: r.Properties()}.Row()}
}

func (s *Streams) nextTurn() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn++
	return s.turn
}

// EventQuery selects the newest events of a stream, or of a part of it.
type EventQuery struct {
	Top    int    // maximum number of events, 1 to MaxTop
	Since  string // only events newer than this time (see [ParseTime]) or id
	Cursor string // only events older than this id
}

// Read calls the function `take` with the newest events of a stream, newest first, until `take` returns false. A stream
// without events is not an error. The returned cursor is for the next page, which contains older events. If there
// are no older events, the cursor is "". Read makes one query for each shard, and sometimes a query for the stream's row.
func (s *Streams) Read(ctx context.Context, stream string, q EventQuery, take func(Event) bool) (cursor string, err error) {
	if err := input.Top(q.Top, MaxTop); err != nil {
		return "", err
	}
	newer, err := bound("since", q.Since, s.now())
	if err != nil {
		return "", err
	}
	if q.Cursor != "" && !keyForm.MatchString(q.Cursor) {
		return "", problem.Invalidf("cursor", "must be a cursor from an answer, or an event's id")
	}
	more, err := s.newest(ctx, stream, Span{Newer: newer, Older: q.Cursor}, q.Top, func(e Event) (taken bool, err error) {
		if taken = take(e); taken {
			cursor = e.ID
		}
		return taken, nil
	})
	if err != nil || !more {
		return "", err
	}
	return cursor, nil
}

// Newest calls the function `show` with the newest n events of a stream, newest first, until `show` fails. If n is
// negative, it calls `show` with all events. The argument `since` limits the events, as [EventQuery.Since] does.
func (s *Streams) Newest(ctx context.Context, stream, since string, n int, show func(Event) error) error {
	newer, err := bound("since", since, s.now())
	if err == nil && n != 0 {
		_, err = s.newest(ctx, stream, Span{Newer: newer}, n, func(e Event) (bool, error) { return true, show(e) })
	}
	return err
}

// newest is like [Log.Newest], but calls the function `take` with events of a stream instead of rows.
func (s *Streams) newest(ctx context.Context, stream string, span Span, n int, take func(Event) (taken bool, err error)) (more bool, err error) {
	m, err := s.read(ctx, stream, span, n)
	if err != nil {
		return false, err
	}
	var refused error // the error of take
	more, err = m.newest(ctx, n, func(row storage.Row) (taken bool, err error) {
		e, err := eventOf(row)
		if err != nil {
			return false, err
		}
		taken, refused = take(e)
		return taken, refused
	})
	if err != nil && refused == nil {
		err = fmt.Errorf("the stream %q cannot be read: %w", stream, err)
	}
	return more, err
}

// bound converts an id or a time to a bound for Span.Newer. The argument `parameter` is the name of the query parameter, such
// as "since", for errors. The argument `now` is the service's time.
func bound(parameter, since string, now time.Time) (string, error) {
	if since == "" || keyForm.MatchString(since) {
		return since, nil
	}
	t, err := ParseTime(since, now)
	if err != nil {
		return "", problem.Invalidf(parameter, "%v, or an id; escape the + of a time zone as %%2B", err)
	}
	return Since(t), nil
}

// ParseTime parses a time (RFC 3339), a date in UTC, or an age such as 15m. The error lists these forms.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if d, err := input.Duration(text); err == nil {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() >= 1 && t.Year() <= 9998 { // these years are valid in every time zone
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("is %q; it must be a time such as 2026-02-03T04:05:06Z, a date, or a duration before now such as 15m", text)
}

func eventOf(row storage.Row) (Event, error) {
	t, err := KeyTime(row.Key.Row)
	if err != nil {
		return Event{}, fmt.Errorf("partition %q has a row that is not an event: %w", row.Key.Partition, err)
	}
	return Event{ID: row.Key.Row, Time: t, Record: record.FromProperties(row.Entity().Properties)}, nil
}

// read reads the first pages of a span of a stream. During a long reading, the stream may get more shards. So if the reading
// took too long, read starts again.
func (s *Streams) read(ctx context.Context, stream string, span Span, top int) (*merge, error) {
	escaped, err := escapeName(stream)
	if err != nil {
		return nil, err
	}
	for {
		var m *merge
		l, err := s.freshListing(ctx, escaped)
		if err == nil {
			m, err = s.logOf(escaped, l).merge(ctx, span, top)
		}
		if err != nil {
			return nil, fmt.Errorf("the stream %q cannot be read: %w", stream, err)
		}
		if isFresh(l.readAt) {
			return m, nil
		}
	}
}
