package storage_test

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// hanging is a service in which some tries take long or never end.
type hanging struct {
	takes []time.Duration // durations of the first tries; later tries take a millisecond
	tries atomic.Int64
	ids   sync.Map // ids of the requests, with their headers
}

func (h *hanging) Do(r *http.Request) (*http.Response, error) {
	h.ids.Store(r.Header.Get("X-Ms-Client-Request-Id"), r.Header)
	took := time.Millisecond
	if i := int(h.tries.Add(1)) - 1; i < len(h.takes) {
		took = h.takes[i]
	}
	select {
	case <-time.After(took):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if r.Method == http.MethodPut {
		return answered(r, 204, http.Header{"Etag": {"W/1"}}, ""), nil
	}
	return answered(r, 200, http.Header{}, `{"value":[]}`), nil
}

// TestHangingTriesAreAbandoned: the first try of a request is abandoned after 10 s without a byte, and each further try
// after 10 s more. So a try that takes the service's 30 s is answered.
func TestHangingTriesAreAbandoned(t *testing.T) {
	const never = time.Hour
	for _, tt := range []struct {
		name     string
		takes    []time.Duration
		tries    int64
		min, max time.Duration
	}{
		{"never answered", []time.Duration{never}, 2, 10 * time.Second, 13 * time.Second},
		{"never answered twice", []time.Duration{never, never}, 3, 30 * time.Second, 33 * time.Second},
		{"each try takes 29 s", []time.Duration{29 * time.Second, 29 * time.Second, 29 * time.Second}, 3, 59 * time.Second, 62 * time.Second},
		{"each try takes 25 s", []time.Duration{25 * time.Second, 25 * time.Second, 25 * time.Second}, 3, 55 * time.Second, 60 * time.Second},
		{"9 s", []time.Duration{9 * time.Second}, 1, 9 * time.Second, 9 * time.Second},
	} {
		for _, write := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				h := &hanging{takes: tt.takes}
				a := open(t, signed, storage.Options{Transport: h})
				var c storage.Counter
				table := a.Table("Orders").With(storage.RequestOptions{Counter: &c})
				began := time.Now()
				var err error
				if write {
					err = table.Write(t.Context(), storage.Op{Kind: storage.Replace, Row: storage.Row{Key: key.Key{Partition: "p", Row: "r"}}})
				} else {
					_, err = table.Query(t.Context(), storage.Query{})
				}
				if took := time.Since(began); err != nil || took < tt.min || took > tt.max || h.tries.Load() != tt.tries || c.Doubts() != tt.tries-1 {
					t.Errorf("%s, write %v: error %v after %v and %d tries, %d of them with an unknown outcome; want %d tries within %v to %v", tt.name, write, err, took, h.tries.Load(), c.Doubts(), tt.tries, tt.min, tt.max)
				}
				time.Sleep(time.Minute) // time for the watch to end
				for id, header := range h.ids.Range {
					if got := header.(http.Header).Get("X-Ms-Client-Request-Id"); got != id {
						t.Errorf("%s, write %v: an abandoned try has the next try's headers", tt.name, write)
					}
				}
			})
		}
	}
}

// TestPatienceEndsAHangingRequest: a request that hangs ends with its account's patience, even during its first try.
func TestPatienceEndsAHangingRequest(t *testing.T) {
	for _, patience := range []time.Duration{6 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			h := &hanging{takes: []time.Duration{time.Hour, time.Hour, time.Hour}}
			a := open(t, signed, storage.Options{Transport: h, Patience: patience})
			began := time.Now()
			_, err := a.Table("Orders").Query(t.Context(), storage.Query{})
			if took := time.Since(began); !errors.Is(err, storage.ErrAway) || took < patience || took > patience+2*time.Second {
				t.Errorf("got error %v after %v, want %v to %v", err, took, patience, patience+2*time.Second)
			}
		})
	}
}
