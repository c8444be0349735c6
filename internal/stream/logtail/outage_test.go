package logtail_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
)

// TestFollowDuringAnOutage raises the number of shards while the service does not answer or is busy. A follower must not miss
// any event.
func TestFollowDuringAnOutage(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*http.Request) (*http.Response, error){
		"reset": func(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("connection reset") },
		"busy": func(r *http.Request) (*http.Response, error) {
			return emulatortest.Refusal(r, http.StatusServiceUnavailable, "ServerBusy"), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, w *world) {
				w.append(w.streams(logtail.Options{}), "s", event(t, "before"))
				time.Sleep(2 * time.Minute)
				var down atomic.Bool
				next := w.emulator.Transport()
				reader := w.streams(logtail.Options{Table: w.table(requester(func(r *http.Request) (*http.Response, error) {
					if down.Load() {
						return away(r)
					}
					return next.Do(r)
				}))})
				stop := w.watchBy(reader, logtail.FollowOptions{})
				time.Sleep(20 * time.Second)
				down.Store(true)
				s := w.streams(logtail.Options{Streams: map[string]logtail.StreamSettings{"s": {Shards: 4}}})
				var want []string
				for i := range 60 {
					w.append(s, "s", event(t, fmt.Sprint(i)))
					want = append(want, fmt.Sprint(i))
					time.Sleep(10 * time.Second)
				}
				down.Store(false)
				time.Sleep(3 * time.Minute)
				if got := stop(); !slices.Equal(got, want) {
					t.Errorf("the follower is shown %d events, want %d: %v", len(got), len(want), got)
				}
			})
		})
	}
}

// TestSlowAppend checks that followers get the events of an append that a busy service has delayed.
func TestSlowAppend(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		s := w.streams(logtail.Options{})
		w.append(s, "s", event(t, "before"))
		stop := w.watch(logtail.FollowOptions{})
		time.Sleep(5 * time.Second)
		proof.Must(t, w.emulator.SetFaults("busy p=1 on=batch,insert"))
		go func() { time.Sleep(100 * time.Second); _ = w.emulator.SetFaults("") }()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Second)
		defer cancel()
		_, err := s.Append(ctx, "s", numbered(t, "slow", 1))
		time.Sleep(3 * time.Minute)
		if got := stop(); err == nil || len(got) != 0 {
			t.Errorf("the append returns the error %v; the follower was shown %q", err, got)
		}
	})
}

// TestTableIsCreatedAgain checks that streams work after their table was deleted and created again.
func TestTableIsCreatedAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		s := w.streams(logtail.Options{Streams: map[string]logtail.StreamSettings{"s": {Shards: 4}}})
		w.append(s, "s", event(t, "a"))
		time.Sleep(2 * time.Minute)
		w.append(s, "s", event(t, "b"))
		proof.Must(t, w.table(nil).Delete(t.Context()))
		if _, err := s.Append(t.Context(), "s", numbered(t, "x", 1)); !storage.HasCode(err, "TableNotFound") {
			t.Errorf("an append without a table returns the error %v", err)
		}
		time.Sleep(2 * time.Minute)
		proof.Must(t, s.Prepare(t.Context()))
		for range 8 {
			w.append(s, "s", event(t, "again"))
		}
		if got := w.allEvents(w.streams(logtail.Options{}), "s", 1000); len(got) != 8 {
			t.Errorf("only %d of 8 events can be read", len(got))
		}
	})
}

// TestMaintainDuringAnOutage checks that Maintain returns an error if the service never answers.
func TestMaintainDuringAnOutage(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		s := w.streams(logtail.Options{Retention: time.Hour, Table: w.table(requester(func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("connection reset")
		}))})
		var log bytes.Buffer
		err := s.Maintain(zerolog.New(&log).WithContext(t.Context()))
		if err == nil || strings.Contains(log.String(), "could be deleted within a minute") {
			t.Errorf("Maintain returns the error %v and logs %s", err, log.String())
		}
	})
}
