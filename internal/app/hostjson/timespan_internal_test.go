package hostjson

import (
	"testing"
	"time"
)

func TestTimeSpan(t *testing.T) {
	t.Parallel()
	tests := map[string]time.Duration{
		"00:00:30":      30 * time.Second,
		"00:10":         10 * time.Minute,
		"7":             7 * 24 * time.Hour,
		"1.02:03:04":    26*time.Hour + 3*time.Minute + 4*time.Second,
		"00:00:00.1":    100 * time.Millisecond,
		"00:00:01.0005": time.Second + 500*time.Microsecond,
		"-00:00:01":     -time.Second,
	}
	for s, want := range tests {
		if got, err := parseTimeSpan(s); err != nil || got != want {
			t.Errorf("parseTimeSpan(%q) = %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "x", "00:60:00", "24:00:00", "00:00:60", "1:2:3:4", "5s", "00:00:00.12345678", "99999999"} {
		if d, err := parseTimeSpan(s); err == nil {
			t.Errorf("parseTimeSpan(%q) = %v, want an error", s, d)
		}
	}
}

func FuzzTimeSpan(f *testing.F) {
	f.Add(int64(0))
	f.Add(int64(26*time.Hour + 100*time.Millisecond))
	f.Fuzz(func(t *testing.T, n int64) {
		want := time.Duration(n).Abs().Truncate(100) // in units of 100 ns
		got, err := parseTimeSpan(formatTimeSpan(want))
		if err != nil && want < 99_999*24*time.Hour || err == nil && got != want {
			t.Errorf("%v was written as %s, and read as %v, error %v", want, formatTimeSpan(want), got, err)
		}
	})
}
