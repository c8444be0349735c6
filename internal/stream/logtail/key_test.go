package logtail_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/stream/logtail"
)

// TestKeysKeepAWritersOrder checks that a writer's later key sorts before all its earlier keys, even if the clock goes back.
// The time in the key must be the latest time that the clock has shown.
func TestKeysKeepAWritersOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		clock := logtail.NewClock()
		first := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
		now := first.Add(time.Duration(r.Int64())).AddDate(r.IntN(9000), 0, 0)
		var latest time.Time
		last := "~"
		for range 300 {
			switch r.IntN(4) {
			case 0:
				now = now.Add(time.Duration(r.Int64N(1e10)))
			case 1:
				now = now.Add(-time.Duration(r.Int64N(1e12)))
			case 2:
				now = now.Add(time.Duration(r.IntN(300))) // within a few ticks
			}
			if now.After(latest) {
				latest = now
			}
			k := clock.NextKey(now)
			if k >= last {
				t.Fatalf("seed %d: the key %s does not sort before the earlier key %s", seed, k, last)
			}
			last = k
			got, err := logtail.KeyTime(k)
			if want := latest.Truncate(100 * time.Nanosecond); err != nil || !got.Equal(want) {
				t.Fatalf("seed %d: the key %s has the time %v, error %v, want %v", seed, k, got, err, want)
			}
		}
	}
}

// TestMoreKeysThanATickHas makes more than the 65,536 keys of a tick. Further keys must have the time of the next tick.
func TestMoreKeysThanATickHas(t *testing.T) {
	t.Parallel()
	clock := logtail.NewClock()
	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	last := "~"
	var k string
	for range 70_000 {
		if k = clock.NextKey(now); k >= last {
			t.Fatalf("the key %s does not sort before the earlier key %s", k, last)
		}
		last = k
	}
	if got, err := logtail.KeyTime(k); err != nil || !got.Equal(now.Add(100*time.Nanosecond)) {
		t.Errorf("the last key has the time %v, error %v", got, err)
	}
}

func TestKeyForm(t *testing.T) {
	t.Parallel()
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	k := logtail.NewClock().NextKey(at)
	if !strings.HasPrefix(k, "2524556159999999999-ffff-") || len(k) != 37 {
		t.Errorf("the key of 2000-01-01 has the wrong form: %s", k)
	}
	if bound := logtail.Since(at); bound >= k || bound <= logtail.NewClock().NextKey(at.Add(100*time.Nanosecond)) {
		t.Errorf("the bound %s does not lie between the tick and the next tick", bound)
	}
	for _, bad := range []string{"", k[:36], k + "a", "x" + k[1:], strings.ToUpper(k), "9999999999999999999" + k[19:], k[:19]} {
		if got, err := logtail.KeyTime(bad); err == nil {
			t.Errorf("%q is not a key, but KeyTime returns %v", bad, got)
		}
	}
}
