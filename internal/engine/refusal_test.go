package engine_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
)

// forbidding is a transport on which the service forbids requests whose address or
// body has some text in it.
type forbidding struct {
	policy.Transporter
	text string
}

func (f forbidding) Do(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if !strings.Contains(r.URL.Path+string(body), f.text) {
		return f.Transporter.Do(r)
	}
	return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// TestErrorsNameTheAction has the service refuse what a scan's action does. The scan's
// error must say what failed.
func TestErrorsNameTheAction(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		action      engine.Action
		forbid, say string
	}{
		{engine.Action{Type: engine.Copy, Destination: &engine.TableRef{Table: "Target"}}, "/Target(", "write to the destination: write to table Target: 403"},
		{engine.Action{Type: engine.Keys, Destination: &engine.TableRef{Table: "Target"}}, "/Target(", "write to the destination: write to table Target: 403"},
		{engine.Action{Type: engine.Delete}, "/Source(PartitionKey", "delete rows: delete from table Source: 403"},
		{engine.Action{Type: engine.Enqueue, Queue: &engine.QueueRef{Name: "work"}}, "/work/messages", "enqueue messages: put into queue work: 403"},
	} {
		t.Run(tt.action.Type, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, emulator.Options{})
			w.fill("Source", plainRows(3, 2))
			id := w.start(request(tt.action))
			w.process.Next = forbidding{w.process.Next, tt.forbid}
			w.drain()
			if s := w.status(id); s.State != ledger.Failed || !strings.HasPrefix(s.Error, tt.say) {
				t.Errorf("state %s, error %q; want one that begins with %q", s.State, s.Error, tt.say)
			}
		})
	}
}
