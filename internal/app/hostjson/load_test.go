package hostjson_test

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/proof"
)

const plainHost = `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"handler"}}}`

func files(host string) fstest.MapFS { return fstest.MapFS{"host.json": {Data: []byte(host)}} }

func load(t *testing.T, fsys fs.FS, settings map[string]string) hostjson.App {
	t.Helper()
	a, err := hostjson.Load(fsys, func(name string) string { return settings[name] })
	proof.Must(t, err)
	return a
}

func TestLoadDefaults(t *testing.T) {
	t.Parallel()
	got := load(t, files(plainHost), nil)
	want := hostjson.App{
		Queues:          hostjson.Queues{BatchSize: 16, NewBatchThreshold: 8, MaxPolling: time.Minute, MaxDequeue: 5, Base64: true},
		FunctionTimeout: 30 * time.Minute,
		Handler:         hostjson.Handler{Executable: "handler", InitTimeout: 30 * time.Second},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
}

func TestLoadAllFields(t *testing.T) {
	t.Parallel()
	fsys := files(`{
		"version": "2.0",
		"functionTimeout": "00:10:00",
		"functions": ["Work"],
		"extensionBundle": {"id": "x", "version": "[4.*, 5.0.0)"},
		"logging": {"logLevel": {"default": "Information"}},
		"extensions": {
			"http": {"routePrefix": "/api/"},
			"queues": {"BatchSize": 32, "newBatchThreshold": 0, "maxPollingInterval": "00:00:02", "visibilityTimeout": "00:00:30",
				"maxDequeueCount": 7, "messageEncoding": "None"}
		},
		"customHandler": {
			"description": {"defaultExecutablePath": "bin/%EXE%", "workingDirectory": "work", "arguments": ["-c", "%ARG%"]},
			"enableForwardingHttpRequest": true, "enableProxyingHttpRequest": true, "initializationTimeout": "00:00:05"
		}
	}`)
	a := load(t, fsys, map[string]string{"EXE": "run", "ARG": "x y"})
	if diff := cmp.Diff(hostjson.Queues{BatchSize: 32, MaxPolling: 2 * time.Second, Visibility: 30 * time.Second, MaxDequeue: 7}, a.Queues); diff != "" {
		t.Errorf("queues (-want +got):\n%s", diff)
	}
	handler := hostjson.Handler{
		Executable: "bin/run", Arguments: []string{"-c", "x y"}, Directory: "work", Proxy: true, InitTimeout: 5 * time.Second,
	}
	if diff := cmp.Diff(handler, a.Handler); diff != "" {
		t.Errorf("handler (-want +got):\n%s", diff)
	}
	if !slices.Equal(a.OnlyFunctions, []string{"Work"}) || a.FunctionTimeout != 10*time.Minute {
		t.Errorf("got functions %v, functionTimeout %v", a.OnlyFunctions, a.FunctionTimeout)
	}
}

// TestSettingsReplaceHostJSON: a setting replaces a field of any type, present or absent. A setting of a wrong type is
// reported.
func TestSettingsReplaceHostJSON(t *testing.T) {
	t.Parallel()
	settings := map[string]string{
		"AzureFunctionsJobHost__extensions__queues__maxPollingInterval":   "00:00:02",
		"AzureFunctionsJobHost__extensions__queues__batchSize":            "3",
		"AzureFunctionsJobHost__customHandler__enableProxyingHttpRequest": "true",
		"AzureFunctionsJobHost__functionTimeout":                          "00:01:00",
	}
	got := load(t, files(strings.Replace(plainHost, `"customHandler"`, `"extensions":{"queues":{"batchSize":7}},"customHandler"`, 1)), settings)
	if got.Queues.MaxPolling != 2*time.Second || got.Queues.BatchSize != 3 || !got.Handler.Proxy || got.FunctionTimeout != time.Minute {
		t.Errorf("loaded %+v", got)
	}
	_, err := hostjson.Load(files(plainHost), func(name string) string {
		return map[string]string{"AzureFunctionsJobHost__extensions__queues__batchSize": "many"}[name]
	})
	if err == nil || !strings.Contains(err.Error(), "extensions.queues.batchSize must be a whole number, not many") {
		t.Errorf("error %v", err)
	}
}

func TestLoadReportsAllMistakes(t *testing.T) {
	t.Parallel()
	fsys := files(`{
		"version": "3",
		"functionTimout": "00:10:00",
		"functionTimeout": "ten",
		"extensions": {"http": {"routePrefix": "v1"}, "queues": {"batchSize": 33, "newBatchThreshold": "many", "maxPollingInterval": "00:00:00.05",
			"maxDequeueCount": 0, "messageEncoding": "utf8", "batchsizes": 1}},
		"customHandler": {"description": {"workingDirectory": "../other", "arguments": ["%MISSING%"]}, "enableProxyingHttpRequest": "yes"}
	}`)
	_, err := hostjson.Load(fsys, func(string) string { return "" })
	if err == nil {
		t.Fatal("Load accepted all mistakes")
	}
	for _, want := range []string{
		`host.json: version must be "2.0", not "3"`,
		`host.json: functionTimout is unknown`,
		`host.json: functionTimeout: "ten" is not a time span`,
		`host.json: extensions.queues.batchSize must be 1 to 32, not 33`,
		`host.json: extensions.http.routePrefix must be "api", not "v1"`,
		`host.json: extensions.queues.newBatchThreshold must be a whole number, not "many"`,
		`host.json: extensions.queues.maxPollingInterval: must be 00:00:00.1 to 1.00:00:00`,
		`host.json: extensions.queues.maxDequeueCount must be 1`,
		`host.json: extensions.queues.messageEncoding must be "base64" or "none", not "utf8"`,
		`host.json: extensions.queues.batchsizes is unknown`,
		`host.json: customHandler.description.defaultExecutablePath is missing`,
		`host.json: customHandler.description.workingDirectory must lie inside the app`,
		`host.json: customHandler.enableProxyingHttpRequest must be true or false, not "yes"`,
		`host.json: customHandler.description.arguments[0]: setting MISSING is missing`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no problem contains %s", want)
		}
	}
	if t.Failed() {
		t.Logf("the problems are:\n%v", err)
	}
}

func TestNoFunctionTimeout(t *testing.T) {
	t.Parallel()
	for _, v := range []string{`"-1"`, `-1`, `"-00:00:01"`} {
		a := load(t, files(`{"functionTimeout":`+v+`,`+plainHost[1:]), nil)
		if a.FunctionTimeout != 0 {
			t.Errorf("functionTimeout %s: got %v, want no limit", v, a.FunctionTimeout)
		}
	}
}

func TestLocalSettings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file string
		want       map[string]string
		err        string
	}{
		{"absent", "", nil, ""},
		{"values", `{"IsEncrypted":false,"Values":{"A":"1","B":""},"Host":{"CORS":"*"}}`, map[string]string{"A": "1", "B": ""}, ""},
		{"encrypted", `{"IsEncrypted":true,"Values":{}}`, nil, "is encrypted"},
		{"no strings", `{"Values":{"A":1}}`, nil, "Values must be an object whose values are strings"},
		{"twice", `{"Values":{"a__clientId":"1","B":"2","A__clientID":"3"}}`, nil, "A__clientID and a__clientId differ only in upper and lower case; remove one"},
		{"mistyped", `{"Value":{"A":"1"}}`, nil, "local.settings.json: Value is unknown"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			fsys := fstest.MapFS{}
			if test.file != "" {
				fsys["local.settings.json"] = &fstest.MapFile{Data: []byte(test.file)}
			}
			got, err := hostjson.LocalSettings(fsys)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("error %v, settings (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestOwnApp: the app in this repository loads.
func TestOwnApp(t *testing.T) {
	t.Parallel()
	a := load(t, os.DirFS("../../.."), nil)
	if a.Handler.Executable != "bin/tablesweep" {
		t.Errorf("loaded %+v", a)
	}
}
