package logtail_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
)

// TestAfterNowWithAWrongClock checks that events before the position now are not returned later, even if the reader's clock is
// wrong. Of the events before the last minute, at most one page may be read.
func TestAfterNowWithAWrongClock(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		inBubble(t, func(t *testing.T, w *world) {
			s := w.streams(logtail.Options{})
			w.append(s, "s", numbered(t, "old", 1500)...)
			time.Sleep(2 * time.Minute)
			w.append(s, "s", event(t, "before"))
			time.Sleep(10 * time.Second)
			w.append(s, "s", event(t, "just now"))
			time.Sleep(100 * time.Millisecond)
			reader := w.streams(logtail.Options{Now: func() time.Time { return time.Now().Add(off) }})
			var next nextEvents
			queries := w.queries(func() {
				var err error
				if next, err = readAfter(t.Context(), reader, "s", logtail.Now, 10); err != nil || len(next.Events) > 0 {
					t.Fatal(next, err)
				}
			})
			if queries != 2 { // one query reads the stream's row
				t.Errorf("the position now takes %d queries, want 2", queries)
			}
			w.late("late", 20*time.Second)
			if next, err := readAfter(t.Context(), reader, "s", next.After, 10); err != nil || !slices.Equal(texts(next.Events), []string{"late"}) {
				t.Errorf("with a clock that is wrong by %v, the events are %q, error %v", off, texts(next.Events), err)
			}
		})
	}
}

// TestFeedWithAClockThatIsAhead checks that a feed finds every new row if its clock is ahead of the service's clock at the
// start.
func TestFeedWithAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		feed := logtail.Feed{
			Log: logtail.Log{Table: w.table(nil), Shards: []logtail.Shard{"s"}},
			Now: func() time.Time { return time.Now().Add(time.Hour) },
		}
		next, err := feed.After(t.Context(), logtail.Now, 10)
		proof.Must(t, err)
		w.late("new", 0)
		if next, err = feed.After(t.Context(), next.After, 10); err != nil || len(next.Rows) != 1 {
			t.Errorf("there are %d rows, error %v; want only the new row", len(next.Rows), err)
		}
	})
}

// TestAfterReadsShardsAtDifferentMoments appends an event to a shard just after the shard was read. The answer is sent and
// dated 9 s later, when another shard with many newer events is read. The event must not be missed.
func TestAfterReadsShardsAtDifferentMoments(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		w.append(w.streams(logtail.Options{Streams: map[string]logtail.StreamSettings{"s": {Shards: 2}}}), "s", event(t, "first"))
		transport := w.emulator.Transport()
		var slow atomic.Bool
		s := w.streams(logtail.Options{Table: w.table(requester(func(r *http.Request) (*http.Response, error) {
			of := r.URL.Query().Get("$filter")
			if slow.Load() && strings.Contains(of, "PartitionKey eq 's|01'") {
				time.Sleep(9 * time.Second)
			}
			answer, err := transport.Do(r)
			if slow.Load() && strings.Contains(of, "PartitionKey eq 's'") {
				time.Sleep(9 * time.Second)
				answer.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
			}
			return answer, err
		}))})
		next, err := readAfter(t.Context(), s, "s", logtail.Now, 1000)
		proof.Must(t, err)
		slow.Store(true)
		go func() {
			time.Sleep(time.Second)
			w.late("between", 0)
			time.Sleep(7 * time.Second)
			for i := range 250 {
				w.lateIn("s|01", fmt.Sprint(i), 0)
			}
		}()
		got := 0
		for range 2 {
			if next, err = readAfter(t.Context(), s, "s", next.After, 1000); err != nil {
				t.Fatal(err)
			}
			got += len(next.Events)
			slow.Store(false)
		}
		if got != 251 {
			t.Errorf("the follower gets %d events, want 251", got)
		}
	})
}

// TestTooBusyToFollow checks that After fails on a stream that is too busy to be followed, before the events take all memory or
// time.
func TestTooBusyToFollow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	next, pages := w.emulator.Transport(), 0
	s := w.streams(logtail.Options{Table: w.table(requester(func(r *http.Request) (*http.Response, error) {
		if !strings.Contains(r.URL.Query().Get("$filter"), "PartitionKey eq 's'") {
			return next.Do(r)
		}
		if pages++; pages > 301 {
			return nil, context.Canceled
		}
		var rows []string
		for i := range 1000 {
			rows = append(rows, fmt.Sprintf(`{"PartitionKey":"s","RowKey":"%019d-ffff-aaaaaaaaaaaa"}`, 1000*pages+i))
		}
		header := http.Header{"X-Ms-Continuation-Nextpartitionkey": {"1"}, "X-Ms-Continuation-Nextrowkey": {"1"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}, "Content-Type": {"application/json;odata=minimalmetadata"}, "X-Ms-Version": {"2019-02-02"}, "X-Ms-Client-Request-Id": r.Header["X-Ms-Client-Request-Id"]}
		return &http.Response{StatusCode: http.StatusOK, Request: r, Header: header, Body: io.NopCloser(strings.NewReader(`{"value":[` + strings.Join(rows, ",") + `]}`))}, nil
	}))})
	var refused *problem.Error
	if _, err := readAfter(t.Context(), s, "s", logtail.Now, 10); !errors.As(err, &refused) || refused.Kind != problem.Conflict || refused.Field != "after" {
		t.Errorf("the error is %v after %d pages", err, pages)
	}
}

func TestBadPositions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	s := w.streams(logtail.Options{})
	for _, position := range []string{"", "x", "f1", "f1.", "f1.25", "f1..a.5", "f1.2516068360896604278.a", "f1.2516068360896604278.!.5", "f1.2516068360896604278.-1.5", "f1.2516068360896604278.zzzzzzzzzzzzz.5", "f1.2516068360896604278.a.!", "f1.2516068360896604278.a.5.id", "f1.2516068360896604278.a.5.id.5", "f1.2516068360896604278.a.5.id.5.5.0.AAA", "f1.2516068360896604278.a.5.id.5.!.0.AAAAAAAA", "f1.2516068360896604278.a.5.id.9.5.0.AAAAAAAA.6.0.AAAAAAAA", "f2.2516068360896604278.a.5", "f1.25.a.5", "f1.'516068360896604278.a.5", "f1.9516068360896604278.a.5"} {
		if _, err := readAfter(t.Context(), s, "s", position, 1); err == nil || !strings.Contains(err.Error(), `after: must be "now"`) {
			t.Errorf("the error for the position %q is %v", position, err)
		}
	}
}

// TestFollowOnAzurite follows a stream on Azurite, whose Timestamps have milliseconds, and whose filters compare texts. No
// event may be missed.
func TestFollowOnAzurite(t *testing.T) {
	const variable = "TABLESWEEP_AZURITE"
	if os.Getenv(variable) == "" {
		t.Skipf("SKIPPED: %s has no connection string; scripts/test.sh starts Azurite and sets it", variable)
	}
	c, err := storage.ParseConnection(os.Getenv(variable))
	proof.Must(t, err)
	account, err := storage.Open(c, storage.Options{})
	proof.Must(t, err)
	table := account.Table(fmt.Sprintf("log%x", rand.Uint64()))
	s := logtail.New(logtail.Options{Table: table})
	proof.Must(t, s.Prepare(t.Context()))
	t.Cleanup(func() { _ = table.Delete(context.Background()) })
	next, err := readAfter(t.Context(), s, "s", logtail.Now, 10)
	proof.Must(t, err)
	got := map[string]bool{}
	for i := range 20 {
		if _, err := s.Append(t.Context(), "s", numbered(t, fmt.Sprint(i), 1+i)); err != nil {
			t.Fatal(err)
		}
		for more := true; more; more = next.More {
			if next, err = readAfter(t.Context(), s, "s", next.After, 7); err != nil {
				t.Fatal(err)
			}
			for _, e := range next.Events {
				got[e.ID] = true
			}
		}
	}
	if len(got) != 210 {
		t.Errorf("the follower gets %d events, want 210", len(got))
	}
}
