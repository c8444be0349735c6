package logtail

import (
	"fmt"
	"testing"
	"time"
)

func TestTrimsAreForgotten(t *testing.T) {
	s, now := New(Options{}), time.Now()
	for i := range 1000 {
		s.trimmed[fmt.Sprint("gone", i)] = now.Add(-maxTrimInterval)
	}
	s.trimmed["busy"] = now.Add(-time.Minute)
	s.forgetTrims(now)
	if len(s.trimmed) != 1 {
		t.Errorf("%d streams are remembered, want the one trimmed a minute ago", len(s.trimmed))
	}
}
