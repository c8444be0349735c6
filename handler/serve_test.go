package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/emulator"
)

// environment gives serve its settings.
func environment(t *testing.T, settings map[string]string) func(string) string {
	t.Helper()
	e, err := emulator.New(emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := e.Serve(t.Context(), "127.0.0.1:0", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return func(name string) string {
		if v, ok := settings[name]; ok {
			return v
		}
		return map[string]string{"AzureWebJobsStorage": server.ConnectionString(), "TABLESWEEP_LOG_LEVEL": "error"}[name]
	}
}

// freePort returns a port of this machine that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

func TestServeListensOnLoopbackAlone(t *testing.T) {
	port := freePort(t)
	for _, name := range portVariables {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- serve(ctx, environment(t, map[string]string{name: port})) }()
			for {
				resp, err := http.Get("http://127.0.0.1:" + port + "/")
				if err == nil {
					resp.Body.Close()
					break
				}
				select {
				case err := <-ended:
					t.Fatal(err)
				case <-time.After(25 * time.Millisecond): // as the host asks
				}
			}
			// Another address of this machine must not answer: the port is free there.
			l, err := net.Listen("tcp", "127.0.0.2:"+port)
			if err != nil {
				t.Errorf("the handler listens on other addresses, too: %v", err)
			} else {
				l.Close()
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestServeSaysWhatIsMissing(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings map[string]string
		want     string
	}{
		{"no host", map[string]string{}, "FUNCTIONS_CUSTOMHANDLER_PORT"},
		{"bad setting", map[string]string{portVariables[0]: "1", "TABLESWEEP_STATE_TABLE": "a_b"}, "TABLESWEEP_STATE_TABLE"},
		{"wrong key", map[string]string{portVariables[0]: freePort(t), "AzureWebJobsStorage": "AccountName=devstoreaccount1;AccountKey=c2VjcmV0;TableEndpoint=ENDPOINT"}, "AzureWebJobsStorage"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			good := environment(t, nil)("AzureWebJobsStorage")
			_, endpoint, _ := strings.Cut(good, "TableEndpoint=")
			if v, ok := tt.settings["AzureWebJobsStorage"]; ok {
				tt.settings["AzureWebJobsStorage"] = strings.Replace(v, "ENDPOINT", endpoint, 1)
			}
			err := serve(t.Context(), environment(t, tt.settings))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "c2VjcmV0") {
				t.Errorf("got %v, want an error with %s", err, tt.want)
			}
		})
	}
}
