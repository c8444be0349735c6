package key_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
)

func TestInverted(t *testing.T) {
	for _, tt := range []struct{ time, want string }{
		{"0001-01-01T00:00:00Z", "3155378975999999999"},
		{"2000-01-01T00:00:00Z", "2524556159999999999"}, // ticks 630822816000000000
		{"1969-12-31T23:59:59.9999999Z", "2534023008000000000"},
		{"9999-12-31T23:59:59.9999999Z", "0000000000000000000"},
	} {
		at, err := time.Parse(time.RFC3339Nano, tt.time)
		proof.Must(t, err)
		if got := key.Inverted(at); got != tt.want {
			t.Errorf("Inverted(%s) = %s, want %s", tt.time, got, tt.want)
		}
		if back, err := key.InvertedTime(tt.want); err != nil || !back.Equal(at) {
			t.Errorf("InvertedTime(%s) = %v, %v, want %s", tt.want, back, err, tt.time)
		}
	}
}

func TestNewerKeysSortFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	start := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	random := func() time.Time {
		n := r.Int64N(key.MaxTicks + 1)
		return start.AddDate(0, 0, int(n/864e9)).Add(time.Duration(n%864e9) * 100)
	}
	for range 10_000 {
		a, b := random(), random()
		ka, kb := key.Inverted(a), key.Inverted(b)
		if a.Compare(b) != -strings.Compare(ka, kb) {
			t.Fatalf("the time %v has the key %s, but %v has the key %s", a, ka, b, kb)
		}
		if back, err := key.InvertedTime(ka); err != nil || !back.Equal(a) {
			t.Fatalf("InvertedTime(Inverted(%v)) = %v, %v", a, back, err)
		}
	}
}

func TestInvertedTimeRefusesOtherText(t *testing.T) {
	for _, s := range []string{"", "1", "315537897599999999", "3155378976000000000", "-155378975999999999", "+155378975999999999", "315537897599999999x"} {
		if at, err := key.InvertedTime(s); err == nil {
			t.Errorf("InvertedTime(%q) = %v, want an error", s, at)
		}
	}
}
