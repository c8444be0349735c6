package logtail_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
)

// world is embedded storage with a table for streams.
type world struct {
	testing.TB
	emulator *emulator.Emulator
}

func newWorld(t testing.TB, o emulator.Options) *world {
	t.Helper()
	w := &world{t, emulatortest.New(t, o)}
	proof.Must(t, w.table(nil).Create(t.Context()))
	return w
}

// inBubble runs a test with a new world, in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t, emulator.Options{})) })
}

// table opens the table with a transport.
func (w *world) table(transport policy.Transporter) *storage.Table {
	w.Helper()
	return emulatortest.Open(w, w.emulator, transport).Table("log")
}

// streams opens the streams like a new process.
func (w *world) streams(o logtail.Options) *logtail.Streams {
	w.Helper()
	if o.Table == nil {
		o.Table = w.table(nil)
	}
	return logtail.New(o)
}

// queries returns the number of queries that fn makes.
func (w *world) queries(fn func()) int64 {
	before := w.emulator.Counts().Query
	fn()
	return w.emulator.Counts().Query - before
}

// requester is a function that serves as a transport.
type requester func(*http.Request) (*http.Response, error)

func (f requester) Do(r *http.Request) (*http.Response, error) { return f(r) }

// event returns the record {"text": …}.
func event(t testing.TB, text string) record.Record {
	t.Helper()
	r, err := record.Parse(fmt.Appendf(nil, `{"text":%q}`, text))
	proof.Must(t, err)
	return r
}

func numbered(t testing.TB, name string, n int) record.Decoded {
	t.Helper()
	var all []record.Record
	for i := range n {
		all = append(all, event(t, fmt.Sprintf("%s %d", name, i)))
	}
	return all
}

func text(e logtail.Event) string {
	s, _ := e.Record.Get("text")
	return s
}

func texts(events []logtail.Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, text(e))
	}
	return all
}

func eventsOf(t testing.TB, ids []string, records []record.Record) []logtail.Event {
	events := make([]logtail.Event, len(ids))
	for i, id := range ids {
		at, err := logtail.KeyTime(id)
		proof.Must(t, err)
		events[i] = logtail.Event{ID: id, Time: at, Record: records[i]}
	}
	return events
}

func (w *world) append(s *logtail.Streams, stream string, records ...record.Record) []logtail.Event {
	w.Helper()
	ids, err := s.Append(w.Context(), stream, record.Decoded(records))
	proof.Must(w, err)
	return eventsOf(w, ids, records)
}

// eventPage is a page of a stream.
type eventPage struct {
	Events []logtail.Event
	Cursor string
}

func readPage(ctx context.Context, s *logtail.Streams, stream string, q logtail.EventQuery) (p eventPage, err error) {
	p.Cursor, err = s.Read(ctx, stream, q, func(e logtail.Event) bool {
		p.Events = append(p.Events, e)
		return true
	})
	return p, err
}

// nextEvents contains the events after a position.
type nextEvents struct {
	logtail.Next
	Events []logtail.Event
}

func readAfter(ctx context.Context, s *logtail.Streams, stream, after string, top int) (n nextEvents, err error) {
	n.Next, err = s.After(ctx, stream, after, top, func(e logtail.Event) { n.Events = append(n.Events, e) })
	return n, err
}

func (w *world) read(s *logtail.Streams, stream string, q logtail.EventQuery) eventPage {
	w.Helper()
	if q.Top == 0 {
		q.Top = logtail.MaxTop
	}
	p, err := readPage(w.Context(), s, stream, q)
	proof.Must(w, err)
	return p
}

// allEvents returns all events of a stream, newest first. It reads pages of the given size.
func (w *world) allEvents(s *logtail.Streams, stream string, top int) []logtail.Event {
	w.Helper()
	var events []logtail.Event
	q := logtail.EventQuery{Top: top}
	for {
		p := w.read(s, stream, q)
		events = append(events, p.Events...)
		if q.Cursor = p.Cursor; q.Cursor == "" {
			return events
		}
	}
}

// isSorted reports whether the events are sorted newest first, without duplicates.
func isSorted(events []logtail.Event) bool {
	for i := 1; i < len(events); i++ {
		if newer, older := events[i-1], events[i]; newer.ID >= older.ID || newer.Time.Before(older.Time) {
			return false
		}
	}
	return true
}

// forever returns a retention of 0 for options that need a pointer.
func forever() *time.Duration { return new(time.Duration) }
