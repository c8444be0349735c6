package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStorageSettings(t *testing.T) {
	t.Parallel()
	environ := []string{"MINE=UseDevelopmentStorage=true", "THEIRS__accountName=a", "THEIRS__credential=managedidentity", "THEIRSTOO=x"}
	tests := []struct {
		name, storage string
		want          map[string]string
		bad           bool
	}{
		{"embedded", "embedded", nil, false},
		{"the usual setting", "AzureWebJobsStorage", nil, false},
		{"development storage", "UseDevelopmentStorage=true", map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"}, false},
		{"URL", "https://a.table.core.windows.net", map[string]string{"AzureWebJobsStorage": "https://a.table.core.windows.net"}, false},
		{"a setting", "MINE", map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"}, false},
		{"a setting's identity form", "THEIRS", map[string]string{
			"AzureWebJobsStorage__accountName": "a", "AzureWebJobsStorage__credential": "managedidentity",
		}, false},
		{"no setting", "THEIR", nil, true},
		{"mistyped", "Embedded", nil, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := storageSettings(test.storage, environ)
			if diff := cmp.Diff(test.want, got); diff != "" || (err != nil) != test.bad {
				t.Errorf("error %v, settings (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestLocal runs the app of this repository as a user does.
func TestLocal(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "handler", "local", "--root", "..", "--addr", "127.0.0.1:0", "--instances", "2")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdout := bufio.NewReader(pipe)
	line, err := stdout.ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ok {
		_ = cmd.Wait()
		t.Fatalf("stdout %q, %v; stderr:\n%s", line, err, &stderr)
	}
	resp, err := http.Get(url + "/api/scans")
	if err != nil {
		t.Error(err)
	} else if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Errorf("GET /api/scans: status %d", resp.StatusCode)
	}
	if line, err := stdout.ReadString('\n'); line != "console "+url+"/api/console/\n" {
		t.Errorf("the second line on stdout is %q, %v; want the console's address", line, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	rest, _ := io.ReadAll(stdout)
	if err := cmd.Wait(); err != nil || len(rest) > 0 {
		t.Errorf("after an interrupt: %v, more on stdout: %q; stderr:\n%s", err, rest, &stderr)
	}
}
