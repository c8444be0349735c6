package logtail_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
)

func (w *world) count(t *storage.Table, partition string) (n int64) {
	w.Helper()
	err := t.All(w.Context(), storage.Query{Range: key.Range{Partition: &partition}}, func(p storage.Page) error {
		n += int64(len(p.Rows))
		return nil
	})
	proof.Must(w, err)
	return n
}

// TestNewestCostsOneQuery checks that the newest N events cost one query, for N up to 1,000 and streams of any size.
func TestNewestCostsOneQuery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	s := w.streams(logtail.Options{})
	w.append(s, "orders", numbered(t, "e", 2500)...)
	w.read(s, "orders", logtail.EventQuery{Top: 1})
	for _, top := range []int{1, 50, 1000} {
		queries := w.queries(func() {
			p := w.read(s, "orders", logtail.EventQuery{Top: top})
			if len(p.Events) != top || text(p.Events[0]) != "e 2499" || p.Cursor != p.Events[top-1].ID || !isSorted(p.Events) {
				t.Errorf("with top %d, the page has %d events, the first is %v, and the cursor is %q", top, len(p.Events), p.Events[0], p.Cursor)
			}
		})
		if queries != 1 {
			t.Errorf("a read with top %d takes %d queries, want 1", top, queries)
		}
	}
	for _, top := range []int{0, 1001} {
		if _, err := readPage(t.Context(), s, "orders", logtail.EventQuery{Top: top}); problem.Of(err).Field != "top" {
			t.Errorf("the error for top %d is %v", top, err)
		}
	}
}

// TestReadsEqualAListInMemory checks that reads of parts of a stream return the same events as a list in memory, with several
// numbers of shards and sizes of pages.
func TestReadsEqualAListInMemory(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	for seed := range uint64(testsize.Slow(4, 6, 12)) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			faults := ""
			if seed%3 == 0 {
				faults = "short-page p=0.3; empty-page p=0.2 times=1"
			}
			w := newWorld(t, emulator.Options{Faults: faults})
			o := logtail.Options{Streams: map[string]logtail.StreamSettings{"s": {Shards: 1 + r.IntN(5)}}}
			writers := []*logtail.Streams{w.streams(o), w.streams(o), w.streams(o)}
			var twin []logtail.Event
			for range 30 {
				time.Sleep(time.Duration(r.Int64N(int64(10 * time.Second))))
				twin = append(twin, w.append(writers[r.IntN(3)], "s", numbered(t, "e", 1+r.IntN(20))...)...)
				w.append(writers[0], "other", event(t, "not in s"))
			}
			slices.SortFunc(twin, func(a, b logtail.Event) int { return strings.Compare(a.ID, b.ID) })
			reader := w.streams(logtail.Options{})
			if got := w.allEvents(reader, "s", 1+r.IntN(40)); !sameEvents(twin, got) {
				t.Fatalf("seed %d: the stream has %d events, want %d: %v", seed, len(got), len(twin), texts(got))
			}
			for range 20 {
				from, to := r.IntN(len(twin)), r.IntN(len(twin))
				q := logtail.EventQuery{Top: 1 + r.IntN(60), Cursor: twin[from].ID, Since: twin[to].ID}
				want := twin[min(from+1, to):to]
				if r.IntN(2) == 0 {
					at := twin[to].Time.Add(time.Duration(r.IntN(3)-1) * 100)
					q.Since = at.Format(time.RFC3339Nano)
					want = slices.DeleteFunc(slices.Clone(twin[from+1:]), func(e logtail.Event) bool { return !e.Time.After(at) })
				}
				p := w.read(reader, "s", q)
				if n := min(q.Top, len(want)); !sameEvents(want[:n], p.Events) || (p.Cursor == "" && n < len(want)) {
					t.Fatalf("seed %d: the query %+v returns %d events, want %d", seed, q, len(p.Events), n)
				}
			}
		})
	}
}

func sameEvents(a, b []logtail.Event) bool {
	return slices.EqualFunc(a, b, func(a, b logtail.Event) bool {
		return a.ID == b.ID && a.Time.Equal(b.Time) && record.Equal(a.Record, b.Record)
	})
}

// TestForeignRowIsAnError checks that reading fails if another program has written a row into a stream's partition.
func TestForeignRowIsAnError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	s := w.streams(logtail.Options{})
	w.append(s, "s", event(t, "x"))
	row := storage.Entity{Properties: []storage.Property{storage.StringProperty("text", "y")}}
	row.Key.Partition, row.Key.Row = "s", "0000"
	proof.Must(t, w.table(w.emulator.Transport()).Write(t.Context(), storage.Op{Row: row.Row()}))
	if _, err := readPage(t.Context(), s, "s", logtail.EventQuery{Top: 5}); err == nil || !strings.Contains(err.Error(), `"0000"`) {
		t.Errorf("got error %v, want one that names the row", err)
	}
}

// TestOtherVersionIsRefused checks that a stream in a later version of the format is refused.
func TestOtherVersionIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	row := storage.Entity{Properties: []storage.Property{storage.Int64Property("Version", 2), storage.StringProperty("Name", "s"), storage.Int64Property("Shards", 1)}}
	row.Key.Partition, row.Key.Row = "|streams", "s"
	proof.Must(t, w.table(w.emulator.Transport()).Write(t.Context(), storage.Op{Row: row.Row()}))
	s := w.streams(logtail.Options{Retention: time.Hour})
	_, err1 := s.Append(t.Context(), "s", record.Decoded{event(t, "x")})
	_, err2 := readPage(t.Context(), s, "s", logtail.EventQuery{Top: 1})
	for _, err := range []error{err1, err2, s.Maintain(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), "version 2") {
			t.Errorf("got %v, want a refusal of version 2", err)
		}
	}
}

func TestParseSettings(t *testing.T) {
	t.Parallel()
	week := 7 * 24 * time.Hour
	got, err := logtail.ParseStreams(`{"orders":{"shards":4,"retention":"7d"},"audit":{"retention":"forever"},"x":{}}`)
	want := map[string]logtail.StreamSettings{"orders": {Shards: 4, Retention: &week}, "audit": {Shards: 1, Retention: forever()}, "x": {Shards: 1}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("the error is %v; the settings differ (-want +got)\n%s", err, diff)
	}
	for _, tt := range []struct{ text, want string }{
		{`[]`, "JSON object"}, {``, "JSON object"}, {`{} x`, "JSON object"}, {`{"a":{"shard":1}}`, "JSON object"},
		{`{"a":{"shards":65}}`, `"a": shards must be 1 to 64`}, {`{"a":{"shards":0}}`, "shards"}, {`{"":{}}`, "name the stream"},
		{`{"a":{"retention":"soon"},"b":{"shards":-1}}`, `"a": retention "soon"`}, {`{"a":{"retention":"soon"},"b":{"shards":-1}}`, `"b": shards`},
	} {
		if _, err := logtail.ParseStreams(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want …%s…", tt.text, err, tt.want)
		}
	}
	for text, want := range map[string]time.Duration{"forever": 0, "30d": 30 * 24 * time.Hour, "12h": 12 * time.Hour, "2m": 2 * time.Minute} {
		if got, err := logtail.ParseRetention(text); err != nil || got != want {
			t.Errorf("ParseRetention(%s) returns %v, error %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "d", "0d", "-1d", "1m", "0", "30", "36501d", "1.5d"} {
		if got, err := logtail.ParseRetention(bad); err == nil {
			t.Errorf("%q is not a retention, but is parsed as %v", bad, got)
		}
	}
}

// TestNewestEvents checks that Newest returns the requested number of events, or all, from several pages.
func TestNewestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	s := w.streams(logtail.Options{})
	events := w.append(s, "s", numbered(t, "e", logtail.MaxTop+5)...)
	for _, tt := range []struct {
		n     int
		since string
		want  int
	}{{0, "", 0}, {3, "", 3}, {logtail.MaxTop + 2, "", logtail.MaxTop + 2}, {5000, "", logtail.MaxTop + 5}, {-1, "", logtail.MaxTop + 5}, {-1, events[1000].ID, 4}} {
		var got []logtail.Event
		err := s.Newest(t.Context(), "s", tt.since, tt.n, func(e logtail.Event) error {
			got = append(got, e)
			return nil
		})
		if err != nil || len(got) != tt.want || len(got) > 0 && got[0].ID != events[len(events)-1].ID || !isSorted(got) {
			t.Errorf("the newest %d events since %q are %d events, error %v", tt.n, tt.since, len(got), err)
		}
	}
	enough := errors.New("enough")
	if err := s.Newest(t.Context(), "s", "", 9, func(logtail.Event) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("Newest returns %v, want the error of show", err)
	}
}

// TestAppendEach checks that AppendEach shows events in their order, creates a missing table, and shows the events of a failed
// transaction without ids.
func TestAppendEach(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		proof.Must(t, w.table(nil).Delete(t.Context()))
		time.Sleep(time.Minute)
		s := w.streams(logtail.Options{})
		var ids []string
		show := func(i int, id string) {
			if i != len(ids) {
				t.Errorf("event %d is shown after %d other events", i, len(ids))
			}
			ids = append(ids, id)
		}
		proof.Must(t, s.AppendEach(t.Context(), "s", numbered(t, "e", 3), show))
		var want []string
		for _, e := range w.allEvents(s, "s", 10) {
			want = append(want, e.ID)
		}
		slices.Reverse(want)
		if !slices.Equal(ids, want) || len(ids) != 3 {
			t.Errorf("the ids shown are %q, and the events in the stream have the ids %q", ids, want)
		}
		proof.Must(t, w.emulator.SetFaults("busy p=1 on=batch,insert"))
		ids = nil
		err := s.AppendEach(t.Context(), "s", numbered(t, "f", 2), show)
		if err == nil || !slices.Equal(ids, []string{"", ""}) {
			t.Errorf("the ids shown are %q, error %v", ids, err)
		}
	})
}
