package logtail_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/stream/logtail"
)

func ids(events []logtail.Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, e.ID)
	}
	return all
}

// wantOnce checks that a stream contains each of these events once, in their order.
func (w *world) wantOnce(what string, events []logtail.Event) {
	w.Helper()
	got := w.allEvents(w.streams(logtail.Options{}), "s", 1000)
	slices.Reverse(got)
	if !slices.Equal(ids(got), ids(events)) || !slices.Equal(texts(got), texts(events)) {
		w.Errorf("%s: the stream has %d events, want the %d events that were returned", what, len(got), len(events))
	}
}

// TestAppendOnceCrashPoints lets a writer die before or after each of its requests is carried out. Every retry, in another
// process, must return the ids of the first try.
func TestAppendOnceCrashPoints(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 250} {
		records := numbered(t, "e", n)
		for _, applied := range []bool{false, true} {
			for dies := 1; ; dies++ {
				dead := false
				synctest.Test(t, func(t *testing.T) { dead = dieAndRetry(t, records, dies, applied) })
				if !dead {
					break
				}
			}
		}
	}
}

func dieAndRetry(t *testing.T, records []record.Record, dies int, applied bool) (dead bool) {
	w := newWorld(t, emulator.Options{})
	p := &emulatortest.Process{Next: w.emulator.Transport()}
	p.DieWith(dies, applied)
	first, err := w.streams(logtail.Options{Table: w.table(p)}).AppendOnce(t.Context(), "s", record.Decoded(records), "k")
	what := fmt.Sprintf("%d events, died at request %d (carried out: %v)", len(records), dies, applied)
	if (err == nil) == p.Dead() {
		t.Fatalf("%s: the first try returns the error %v", what, err)
	}
	before := w.allEvents(w.streams(logtail.Options{}), "s", 1000)
	second := w.appendOnce(w.streams(logtail.Options{}), records, "k")
	third := w.appendOnce(w.streams(logtail.Options{}), records, "k")
	w.wantOnce(what, second)
	if !slices.Equal(ids(second), ids(third)) || err == nil && !slices.Equal(first, ids(second)) {
		t.Errorf("%s: the retries return different ids", what)
	}
	for _, e := range before {
		if !slices.Contains(ids(second), e.ID) {
			t.Errorf("%s: the second try does not return an event of the first try", what)
		}
	}
	return p.Dead()
}

func (w *world) appendOnce(s *logtail.Streams, records []record.Record, once string) []logtail.Event {
	w.Helper()
	made, err := s.AppendOnce(w.Context(), "s", record.Decoded(records), once)
	proof.Must(w, err)
	return eventsOf(w, made, records)
}

// TestAppendOnce checks that a key is valid for one append to one stream, for a day. The key must cost one request.
func TestAppendOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		s := w.streams(logtail.Options{})
		w.append(s, "s", event(t, "before"))
		requests := func(fn func()) int64 {
			before := w.emulator.Counts().TableTransactions()
			fn()
			return w.emulator.Counts().TableTransactions() - before
		}
		var first, again []logtail.Event
		plain := requests(func() { w.append(s, "s", numbered(t, "plain", 20)...) })
		if n := requests(func() { first = w.appendOnce(s, numbered(t, "e", 20), "k") }); n != plain+1 {
			t.Errorf("an append takes %d requests with a key, and %d without", n, plain)
		}
		if n := requests(func() { again = w.appendOnce(s, numbered(t, "e", 20), "k") }); n != 3 || !slices.Equal(ids(first), ids(again)) {
			t.Errorf("a retry takes %d requests", n)
		}
		for _, other := range []record.Decoded{numbered(t, "e", 21), numbered(t, "f", 20), {event(t, "e 0")}} {
			var reused *problem.Error
			if _, err := s.AppendOnce(t.Context(), "s", other, "k"); !errors.As(err, &reused) || reused.Kind != problem.KeyReused {
				t.Errorf("an append of other events with the key returns the error %v", err)
			}
		}
		if events, err := s.AppendOnce(t.Context(), "other", numbered(t, "f", 1), "k"); err != nil || len(events) != 1 {
			t.Errorf("an append to another stream with the key fails: %v", err)
		}
		if got := len(w.allEvents(s, "s", 1000)); got != 41 {
			t.Errorf("the stream has %d events, want 41", got)
		}

		time.Sleep(23 * time.Hour)
		maintain := func() {
			proof.Must(t, s.Maintain(t.Context()))
		}
		maintain()
		if again = w.appendOnce(s, numbered(t, "e", 20), "k"); !slices.Equal(ids(first), ids(again)) {
			t.Error("after 23 hours, a retry appends the events again")
		}
		time.Sleep(2 * time.Hour)
		maintain()
		if again = w.appendOnce(s, numbered(t, "g", 20), "k"); slices.Equal(ids(first), ids(again)) {
			t.Error("after more than a day, the key is still used")
		}
		if _, err := s.Delete(t.Context(), "s", claim.Sent{}); err != nil {
			t.Fatal(err)
		}
		again = w.appendOnce(s, numbered(t, "h", 3), "k")
		w.wantOnce("after the stream was deleted", again)
	})
}

// TestAppendOnceInOtherTransactions lets the first try carry out a transaction just before a retry sends a different
// transaction, which contains the same events and some more. The additional events must not be lost.
func TestAppendOnceInOtherTransactions(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		var records []record.Record
		add := func(name string, fields int) {
			object := fmt.Sprintf(`{"text":%q`, name)
			for f := range fields {
				object += fmt.Sprintf(`,"f%d":"%s"`, f, strings.Repeat("x", 30_000))
			}
			r, err := record.Parse([]byte(object + "}"))
			proof.Must(t, err)
			records = append(records, r)
		}
		for i := range 26 { // 13 events fill a transaction, but the last event also fits into the first one
			add(fmt.Sprint("e ", i), map[bool]int{true: 13, false: 10}[i == 13])
		}
		add("last", 8)
		next := w.emulator.Transport()
		var rows atomic.Int64 // number of events in the retry's transaction, which is sent last
		held := func(until map[string]time.Duration) *logtail.Streams {
			return w.streams(logtail.Options{Table: w.table(requester(func(r *http.Request) (*http.Response, error) {
				body := read(t, r)
				for text, pause := range until {
					if strings.Contains(body, `"`+text+`"`) {
						rows.Store(int64(strings.Count(body, `"text"`)))
						if time.Sleep(pause); pause == 0 {
							return emulatortest.Refusal(r, http.StatusForbidden, "AuthorizationFailure"), nil
						}
					}
				}
				return next.Do(r)
			}))})
		}
		var g sync.WaitGroup
		g.Go(func() {
			if _, err := held(map[string]time.Duration{"e 0": 30 * time.Second, "last": 0}).AppendOnce(t.Context(), "s", record.Decoded(records), "k"); err == nil {
				t.Error("the first try did not fail")
			}
		})
		time.Sleep(10 * time.Second)
		all := w.appendOnce(held(map[string]time.Duration{"e 0": 25 * time.Second}), records, "k")
		g.Wait()
		if n := rows.Load(); n != 14 {
			t.Errorf("the retry's transaction has %d events, want 14", n)
		}
		w.wantOnce("in other transactions", all)
	})
}
