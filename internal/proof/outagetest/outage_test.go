package outagetest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"tablesweep/internal/proof/outagetest"
)

func TestModes(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	p := outagetest.New(t, "TableEndpoint="+server.URL+"/a")
	url := strings.TrimPrefix(p.Connection, "TableEndpoint=")
	get := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		http.DefaultClient.CloseIdleConnections() // which the proxy has closed
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	for _, m := range []outagetest.Mode{outagetest.Forward, outagetest.Refuse, outagetest.Hang, outagetest.Drop, outagetest.Forward} {
		p.Set(m)
		err := get()
		switch {
		case m == outagetest.Forward && err != nil,
			m == outagetest.Refuse && !errors.Is(err, syscall.ECONNREFUSED),
			m == outagetest.Hang && !errors.Is(err, context.DeadlineExceeded),
			m == outagetest.Drop && (err == nil || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, context.DeadlineExceeded)):
			t.Errorf("mode %d: %v", m, err)
		}
	}
}
