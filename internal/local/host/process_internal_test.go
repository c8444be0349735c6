package host

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/app/envelope"
)

// An answer from the port counts only if it proves that it comes from the process, because another program may have taken the port.
func TestAnotherProgramsPortIsRefused(t *testing.T) {
	t.Parallel()
	at := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set(envelope.HeaderWorker, at) }))
	defer server.Close()
	ended := make(chan struct{})
	close(ended)
	p := &process{address: server.Listener.Addr().String(), id: "mine", done: ended}
	if err := p.waitReady(t.Context(), server.Client(), time.Minute); !errors.Is(err, errExited) {
		t.Errorf("another program's answer was accepted: %v", err)
	}
	at = "mine"
	if err := p.waitReady(context.Background(), server.Client(), time.Minute); err != nil {
		t.Error(err)
	}
}

// TestLogLine: a handler's line of JSON is not logged as a text within a line.
func TestLogLine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"level":"warn","scan":"1","rows":12345678901,"time":"2026-01-01T00:00:00Z","message":"it is slow"}`: `{"level":"warn","rows":12345678901,"scan":"1","message":"it is slow"}`,
		"plain text":           `{"level":"info","message":"plain text"}`,
		`{"level":"warn"} and`: `{"level":"info","message":"{\"level\":\"warn\"} and"}`,
		"null":                 `{"level":"info","message":"null"}`,
		`{"message":5}`:        `{"level":"info","message":"{\"message\":5}"}`,
		`["x"]`:                `{"level":"info","message":"[\"x\"]"}`,
	} {
		var out bytes.Buffer
		logLine(zerolog.New(&out), zerolog.InfoLevel, line)
		if got := strings.TrimSpace(out.String()); got != want {
			t.Errorf("the line %s is logged as %s, want %s", line, got, want)
		}
	}
}
