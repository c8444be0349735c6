package app_test

import (
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/host/app"
)

const (
	plainHost  = `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"handler"}}}`
	plainQueue = `{"bindings":[{"type":"queueTrigger","direction":"in","name":"item","queueName":"work"}]}`
)

// files makes an app of a host.json, the function.json of one function called
// Work, and others by path.
func files(host, function string, others ...string) fstest.MapFS {
	m := fstest.MapFS{"host.json": {Data: []byte(host)}, "Work/function.json": {Data: []byte(function)}}
	for i := 0; i < len(others); i += 2 {
		m[others[i]] = &fstest.MapFile{Data: []byte(others[i+1])}
	}
	return m
}

func load(t *testing.T, fsys fs.FS, settings map[string]string) app.App {
	t.Helper()
	a, err := app.Load(fsys, func(name string) string { return settings[name] })
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestLoadDefaults(t *testing.T) {
	t.Parallel()
	got := load(t, files(plainHost, plainQueue), nil)
	want := app.App{
		Queues:          app.Queues{BatchSize: 16, NewBatchThreshold: 8, MaxPolling: time.Minute, MaxDequeue: 5, Base64: true},
		FunctionTimeout: 30 * time.Minute,
		RoutePrefix:     "api",
		Handler:         app.Handler{Executable: "handler", InitTimeout: 30 * time.Second},
		Functions: []app.Function{{
			Name: "Work", Binding: "item", Queue: &app.QueueTrigger{Queue: "work", Connection: "AzureWebJobsStorage"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
}

func TestLoadEverything(t *testing.T) {
	t.Parallel()
	fsys := files(`{
		"version": "2.0",
		"functionTimeout": "00:10:00",
		"extensionBundle": {"id": "x", "version": "[4.*, 5.0.0)"},
		"logging": {"logLevel": {"default": "Information"}},
		"extensions": {
			"http": {"routePrefix": "/v1/"},
			"queues": {"BatchSize": 32, "newBatchThreshold": 0, "maxPollingInterval": "00:00:02", "visibilityTimeout": "00:00:30",
				"maxDequeueCount": 7, "messageEncoding": "None"}
		},
		"customHandler": {
			"description": {"defaultExecutablePath": "bin/%EXE%", "workingDirectory": "work", "arguments": ["-c", "%ARG%"]},
			"enableForwardingHttpRequest": true, "enableProxyingHttpRequest": true, "initializationTimeout": "00:00:05"
		}
	}`,
		`{"bindings":[{"type":"queueTrigger","direction":"in","name":"item","queueName":"q-%NAME%","connection":"Other"}]}`,
		"Get/function.json", `{"bindings":[
			{"type":"http","direction":"out","name":"res"},
			{"type":"httpTrigger","direction":"in","name":"req","authLevel":"admin","route":"things/{id?}","methods":["get","Post"]}]}`,
		"Open/function.json", `{"bindings":[{"type":"httpTrigger","direction":"in","name":"req","authLevel":"Anonymous"}]}`,
		"Tick/function.json", `{"bindings":[{"type":"timerTrigger","direction":"in","name":"t","schedule":"0 */5 * * * *","runOnStartup":true}]}`,
		"Fast/function.json", `{"bindings":[{"type":"timerTrigger","direction":"in","name":"t","schedule":"00:00:05"}]}`,
		"Off/function.json", `{"disabled":true,`+plainQueue[1:],
		"OffToo/function.json", plainQueue,
		"docs/readme.md", "no function",
	)
	a := load(t, fsys, map[string]string{"EXE": "run", "ARG": "x y", "NAME": "one", "AzureWebJobs.OffToo.Disabled": "true"})
	if diff := cmp.Diff(app.Queues{BatchSize: 32, MaxPolling: 2 * time.Second, Visibility: 30 * time.Second, MaxDequeue: 7}, a.Queues); diff != "" {
		t.Errorf("queues (-want +got):\n%s", diff)
	}
	handler := app.Handler{
		Executable: "bin/run", Arguments: []string{"-c", "x y"}, Directory: "work", Forward: true, Proxy: true, InitTimeout: 5 * time.Second,
	}
	if diff := cmp.Diff(handler, a.Handler); diff != "" {
		t.Errorf("handler (-want +got):\n%s", diff)
	}
	if a.RoutePrefix != "v1" || a.FunctionTimeout != 10*time.Minute {
		t.Errorf("routePrefix %q, functionTimeout %v", a.RoutePrefix, a.FunctionTimeout)
	}
	functions := map[string]app.Function{}
	for _, f := range a.Functions {
		functions[f.Name] = f
	}
	if names := slices.Sorted(maps.Keys(functions)); !slices.Equal(names, []string{"Fast", "Get", "Open", "Tick", "Work"}) {
		t.Fatalf("functions %v", names)
	}
	if q := *functions["Work"].Queue; q != (app.QueueTrigger{Queue: "q-one", Connection: "Other"}) {
		t.Errorf("queue trigger %+v", q)
	}
	get, open := functions["Get"], functions["Open"]
	if get.HTTP.Route.String() != "things/{id?}" || !slices.Equal(get.HTTP.Methods, []string{"GET", "POST"}) ||
		get.HTTP.AuthLevel != app.Admin || get.HTTP.Output != "res" || get.Binding != "req" || !get.Plain() {
		t.Errorf("http trigger %+v", get.HTTP)
	}
	if open.HTTP.Route.String() != "Open" || open.HTTP.AuthLevel != app.Anonymous || open.HTTP.Methods != nil || open.Plain() {
		t.Errorf("http trigger without route and output %+v", open.HTTP)
	}
	if tick := functions["Tick"].Timer; !tick.RunOnStartup || !tick.UseMonitor || tick.Schedule.Interval() {
		t.Errorf("timer trigger %+v", tick)
	}
	if fast := functions["Fast"].Timer; fast.UseMonitor || !fast.Schedule.Interval() {
		t.Error("a schedule of 5 s is monitored: the host doesn't below a minute")
	}
}

// TestSettingsReplaceHostJSON: any type of field, there or not; a wrong one is reported.
func TestSettingsReplaceHostJSON(t *testing.T) {
	t.Parallel()
	settings := map[string]string{
		"AzureFunctionsJobHost__extensions__queues__maxPollingInterval":   "00:00:02",
		"AzureFunctionsJobHost__extensions__queues__batchSize":            "3",
		"AzureFunctionsJobHost__customHandler__enableProxyingHttpRequest": "true",
		"AzureFunctionsJobHost__functionTimeout":                          "00:01:00",
	}
	got := load(t, files(strings.Replace(plainHost, `"customHandler"`, `"extensions":{"queues":{"batchSize":7}},"customHandler"`, 1), plainQueue), settings)
	if got.Queues.MaxPolling != 2*time.Second || got.Queues.BatchSize != 3 || !got.Handler.Proxy || got.FunctionTimeout != time.Minute {
		t.Errorf("loaded %+v", got)
	}
	_, err := app.Load(files(plainHost, plainQueue), func(name string) string {
		return map[string]string{"AzureFunctionsJobHost__extensions__queues__batchSize": "many"}[name]
	})
	if err == nil || !strings.Contains(err.Error(), "extensions.queues.batchSize must be a whole number, not many") {
		t.Errorf("error %v", err)
	}
}

func TestLoadReportsEverythingWrong(t *testing.T) {
	t.Parallel()
	fsys := files(`{
		"version": "3",
		"functionTimout": "00:10:00",
		"functionTimeout": "ten",
		"extensions": {"queues": {"batchSize": 33, "newBatchThreshold": "many", "maxPollingInterval": "00:00:00.05",
			"maxDequeueCount": 0, "messageEncoding": "utf8", "batchsizes": 1}},
		"customHandler": {"description": {"workingDirectory": "../other"}, "enableForwardingHttpRequest": "yes"}
	}`,
		`{"bindings":[{"type":"queueTrigger","direction":"out","name":"1item","queueName":"Bad_Name","conection":"X"}],"retry":{}}`,
		"None/function.json", `{"bindings":[]}`,
		"Two/function.json", `{"bindings":[
			{"type":"timerTrigger","direction":"in","name":"t","schedule":"0 0 0 31 2 *"},
			{"type":"queueTrigger","direction":"in","name":"q","queueName":"%MISSING%-q"}]}`,
		"Web/function.json", `{"bindings":[{"type":"httpTrigger","direction":"in","name":"req","route":"a/{id:int}","authLevel":"user"}]}`,
		"Blob/function.json", `{"bindings":[{"type":"blobTrigger","direction":"in","name":"b"}]}`,
		"Broken/function.json", `{`,
		"bad name/function.json", plainQueue,
	)
	_, err := app.Load(fsys, func(string) string { return "" })
	if err == nil {
		t.Fatal("Load accepted it all")
	}
	for _, want := range []string{
		`host.json: version must be "2.0", not "3"`,
		`host.json: functionTimout: unknown`,
		`host.json: functionTimeout: "ten" is not a time span`,
		`host.json: extensions.queues.batchSize must be 1 to 32, not 33`,
		`host.json: extensions.queues.newBatchThreshold must be a whole number, not "many"`,
		`host.json: extensions.queues.maxPollingInterval: must be 00:00:00.1 to 1.00:00:00`,
		`host.json: extensions.queues.maxDequeueCount must be 1`,
		`host.json: extensions.queues.messageEncoding must be "base64" or "none", not "utf8"`,
		`host.json: extensions.queues.batchsizes: unknown`,
		`host.json: customHandler.description.defaultExecutablePath is missing`,
		`host.json: customHandler.description.workingDirectory must lie inside the app`,
		`host.json: customHandler.enableForwardingHttpRequest must be true or false, not "yes"`,
		`Work/function.json: bindings[0].direction must be "in", not "out"`,
		`Work/function.json: bindings[0].name "1item"`,
		`Work/function.json: bindings[0].queueName: queue name "Bad_Name"`,
		`Work/function.json: bindings[0].conection: unknown`,
		`Work/function.json: retry: unknown, or not supported by the local host`,
		`None/function.json: bindings has no trigger`,
		`Two/function.json: bindings[0].schedule: "0 0 0 31 2 *" never fires`,
		`Two/function.json: bindings[1].type: a second trigger`,
		`Two/function.json: bindings[1].queueName: setting MISSING is missing`,
		`Web/function.json: bindings[0].route: route "a/{id:int}"`,
		`Web/function.json: bindings[0].authLevel must be anonymous, function or admin, not "user"`,
		`Blob/function.json: bindings[0].type: "blobtrigger" is not supported`,
		`Broken/function.json: not a JSON object`,
		`bad name/function.json: "bad name" can't be a function's name`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no problem says %s", want)
		}
	}
	if t.Failed() {
		t.Logf("the problems are:\n%v", err)
	}
}

func TestFunctionTimeoutNone(t *testing.T) {
	t.Parallel()
	for _, v := range []string{`"-1"`, `-1`, `"-00:00:01"`} {
		a := load(t, files(`{"functionTimeout":`+v+`,`+plainHost[1:], plainQueue), nil)
		if a.FunctionTimeout != 0 {
			t.Errorf("functionTimeout %s is %v, want none", v, a.FunctionTimeout)
		}
	}
}

func TestLoadOnlyListedFunctions(t *testing.T) {
	t.Parallel()
	a := load(t, files(`{"functions":["other"],`+plainHost[1:], plainQueue, "Other/function.json", plainQueue), nil)
	if len(a.Functions) != 1 || a.Functions[0].Name != "Other" {
		t.Errorf("functions %v, want Other alone", a.Functions)
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
		{"twice", `{"Values":{"a__clientId":"1","B":"2","A__clientID":"3"}}`, nil, "A__clientID and a__clientId differ in case alone; remove one"},
		{"mistyped", `{"Value":{"A":"1"}}`, nil, "local.settings.json: Value: unknown"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			fsys := fstest.MapFS{}
			if test.file != "" {
				fsys["local.settings.json"] = &fstest.MapFile{Data: []byte(test.file)}
			}
			got, err := app.LocalSettings(fsys)
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
	if len(a.Functions) == 0 || a.Handler.Executable != "bin/handler" {
		t.Errorf("loaded %+v", a)
	}
}
