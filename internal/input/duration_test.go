package input_test

import (
	"testing"
	"time"

	"tablesweep/internal/input"
)

func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"15m": 15 * time.Minute, "0": 0, "0s": 0, "1d": day, "2w": 14 * day, "1d12h": 36 * time.Hour, "1w2d3h4m5s": 9*day + 3*time.Hour + 4*time.Minute + 5*time.Second,
		"1.5h": 90 * time.Minute, "36500d": 36500 * day, "1d0s": day,
	} {
		if got, err := input.Duration(text); err != nil || got != want {
			t.Errorf("%s: got %v, error %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "1", "-1h", "-1d", "1d-1h", "1.5d", "1h1d", "1d2w", "1 d", "1D", "99999d9999999h", "9999w99999d9999h", "1d12", "١d", "1y"} {
		if got, err := input.Duration(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}
