package emulator

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"tablesweep/internal/proof"
)

// TestAdministrationIsLocal: requests without a signature are answered only on this machine, at every address of the server.
func TestAdministrationIsLocal(t *testing.T) {
	e, err := New(Options{})
	proof.Must(t, err)
	served := e.pipelines()[0].onlyHosts("0.0.0.0:10002")
	for from, want := range map[string]int{"127.0.0.1:5000": 200, "[::1]:5000": 200, "192.0.2.7:5000": 403, "[fe80::1]:5000": 403, "[::ffff:10.0.0.1]:1": 403, "": 403} {
		for _, method := range []string{"GET", "DELETE"} {
			for _, path := range []string{"/_emulator/counts", "/_emulator/faults"} {
				r, w := httptest.NewRequest(method, "http://localhost:10002"+path, nil), httptest.NewRecorder()
				r.RemoteAddr = from
				if served.ServeHTTP(w, r); w.Code != want {
					t.Errorf("%s %s from %q: %d, want %d", method, path, from, w.Code, want)
				}
			}
		}
	}
	r, w := httptest.NewRequest(http.MethodGet, "http://evil.example/_emulator/counts", nil), httptest.NewRecorder()
	r.RemoteAddr = "127.0.0.1:5000" // from a web page in a browser on this machine
	if served.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("with another host name: status %d, want a refusal", w.Code)
	}
}
