package storage

import (
	"net/http"
	"testing"
	"time"
)

// A host that is busy, but answers others, is asked again within seconds however often it
// was asked; one that answers nobody is left alone for longer.
func TestPauses(t *testing.T) {
	t.Parallel()
	busy := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}}
	asking := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"30"}}}
	r := newRetries("host", 0)
	for _, tt := range []struct {
		name           string
		resp           *http.Response
		try            int
		outage         int
		atLeast, below time.Duration
	}{
		{"the first", busy, 1, 0, 200 * time.Millisecond, 400 * time.Millisecond},
		{"the tenth, others are answered", busy, 10, 0, 3 * time.Second, 6 * time.Second},
		{"the tenth, of the last few that there are", busy, 10, 3, 3 * time.Second, 6 * time.Second},
		{"the tenth, nobody is", busy, 10, 10, 45 * time.Second, maxRetryDelay + 1},
		{"the tenth, without an answer", nil, 10, 0, 45 * time.Second, maxRetryDelay + 1},
		{"as the host asks", asking, 10, 0, 30 * time.Second, 30*time.Second + 1},
	} {
		var err error
		if tt.resp == nil {
			err = http.ErrHandlerTimeout
		}
		for range 100 {
			if got, _ := r.pause(tt.resp, err, tt.try, tt.outage); got < tt.atLeast || got >= tt.below {
				t.Fatalf("%s: pause %v, want %v to %v", tt.name, got, tt.atLeast, tt.below)
			}
		}
	}
}
