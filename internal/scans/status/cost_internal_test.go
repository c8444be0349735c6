package status

import (
	"encoding/json"
	"testing"
)

// A cost has no digits that are only rounding errors of floating-point numbers.
func TestDollars(t *testing.T) {
	t.Parallel()
	for requests, want := range map[int64]string{0: "0", 1: "3.6e-8", 80: "0.00000288", 10_000: "0.00036", 123_456_789: "4.444444404"} {
		if b, err := json.Marshal(dollars(requests, 0.00036)); err != nil || string(b) != want {
			t.Errorf("%d requests cost %s, want %s: %v", requests, b, want, err)
		}
	}
}
