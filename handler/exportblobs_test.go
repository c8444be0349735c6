package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"tablesweep/internal/job"
	"tablesweep/internal/proof"
)

// TestCheckpointHasNoSAS: a checkpoint does not contain a command's SAS, and a resume needs it again.
func TestCheckpointHasNoSAS(t *testing.T) {
	t.Parallel()
	to := "https://acme.blob.core.windows.net/backups/orders?sv=1&sig=SECRET"
	point := job.Checkpoint{Command: "copy", New: filepath.Join(t.TempDir(), "c.ckpt")}
	record, err := point.Begin(copyOf(t, "--from", "orders", "--to", to).givenFlags(), job.Facts{})
	if text := string(record.Request); err != nil || strings.Contains(text, "SECRET") || !strings.Contains(text, `"again":["to"]`) {
		t.Error(err, text)
	}
	proof.Must(t, errors.Join(point.File.Renew([]any{struct{}{}}), point.File.Close()))
	for _, tt := range []struct {
		args       []string
		from, want string
	}{{nil, "", "give --to again"}, {[]string{"--to", to}, "orders", ""}} {
		again := job.Checkpoint{Command: "copy", Resume: point.New}
		set, err := again.Open(copyOf(t, tt.args...).givenFlags())
		if set["from"] != tt.from || tt.want == "" && err != nil || tt.want != "" && !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%v: the record's options are %v, error %v", tt.args, set, err)
		}
		if err := again.File.Close(); err != nil {
			t.Error(err)
		}
	}
}
