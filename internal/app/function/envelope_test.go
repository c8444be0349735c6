package function_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/app/function"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
)

// TestParseEnvelope reads the forms in the documentation. TestRealHost reads those that the real host sends.
func TestParseEnvelope(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       function.Invocation
	}{
		{
			"documentation's encoding",
			`{"Data":{"myQueueItem":"{\"v\":1}"},"Metadata":{"DequeueCount":1}}`,
			function.Invocation{Body: []byte(`{"v":1}`), Delivery: 1},
		},
		{
			"object",
			`{"Data":{"item":{"v":1}},"Metadata":{}}`,
			function.Invocation{Body: []byte(`{"v":1}`), Delivery: 1},
		},
		{
			"plain text, encoded once",
			`{"Data":{"item":"hello"}}`,
			function.Invocation{Body: []byte(`hello`), Delivery: 1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := function.ParseEnvelope([]byte(tt.body))
			proof.Must(t, err)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("invocation (-want +got)\n%s\nbody %s", diff, got.Body)
			}
		})
	}
}

func TestParseEnvelopeRefusesInvalidRequests(t *testing.T) {
	for _, body := range []string{``, `null`, `[]`, `{}`, `{"Data":{}}`, `{"Data":{"a":"1","b":"2"}}`, `{"Data":`} {
		_, err := function.ParseEnvelope([]byte(body))
		var p *problem.Error
		if !errors.As(err, &p) || p.Kind != problem.Invalid {
			t.Errorf("%s: got %v, want an Invalid problem", body, err)
		}
	}
}

func FuzzParseEnvelope(f *testing.F) {
	f.Add([]byte(`{"Data":{"item":"\"{\\\"v\\\":1}\""},"Metadata":{"DequeueCount":"3"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if i, err := function.ParseEnvelope(body); err == nil && i.Delivery < 1 {
			t.Errorf("delivery %d", i.Delivery)
		}
	})
}
