package logtail_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/stream/logtail"
)

// TestStored reads, follows, lists, extends, trims and deletes streams in version 1 of the format (testdata/stored.txtar).
// Their events are from the first minutes of 2000, when the virtual time begins.
func TestStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t, emulatortest.New(t, emulator.Options{})}
		given := emulatortest.Load(t, emulatortest.Open(t, w.emulator, nil), "testdata/stored.txtar")
		time.Sleep(4 * time.Minute)
		hour := time.Hour
		s := w.streams(logtail.Options{Streams: map[string]logtail.StreamSettings{"short": {Retention: &hour}}})

		want := []string{"order 5", "order 4", "order 3", "order 2", "order 1", "order 0", "first 1", "first 0"}
		if diff := cmp.Diff(want, texts(w.allEvents(s, "orders", 3))); diff != "" {
			t.Errorf("the stream in pages of 3 differs (-want +got):\n%s", diff)
		}
		page := w.read(s, "orders", logtail.EventQuery{Cursor: given["cursor"]})
		if diff := cmp.Diff(want[5:], texts(page.Events)); diff != "" {
			t.Errorf("the events after the cursor differ (-want +got):\n%s", diff)
		}
		next, err := readAfter(t.Context(), s, "orders", given["after"], 10)
		proof.Must(t, err)
		if diff := cmp.Diff([]string{"order 0"}, texts(next.Events)); diff != "" {
			t.Errorf("the events after the follower's position differ (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"odd name"}, texts(w.read(s, "a b/c#?%", logtail.EventQuery{}).Events)); diff != "" {
			t.Errorf("the stream with an escaped name differs (-want +got):\n%s", diff)
		}

		names := func(cursor string) []logtail.StreamInfo {
			streams, _, err := s.List(t.Context(), 10, cursor)
			proof.Must(t, err)
			return streams
		}
		listed := []logtail.StreamInfo{{Name: "a b/c#?%", Shards: 1}, {Name: "orders", Shards: 3}, {Name: "short", Shards: 1}} // "left" was deleted
		if diff := cmp.Diff(listed, names("")); diff != "" {
			t.Errorf("the list of streams differs (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(listed[1:], names(given["list"])); diff != "" {
			t.Errorf("the list after the cursor differs (-want +got):\n%s", diff)
		}

		noted, err := s.AppendOnce(t.Context(), "short", numbered(t, "noted", 2), "key")
		if diff := cmp.Diff([]string{given["noted"], given["behind"]}, noted); diff != "" || err != nil {
			t.Errorf("a retry with an idempotency key returns the error %v; the ids differ (-want +got):\n%s", err, diff)
		}

		w.append(s, "orders", event(t, "order 6"))
		w.append(s, "left", event(t, "back"))
		if got := texts(w.read(s, "orders", logtail.EventQuery{Top: 2}).Events); !cmp.Equal(got, []string{"order 6", "order 5"}) {
			t.Errorf("after further appends, the stream contains %q", got)
		}
		if got := texts(w.read(s, "left", logtail.EventQuery{}).Events); !cmp.Equal(got, []string{"back"}) {
			t.Errorf("after an append, the deleted stream contains %q", got)
		}
		time.Sleep(2 * time.Hour)
		if err := s.Maintain(t.Context()); err != nil {
			t.Error(err)
		}
		if got := w.read(s, "short", logtail.EventQuery{}).Events; len(got) != 0 {
			t.Errorf("events that are older than their retention remain: %q", texts(got))
		}
		if done, err := s.Delete(t.Context(), "orders", claim.Sent{}); err != nil || done.Events != 9 {
			t.Errorf("the deletion returns %+v, error %v; want 9 events", done, err)
		}
	})
}
