package logtail

import (
	"errors"
	"fmt"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// A follower that is too far behind is told so. Events that it has got don't count.
func TestTooFarBehind(t *testing.T) {
	t.Parallel()
	for _, got := range []int{0, 10} {
		var events []Event
		for i := range maxBehind + got + 1 {
			events = append(events, Event{ID: fmt.Sprintf("%019d-ffff-aaaaaaaaaaaa", i)})
		}
		var have []delivery
		for _, e := range events[maxBehind+1:] {
			have = append(have, delivery{e.ID, true})
		}
		floor := fmt.Sprintf("%019d", len(events))
		for newest := range 2 { // without the newest event, the rest is read
			s := sorter{position: positionAfter(have, floor), top: 10, at: -1}
			var err error
			for _, e := range events[newest:] {
				if err = s.take(storage.Entity{Key: key.Key{Row: e.ID}}); err != nil {
					break
				}
			}
			if err == nil {
				_, _, _, err = s.next(floor)
			}
			if far := newest == 0; far != errors.Is(err, errBehind) {
				t.Errorf("%d events were got, and %d follow: %v", got, maxBehind+1-newest, err)
			}
		}
	}
}

// The most events that a call reads fit into a position of 3,000 characters.
func TestLongestPosition(t *testing.T) {
	t.Parallel()
	have := make([]delivery, maxRecent)
	for i := range have {
		have[i] = delivery{fmt.Sprintf("%019d-ffff-aaaaaaaaaaaa", i*int(window/key.Tick)/maxRecent), true}
	}
	if n := len(positionAfter(have, fmt.Sprintf("%019d", window/key.Tick)).String()); n > 3000 {
		t.Errorf("a position of %d characters", n)
	}
}
