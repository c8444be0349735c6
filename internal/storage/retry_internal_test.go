package storage

import (
	"net/http"
	"testing"
	"time"
)

// A host is asked again within seconds however often it was asked, unless it asks for more.
func TestPauses(t *testing.T) {
	t.Parallel()
	busy := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}}
	asking := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"30"}}}
	r := newRetries("host", Options{})
	for _, tt := range []struct {
		name           string
		resp           *http.Response
		try            int
		atLeast, below time.Duration
	}{
		{"the first", busy, 1, 180 * time.Millisecond, 251 * time.Millisecond},
		{"the tenth", busy, 10, 3 * time.Second, 5*time.Second + 1},
		{"the tenth, without an answer", nil, 10, 3 * time.Second, 5*time.Second + 1},
		{"as the host asks", asking, 10, 30 * time.Second, 30*time.Second + 1},
	} {
		var err error
		if tt.resp == nil {
			err = http.ErrHandlerTimeout
		}
		for range 100 {
			if got, _ := r.pause(tt.resp, err, backoff(retryDelay, tt.try), time.Now(), hurry{}); got < tt.atLeast || got >= tt.below {
				t.Fatalf("%s: pause %v, want %v to %v", tt.name, got, tt.atLeast, tt.below)
			}
		}
	}
}
