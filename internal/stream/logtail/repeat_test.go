package logtail_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/stream/logtail"
)

// TestRepeatedDelete lets a process die at each request of a stream's deletion, or loses the deletion's answer. After that,
// others may append events, one of them with a key. Then another process gets the same request. The events that were appended
// after the first try must stay, with the key's note.
func TestRepeatedDelete(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	for _, sent := range []claim.Sent{{Invocation: "id"}, {Key: "key", Invocation: "id"}} {
		for _, applied := range []bool{false, true} {
			for _, alone := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v, applied %v, alone %v", sent, applied, alone), func(t *testing.T) {
					t.Parallel()
					n := 1
					for died := true; died && !t.Failed(); n += testsize.Of(3, 1) {
						synctest.Test(t, func(t *testing.T) { died = deleteTwice(t, n, sent, applied, alone) })
					}
					if n < 9 {
						t.Errorf("the deletion makes only %d requests", n)
					}
				})
			}
		}
	}
}

func deleteTwice(t *testing.T, n int, sent claim.Sent, applied, alone bool) (died bool) {
	w := newWorld(t, emulator.Options{})
	o := logtail.Options{Streams: map[string]logtail.StreamSettings{"s": {Shards: 2}}}
	s := w.streams(o)
	w.append(s, "s", event(t, "before"))
	time.Sleep(2 * time.Minute) // until writers use the shards
	for i := range 3 {
		w.append(s, "s", event(t, fmt.Sprint("old ", i)))
	}
	w.appendOnce(s, numbered(t, "noted", 2), "k")
	time.Sleep(time.Second)
	p := &emulatortest.Process{Next: w.emulator.Transport()}
	p.DieWith(n, applied)
	o.Table = w.table(p)
	first, firstErr := w.streams(o).Delete(t.Context(), "s", sent)
	time.Sleep(time.Second)
	left := w.allEvents(s, "s", 1000)
	claimed := len(w.claims()) > 0
	var since []logtail.Event
	if !alone {
		since = append(w.append(s, "s", event(t, "new")), w.appendOnce(s, numbered(t, "noted since", 2), "k2")...)
		time.Sleep(time.Second)
	}
	again, err := s.Delete(t.Context(), "s", sent)
	want := logtail.Deleted{Events: int64(len(left)), Repeated: claimed}
	switch {
	case firstErr == nil && (applied || !p.Dead()): // the first try has recorded its answer
		want = logtail.Deleted{Events: 6}
	case !claimed:
		want.Events += int64(len(since))
		since = nil
	}
	if err != nil || again != want {
		t.Errorf("died at request %d: the first try returns %+v, error %v; the second returns %+v, error %v; want %+v", n, first, firstErr, again, err, want)
	}
	if third, err := s.Delete(t.Context(), "s", sent); third != again || err != nil {
		t.Errorf("died at request %d: the third try returns %+v, error %v; want %+v", n, third, err, again)
	}
	slices.Reverse(since)
	if got := w.allEvents(s, "s", 1000); !slices.Equal(ids(got), ids(since)) {
		t.Errorf("died at request %d: the events %v remain, want %v", n, texts(got), texts(since))
	}
	if since != nil {
		if retried := w.appendOnce(s, numbered(t, "noted since", 2), "k2"); retried[0].ID != since[1].ID {
			t.Errorf("died at request %d: the note of a key was deleted, but its events remain", n)
		}
	}
	if done, err := s.Delete(t.Context(), "s", claim.Sent{Invocation: "another"}); err != nil || done != (logtail.Deleted{Events: int64(len(since))}) {
		t.Errorf("died at request %d: another deletion returns %+v, error %v", n, done, err)
	}
	time.Sleep(26 * time.Hour)
	if err := s.Maintain(t.Context()); err != nil || len(w.claims()) > 0 {
		t.Errorf("after a day, Maintain returns the error %v, and the claims %v remain", err, w.claims())
	}
	return p.Dead()
}

// claims returns the rows of the claims in the table.
func (w *world) claims() (all []string) {
	w.Helper()
	partition := "|claims"
	err := w.table(nil).All(w.Context(), storage.Query{Range: key.Range{Partition: &partition}}, func(p storage.Page) error {
		for _, row := range p.Entities() {
			all = append(all, row.Key.Row)
		}
		return nil
	})
	proof.Must(w, err)
	return all
}

// TestDeletesAreDistinguished checks that a key that was used to delete another stream is refused. An invocation id must not be
// refused.
func TestDeletesAreDistinguished(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	s := w.streams(logtail.Options{})
	for _, sent := range []claim.Sent{{Key: "k"}, {Invocation: "i"}} {
		for _, stream := range []string{"a", "b"} {
			w.append(s, stream, event(t, "x"))
			done, err := s.Delete(t.Context(), stream, sent)
			if refused := err != nil && problem.Of(err).Kind == problem.KeyReused; refused != (stream == "b" && sent.Key != "") || !refused && done.Events == 0 {
				t.Errorf("%v: the deletion of %s returns %+v, error %v", sent, stream, done, err)
			}
		}
	}
}
