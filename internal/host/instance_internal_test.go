package host

import (
	"testing"
	"time"
)

func TestFailures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		minutes []int
		want    bool // of the last
	}{
		{"two", []int{0, 1}, false},
		{"three", []int{0, 1, 2}, true},
		{"three, each within 30 minutes of the last", []int{0, 29, 58}, true},
		{"a pause forgives", []int{0, 1, 32}, false},
		{"three after a pause", []int{0, 1, 32, 33, 34}, true},
	}
	for _, test := range tests {
		var f failures
		var got bool
		for _, m := range test.minutes {
			got = f.add(time.Unix(0, 0).Add(time.Duration(m) * time.Minute))
		}
		if got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
