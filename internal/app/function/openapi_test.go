package function_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"tablesweep/docs"
	"tablesweep/internal/app/function"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/scans/schedule"
	"tablesweep/internal/storage"
)

// openAPI is docs/openapi.json, and the documented answers that the test has seen.
type openAPI struct {
	*testing.T
	compiler *jsonschema.Compiler
	paths    map[string]map[string]json.RawMessage
	shared   map[string]map[string]part // components, by kind and name
	seen     map[string]bool            // "METHOD path status"
}

// operation contains the fields of an operation that this test reads.
type operation struct {
	RequestBody part
	Responses   map[string]part
}

// part is a body or an answer of an operation, or a reference to a shared part.
type part struct {
	Ref              string `json:"$ref"`
	Content, Headers map[string]json.RawMessage
}

// resolve returns the part at a place. If the part refers to a shared one, resolve returns that part and its place.
func (o *openAPI) resolve(p part, place ...string) (part, []string) {
	if p.Ref != "" {
		place = strings.Split(strings.TrimPrefix(p.Ref, "#/"), "/")
		p = o.shared[place[1]][place[2]]
	}
	return p, place
}

func readOpenAPI(t *testing.T) *openAPI {
	t.Helper()
	o := &openAPI{T: t, compiler: jsonschema.NewCompiler(), seen: map[string]bool{}}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(docs.OpenAPI))
	proof.Must(t, err)
	o.compiler.DefaultDraft(jsonschema.Draft2020)
	o.compiler.AssertFormat()
	proof.Must(t, o.compiler.AddResource("openapi.json", whole))
	var document struct {
		Paths      map[string]map[string]json.RawMessage
		Components map[string]map[string]part
	}
	proof.Must(t, json.Unmarshal(docs.OpenAPI, &document))
	o.paths, o.shared = document.Paths, document.Components
	return o
}

// find returns the documented path and the operation of a call.
func (o *openAPI) find(method, at string) (path string, op operation) {
	o.Helper()
	at, _, _ = strings.Cut(at, "?")
	sent := strings.Split(at, "/")
	least := 10 // fewest parameters in a path: /api/scans/estimate is not a scan's path
	for candidate := range o.paths {
		if parameters := strings.Count(candidate, "{"); parameters < least && isAt(strings.Split(candidate, "/"), sent) {
			path, least = candidate, parameters
		}
	}
	text, ok := o.paths[path][strings.ToLower(method)]
	if !ok {
		o.Fatalf("%s %s is not documented", method, at)
	}
	proof.Must(o, json.Unmarshal(text, &op))
	return path, op
}

// isAt reports whether a path has a documented form.
func isAt(form, path []string) bool {
	for i, part := range form {
		if i >= len(path) || part != path[i] && !strings.HasPrefix(part, "{") {
			return false
		}
	}
	return len(form) == len(path)
}

// fits compares a JSON text with the schema at a place in the document.
func (o *openAPI) fits(what string, text []byte, place ...string) {
	o.Helper()
	pointer := "openapi.json#"
	for _, part := range place {
		pointer += "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
	}
	schema, err := o.compiler.Compile(pointer)
	if err != nil {
		o.Fatalf("%s: %v", what, err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		o.Errorf("%s: %v\nin %.1000s", what, err, text)
	}
}

// play makes a call, and compares the call and its answer with the document.
func (o *openAPI) play(a *app, status int, method, at, body string, header ...string) *httptest.ResponseRecorder {
	o.Helper()
	path, op := o.find(method, at)
	w := a.send(method, at, body, header...)
	what := fmt.Sprintf("%s %s: %d", method, at, w.Code)
	if w.Code != status {
		o.Fatalf("%s, want %d: %s", what, status, w.Body)
	}
	method = strings.ToLower(method)
	if body != "" && status < 400 {
		kind := "application/json"
		if i := slices.Index(header, "Content-Type"); i >= 0 {
			kind = header[i+1]
		}
		sent, place := o.resolve(op.RequestBody, "paths", path, method, "requestBody")
		if _, ok := sent.Content[kind]; !ok {
			o.Errorf("%s: a body of type %s is not documented", what, kind)
		} else if kind != "application/x-ndjson" {
			o.fits(what+", request", []byte(body), append(place, "content", kind, "schema")...)
		}
	}
	if status >= 400 && w.Header().Get("Content-Type") == "application/problem+json" {
		o.fits(what, w.Body.Bytes(), "components", "schemas", "Problem")
		return w
	}
	answer, ok := op.Responses[fmt.Sprint(status)]
	if !ok {
		o.Fatalf("%s is not documented", what)
	}
	documented, place := o.resolve(answer, "paths", path, method, "responses", fmt.Sprint(status))
	o.seen[fmt.Sprintf("%s %s %d", method, path, status)] = true
	for _, name := range []string{"ETag", "Location", "Link", "Preference-Applied"} {
		if _, ok := documented.Headers[name]; !ok && w.Header().Get(name) != "" {
			o.Errorf("%s: its header %s is not documented", what, name)
		}
	}
	if len(documented.Content) == 0 {
		if w.Body.Len() > 0 {
			o.Errorf("%s: %s, want no body", what, w.Body)
		}
		return w
	}
	o.fits(what, w.Body.Bytes(), append(place, "content", w.Header().Get("Content-Type"), "schema")...)
	return w
}

// TestDocumentedCalls: the calls in docs/api.md are in docs/openapi.json.
func TestDocumentedCalls(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/api.md")
	proof.Must(t, err)
	calls := regexp.MustCompile("`((?:GET|POST|PUT|PATCH|DELETE)) (/api/[^`? ,]*)").FindAllSubmatch(text, -1)
	if len(calls) < 20 {
		t.Errorf("docs/api.md has only %d calls", len(calls))
	}
	o := readOpenAPI(t)
	for _, call := range calls {
		if string(call[2]) == "/api/console/" { // a page, which is not part of the API
			continue
		}
		o.find(string(call[1]), string(call[2]))
	}
}

// TestOpenAPI makes every documented call, and gets every documented good answer. Each answer fits its schema.
func TestOpenAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := readOpenAPI(t)
		em := emulatortest.New(t, emulator.Options{})
		a := newAppVia(t, em, em.Transport())
		schedules, err := schedule.ParseSchedules(`[{"name":"nightly","cron":"0 0 3 1 1 *","request":{"source":{"table":"Source"},"action":{"type":"copy","destination":{"container":"backups","prefix":"{date}"}}}}]`)
		proof.Must(t, err)
		e, err := engine.New(scans.Options{Own: a.account, Accounts: map[string]*storage.Account{"AzureWebJobsStorage": a.account}, StateTable: "tablesweep"}, schedules...)
		proof.Must(t, err)
		a.parts.Engine = *e
		a.parts.SchedulesErr = errors.New("schedules: one is wrong")
		a.Handler = function.Handler(function.Functions(a.parts), function.Host{}, zerolog.Nop())
		o.playScans(a)
		o.playSchedules(a)
		o.playCatalog(a, "/api/catalog", `{"eid":"1","lastname":"A","npi":7,"tags":["x"]}`, `{"eid":"2","lastname":"B"}`, `{"npi":9}`)
		o.playCatalog(a, "/api/catalog/visits", `{"eid":"1","at":"2026-01-01","n":1.5}`, `{"eid":"2","at":"2026-01-02"}`, `{"n":9}`)
		o.playStreams(a)
		o.play(a, 200, "GET", "/api/catalog", "")
		o.play(a, 200, "GET", "/api/openapi.json", "")
		proof.Must(t, em.SetFaults("busy p=1"))
		time.Sleep(time.Minute) // a recent health report would be reused
		o.play(a, 503, "GET", "/api/health", "")
		o.play(a, 503, "GET", "/api/scans", "")
		for path, methods := range o.paths {
			for method, text := range methods {
				var op operation
				if method == "parameters" || json.Unmarshal(text, &op) != nil {
					continue
				}
				for status := range op.Responses {
					if !strings.HasSuffix(status, "XX") && !o.seen[method+" "+path+" "+status] {
						t.Errorf("the test does not make the call %s %s with the answer %s", method, path, status)
					}
				}
			}
		}
	})
}

func (o *openAPI) playScans(a *app) {
	o.play(a, 200, "GET", "/api/health", "")
	location := o.play(a, 202, "POST", "/api/scans", `{"source":{"table":"Source"},"action":{"type":"copy","destination":{"table":"Target"},"mode":"merge"},"range":{"prefix":"1"}}`).Header().Get("Location")
	o.play(a, 400, "POST", "/api/scans", `{"source":{},"action":{}}`)
	o.play(a, 200, "POST", "/api/scans/estimate", countBody)
	for _, part := range []string{"", "/AzureWebJobsStorage/tables", "/AzureWebJobsStorage/queues"} {
		o.play(a, 200, "GET", "/api/scans/connections"+part, "")
	}
	o.play(a, 404, "GET", "/api/scans/connections/none/tables", "")
	o.play(a, 200, "GET", "/api/scans?state=running&action=copy&table=target&name=x&since=1h", "")
	for _, part := range []string{"", "/timeline", "/ranges", "/failed?top=1"} {
		o.play(a, 200, "GET", location+part, "")
	}
	o.play(a, 202, "DELETE", location, "")
	o.play(a, 200, "GET", "/api/scans?top=5", "")
	o.play(a, 400, "POST", location+"/retry", `{"rows":"all"}`)
	o.play(a, 409, "POST", location+"/retry", `{"rows":"failed"}`)
	o.play(a, 202, "POST", location+"/retry", `{}`)                // same as without a body
	o.play(a, 202, "POST", location+"/retry", `{"rows":"failed"}`) // the scan runs; a host may send a request twice
	o.play(a, 404, "GET", "/api/scans/none", "")
	group := o.play(a, 202, "POST", "/api/scans", `{"source":{"tables":"Source*,Target"},"action":{"type":"count"}}`).Header().Get("Location")
	o.play(a, 200, "GET", group, "")
	o.play(a, 409, "GET", group+"/ranges", "")
	o.play(a, 200, "GET", group+"/members?top=1&state=running", "")
	o.play(a, 404, "GET", location+"/members", "")
	compared := o.play(a, 202, "POST", "/api/scans", `{"source":{"table":"Source"},"action":{"type":"verify","destination":{"table":"Target"},"allowExtra":true}}`).Header().Get("Location")
	o.play(a, 200, "GET", compared, "")
	o.play(a, 202, "POST", "/api/scans", `{"source":{"table":"Source"},"action":{"type":"copy","destination":{"container":"backup","prefix":"p"}},"verify":true}`)
	o.play(a, 200, "GET", "/api/scans", "")
}

// backupFormat1 is a backup's row in format 1.
const backupFormat1 = `{"id":"2524556158199999999-fi5wfn","occurrence":"2000-01-01T03:00:00Z","finishedAt":"2000-01-01T03:00:09Z","place":{"container":"backups","prefix":"it's 1","connection":"OTHER"},"table":"Source","rows":3,"proof":{"id":"2524556158199999999-fi5wfn-v","state":"failed","error":"no"},"deleting":{"files":7},"error":"refused"}`

func (o *openAPI) playSchedules(a *app) {
	o.play(a, 200, "GET", "/api/health", "") // checks the backups
	at := "/api/schedules/nightly/backups"
	o.play(a, 404, "GET", "/api/schedules/none/backups", "")
	state := a.account.Table("tablesweep")
	for _, id := range []string{"1", "2"} {
		row := storage.Entity{Key: key.Key{Partition: "scans", Row: "b|nightly|" + id}, Properties: []storage.Property{storage.Int64Property("Version", 1), storage.BinaryProperty("Data", []byte(backupFormat1))}}
		proof.Must(o, state.Write(o.Context(), storage.Op{Row: row.Row()}))
	}
	got := o.play(a, 200, "GET", at+"?top=1", "").Body.String()
	for _, want := range []string{strings.TrimSuffix(backupFormat1, "}"), `"restore":"tablesweep import --from 'blob:backups/it'\\''s 1' --to NEW_TABLE --from-connection OTHER --to-connection WHERE --verify"`, `"cursor":"2524556158199999999-fi5wfn"`} {
		if !strings.Contains(got, want) {
			o.Errorf("%s, want %s", got, want)
		}
	}
	o.play(a, 202, "POST", "/api/schedules/nightly/run", "")
	o.play(a, 202, "POST", "/api/schedules/nightly/run", "") // with the id of the same invocation
	o.play(a, 409, "POST", "/api/schedules/nightly/run", "", "X-Azure-Functions-InvocationId", "0d26e0c9-3c8c-4c2c-9e53-30a9e8d4c5a1")
	o.play(a, 404, "POST", "/api/schedules/none/run", "")
	// A row in format 1, of a schedule that is not in the settings.
	const gone = `{"since":"2000-01-01T00:00:00Z","decided":"2000-01-03T03:00:00Z","last":{"id":"2524556158199999999-fi5wfn","occurrence":"2000-01-03T03:00:00Z","state":"failed","error":"no"},"asked":"2000-01-03T03:00:01Z","success":{"id":"2524556158299999999-fi5wfn","occurrence":"2000-01-02T03:00:00Z","state":"succeeded"},"missed":{"count":2,"last":"2000-01-03T03:00:00Z"},"skipped":{"count":0},"kept":"2524556158299999999-fi5wfn"}`
	row := storage.Entity{Key: key.Key{Partition: "scans", Row: "s|gone"}, Properties: []storage.Property{storage.Int64Property("Version", 1), storage.BinaryProperty("Data", []byte(gone))}}
	proof.Must(o, state.Write(o.Context(), storage.Op{Row: row.Row()}))
	got = o.play(a, 200, "GET", "/api/schedules", "").Body.String()
	for _, want := range []string{`{"name":"nightly","cron":"0 0 3 1 1 *","request":{"source"`, `{"name":"gone","removed":true,"last":{"id":"2524556158199999999-fi5wfn","occurrence":"2000-01-03T03:00:00Z","state":"failed","error":"no"}`, `"missed":{"count":2`, `"error":"schedules: one is wrong"`} {
		if !strings.Contains(got, want) {
			o.Errorf("%s, want %s", got, want)
		}
	}
	time.Sleep(10 * time.Second)
	got = o.play(a, 200, "GET", "/api/health", "").Body.String()
	if !strings.Contains(got, `{"name":"schedules","state":"warning","detail":"schedules: one is wrong"}`) || !strings.Contains(got, `{"name":"schedule nightly","state":"ok","detail":"no success yet"}`) {
		o.Error(got)
	}
	unproved := strings.Replace(gone, `"state":"succeeded"`, `"state":"succeeded","proof":{"id":"v","state":"failed","error":"a page is gone"}`, 1)
	row.Key.Row, row.Properties[1] = "s|nightly", storage.BinaryProperty("Data", []byte(unproved))
	proof.Must(o, state.Write(o.Context(), storage.Op{Kind: storage.Replace, Row: row.Row()}))
	time.Sleep(10 * time.Second)
	if got = o.play(a, 200, "GET", "/api/health", "").Body.String(); !strings.Contains(got, `{"name":"schedule nightly","state":"warning","detail":"the newest success is the occurrence of 2000-01-02T03:00:00Z, but its verification has failed: a page is gone`) {
		o.Error(got)
	}
}

func (o *openAPI) playCatalog(a *app, at, one, two, patch string) {
	const lines, merge, minimal = "application/x-ndjson", "application/merge-patch+json", "return=minimal"
	records := at + "/records"
	o.play(a, 201, "POST", records, one, "Idempotency-Key", "k1")
	o.play(a, 200, "POST", records, one)
	o.play(a, 204, "POST", records, one, "Prefer", minimal)
	o.play(a, 200, "POST", records, "["+one+","+two+"]")
	o.play(a, 200, "POST", records, one+"\n{}\n", "Content-Type", lines)
	changed := strings.TrimSuffix(two, "}") + `,"x":1}`
	location := o.play(a, 200, "PUT", records, changed, "Idempotency-Key", "k2").Header().Get("Location")
	o.play(a, 204, "PUT", records, changed, "Prefer", minimal)
	o.play(a, 201, "PUT", records, strings.Replace(two, `"2"`, `"3"`, 1), "If-None-Match", "*")
	o.play(a, 200, "PATCH", records+"?eid=1", patch, "Content-Type", merge, "Idempotency-Key", "k3")
	o.play(a, 204, "PATCH", records+"?eid=1", patch, "Prefer", minimal)
	o.play(a, 404, "PATCH", records+"?eid=99", patch)
	o.play(a, 422, "PATCH", records+"?eid=1", "{}", "Idempotency-Key", "k3")
	o.play(a, 200, "GET", records+"?top=1&select=eid", "")
	o.play(a, 200, "GET", records+"?eid=1&eid=2&row_from=2026-01-01", "")
	etag := o.play(a, 200, "GET", location, "").Header().Get("ETag")
	o.play(a, 304, "GET", location, "", "If-None-Match", etag)
	o.play(a, 200, "PUT", location, two, "If-Match", etag)
	o.play(a, 204, "PUT", location, two, "Prefer", minimal)
	o.play(a, 412, "PUT", location, changed, "If-Match", etag)
	location = o.play(a, 200, "PATCH", location, patch).Header().Get("Location") // the Location may change
	o.play(a, 204, "PATCH", location, patch, "Prefer", minimal)
	elsewhere := strings.NewReplacer(`"B"`, `"C"`, "01-02", "01-03").Replace(two)
	moved := o.play(a, 200, "PUT", location, elsewhere).Header().Get("Location")
	for method, body := range map[string]string{"GET": "", "PUT": elsewhere, "PATCH": patch, "DELETE": ""} {
		o.play(a, 404, method, location, body)
	}
	o.play(a, 200, "DELETE", moved, "")
	o.play(a, 200, "DELETE", records+"?eid=3", "")
	o.play(a, 200, "GET", at+"/count?eid=1", "")
	o.play(a, 200, "GET", at+"/changes?top=2&since=1h", "")
	o.play(a, 200, "GET", at+"/changes?top=2&after=1h", "")
}

func (o *openAPI) playStreams(a *app) {
	for _, at := range []string{"/api/log/orders", "/api/log?stream=or%2Fders"} {
		more := "?"
		if strings.Contains(at, more) {
			more = "&"
		}
		o.play(a, 201, "POST", at, `{"n":1}`)
		o.play(a, 201, "POST", at, `{"n":1}`, "Idempotency-Key", "k")
		o.play(a, 422, "POST", at, `{"n":2}`, "Idempotency-Key", "k")
		o.play(a, 201, "POST", at, "{\"n\":1}\n{\"n\":2}", "Content-Type", "application/x-ndjson")
		o.play(a, 200, "GET", at+more+"top=1", "")
		o.play(a, 200, "GET", at+more+"after=1h", "")
	}
	o.play(a, 200, "GET", "/api/log?top=1", "")
	o.play(a, 200, "DELETE", "/api/log/orders", "")
	o.play(a, 200, "DELETE", "/api/log?stream=or%2Fders", "")
	o.play(a, 400, "POST", "/api/log/orders", `[]`)
	o.play(a, 200, "GET", "/api/log", "")
}
