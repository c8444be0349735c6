package function_test

import (
	"strings"
	"testing"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
)

// A scan of a table that is being deleted is refused, and the answer has the time after which to retry.
func TestScanOfTableBeingDeleted(t *testing.T) {
	t.Parallel()
	em := emulatortest.New(t, emulator.Options{})
	a := newAppVia(t, em, em.Transport())
	proof.Must(t, em.SetFaults("deletion=1h"))
	gone := a.account.Table("Gone")
	proof.Must(t, gone.Create(t.Context()))
	proof.Must(t, gone.Delete(t.Context()))
	for field, body := range map[string]string{
		"source.table":             `{"source":{"table":"Gone"},"action":{"type":"count"}}`,
		"action.destination.table": `{"source":{"table":"Source"},"action":{"type":"copy","destination":{"table":"Gone"}}}`,
	} {
		w := a.send("POST", "/api/scans", body)
		if got := w.Body.String(); w.Code != 409 || w.Header().Get("Retry-After") != "10" || !strings.Contains(got, field) || !strings.Contains(got, "is being deleted; try again in a minute") {
			t.Errorf("%s: status %d, Retry-After %q, body %s", field, w.Code, w.Header().Get("Retry-After"), got)
		}
	}
}
