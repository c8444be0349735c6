package function_test

import (
	"strings"
	"testing"

	"tablesweep/internal/emulator"
	"tablesweep/internal/proof/emulatortest"
)

// A scan from or to what is being deleted is refused, and its caller learns when to try again.
func TestScanOfWhatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	em := emulatortest.New(t, emulator.Options{})
	a := newAppVia(t, em, em.Transport())
	if err := em.SetFaults("deletion=1h"); err != nil {
		t.Fatal(err)
	}
	gone := a.account.Table("Gone")
	if err := gone.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := gone.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	for field, body := range map[string]string{
		"source.table":             `{"source":{"table":"Gone"},"action":{"type":"count"}}`,
		"action.destination.table": `{"source":{"table":"Source"},"action":{"type":"copy","destination":{"table":"Gone"}}}`,
	} {
		w := a.send("POST", "/api/scans", body)
		if got := w.Body.String(); w.Code != 409 || w.Header().Get("Retry-After") != "10" || !strings.Contains(got, field) || !strings.Contains(got, "is being deleted; try again in a minute") {
			t.Errorf("%s: %d, Retry-After %q: %s", field, w.Code, w.Header().Get("Retry-After"), got)
		}
	}
}
