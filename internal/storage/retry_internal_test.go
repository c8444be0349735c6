package storage

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// Pauses take at most a few seconds, however often a request was tried.
func TestPauses(t *testing.T) {
	t.Parallel()
	for try, longest := range map[int]time.Duration{1: 250 * time.Millisecond, 2: 750 * time.Millisecond, 10: maxRetryDelay, 100: maxRetryDelay} {
		for range 100 {
			if got := backoff(retryDelay, try); got < longest*3/4 || got > longest {
				t.Fatalf("got pause %v after try %d, want %v to %v", got, try, longest*3/4, longest)
			}
		}
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	strange := fmt.Errorf("x: %w", &strangeAnswer{status: 407})
	for _, tt := range []struct {
		status int
		code   string
		err    error
		x      exchange
		want   outcome
	}{
		{status: 200, want: decided},
		{status: 400, code: "InvalidInput", want: decided},
		{status: 408, want: outOfTime},
		{status: 429, want: tooBusy},
		{status: 500, code: "InternalError", want: failing},
		{status: 500, code: "OperationTimedOut", want: tooBusy},
		{status: 502, want: outOfTime},
		{status: 503, code: "ServerBusy", want: tooBusy},
		{status: 504, want: outOfTime},
		{status: 409, code: "TableBeingDeleted", want: decided},
		{status: 409, code: "TableBeingDeleted", x: exchange{creates: true}, want: deleting},
		{err: io.EOF, want: unanswered},
		{err: noAnswer{time.Second}, want: unanswered},
		{err: strange, want: refused},
		{err: strange, x: exchange{plain: true}, want: decided},
	} {
		var resp *http.Response
		if tt.err == nil {
			resp = &http.Response{StatusCode: tt.status, Header: http.Header{"X-Ms-Error-Code": {tt.code}}}
		}
		if got := tt.x.outcomeOf(resp, tt.err, true); got != tt.want {
			t.Errorf("status %d %s, error %v: got outcome %d, want %d", tt.status, tt.code, tt.err, got, tt.want)
		}
	}
}

// The outcome of a good answer is known without its body, which may be a page of rows.
func TestOutcomeOfGoodAnswersNeedsNoBody(t *testing.T) {
	x := exchange{answer: []byte(`{"value":[{"PartitionKey":"p","RowKey":"r"}]}`)}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
	if n := testing.AllocsPerRun(10, func() { x.outcomeOf(resp, nil, true) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
