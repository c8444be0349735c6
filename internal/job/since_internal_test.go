package job

import (
	"os"
	"path/filepath"
	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"testing"
	"time"
)

// TestStoredState checks the form of a state. If the form changes, other versions of the program cannot read the state.
func TestStoredState(t *testing.T) {
	t.Parallel()
	const stored = `5b538d1e {"disk":0,"event":{"version":1,"job":{"since":{"from":"https://a/orders","to":"https://b/orders","range":{"prefix":"2026-"},"filter":"V gt 1L","select":"V,W"}},"lines":1}}
549a54ca {"disk":0,"event":{"last":"2031-05-06T12:00:00Z","rows":7}}
`
	about := sinceCopy{From: "https://a/orders", To: "https://b/orders", Range: key.Bounds{Prefix: "2026-"}, Filter: "V gt 1L", Select: "V,W"}
	path := filepath.Join(t.TempDir(), "state")
	began := time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)
	for _, rows := range []int64{3, 4} {
		state, err := openState(path, about, false)
		if err == nil {
			err = (&changes{began: began, state: state}).endCopy(nil, rows)
		}
		proof.Must(t, err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != stored {
		t.Errorf("%v: wrote\n%s", err, text)
	}
	proof.Must(t, os.WriteFile(path, []byte(stored), 0o600))
	if state, err := openState(path, about, true); err != nil || state.was != (success{began, 7}) || state.file.Close() != nil {
		t.Errorf("got the state %+v, error %v", state, err)
	}
}
