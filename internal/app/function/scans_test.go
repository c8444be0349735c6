package function_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"tablesweep/internal/app/function"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
)

// If the caller or the host repeats a start, no second scan starts, and the answer is the first one. Another request with the same key is
// refused.
func TestRepeatedStart(t *testing.T) {
	a := newApp(t)
	first := a.call(t, "POST", "/api/scans", countBody, 202, "{", "Idempotency-Key", "k")
	if again := a.call(t, "POST", "/api/scans", " "+countBody, 202, "{", "Idempotency-Key", "k"); again != first {
		t.Errorf("the first answer is %s, the second %s", first, again)
	}
	a.call(t, "POST", "/api/scans", copyBody, 422, `{"title":"Unprocessable Entity","status":422,"field":"Idempotency-Key"`, "Idempotency-Key", "k")
	a.call(t, "POST", "/api/scans", countBody, 400, `{"title":"Bad Request","status":400,"field":"Idempotency-Key"`, "Idempotency-Key", "two words")
	byHost := a.call(t, "POST", "/api/scans", countBody, 202, "{")
	if again := a.call(t, "POST", "/api/scans", countBody, 202, "{"); again != byHost || again == first {
		t.Errorf("the first answer is %s, the second with the same invocation %s", byHost, again)
	}
}

// A status contains the request, with its range and filter.
func TestStatusContainsTheRequest(t *testing.T) {
	a := newApp(t)
	request := `{"source":{"table":"Source"},"action":{"type":"copy","destination":{"table":"Target"},"mode":"merge"},"range":{"prefix":"p","before":"q"},"filter":"N gt 3","select":["N"],"strategy":"serial","segmentSize":7,"limits":{"rowsPerSecond":5}}`
	var started struct{ ID string }
	if w := a.fetch(t, "POST", "/api/scans", request, &started); w.Code != http.StatusAccepted {
		t.Fatal(w.Body)
	}
	var status, list, want map[string]any
	a.fetch(t, "GET", "/api/scans/"+started.ID, "", &status)
	a.fetch(t, "GET", "/api/scans", "", &list)
	proof.Must(t, json.Unmarshal([]byte(request), &want))
	for name, v := range want {
		if listed := list["scans"].([]any)[0].(map[string]any); !reflect.DeepEqual(status[name], v) || !reflect.DeepEqual(listed[name], v) {
			t.Errorf("%s is %v, in the list %v, want %v", name, status[name], listed[name], v)
		}
	}
	for _, others := range []string{"table=Other", "name=x", "state=failed", "action=count", "since=0s"} {
		a.call(t, "GET", "/api/scans?"+others, "", 200, `{"scans":[]}`)
	}
}

// deliver reads the first step's message, calls the function as the host does, and returns the lines of the answer's Logs.
func (a *app) deliver(t *testing.T) []string {
	t.Helper()
	q, err := a.account.Queue(scans.Queues[scans.ScanPrefix])
	proof.Must(t, err)
	messages, err := q.Get(t.Context(), 1, 600e9)
	if err != nil || len(messages) != 1 {
		t.Fatalf("got %d messages and error %v, want one message", len(messages), err)
	}
	var body []byte
	proof.Must(t, json.Unmarshal([]byte(`"`+messages[0].Text+`"`), &body)) // base64
	once, _ := json.Marshal(string(body))
	twice, _ := json.Marshal(string(once))
	envelope := fmt.Sprintf(`{"Data":{"item":%s},"Metadata":{"DequeueCount":"1"}}`, twice)
	var answer struct{ Logs []string }
	if w := a.fetch(t, "POST", "/ScanPrefix", envelope, &answer); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("status %d, Content-Type %q, body %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	return answer.Logs
}

// An invalid request gets an error that names the field, and starts no scan.
func TestBadRequests(t *testing.T) {
	a := newApp(t)
	with := func(old, new string) string { return strings.Replace(copyBody, old, new, 1) }
	for _, tt := range []struct {
		name, body    string
		status        int
		field, detail string
	}{
		{"empty", "", 400, "", "empty"},
		{"unknown field", with(`"action"`, `"colour":1,"action"`), 400, "colour", "not a field"},
		{"field in another case", with(`"type":"copy"`, `"type":"copy","Type":"delete"`), 400, "action.Type", "not a field"},
		{"wrong type", with(`"Source"`, `1`), 400, "source.table", "must be a JSON string"},
		{"too large", copyBody + strings.Repeat(" ", 70<<10), 413, "", "larger than"},
		{"bad source name", with("Source", "my_table"), 400, "source.table", "letters and digits"},
		{"unknown source", with("Source", "Nowhere"), 404, "source.table", "does not exist"},
		{"unknown connection", with(`"Source"},"action":{"type":"copy","destination":{"table":"Target"`, `"Source","connection":"SECRET"},"action":{"type":"copy","destination":{"table":"Target","connection":"OTHER"`), 400, "source.connection", "TABLESWEEP_CONNECTIONS"},
		{"unknown destination connection", with(`"Target"`, `"Target","connection":"X"`), 400, "action.destination.connection", "TABLESWEEP_CONNECTIONS"},
		{"connection only of the source", with(`"Source"`, `"Source","connection":"OTHER"`), 400, "action.destination.connection", "if the source's connection is given"},
		{"connection only of the source of keys", strings.Replace(with(`"Source"`, `"Source","connection":"OTHER"`), "copy", "keys", 1), 400, "action.destination.connection", "if the source's connection is given"},
		{"connection only of the source, with a queue", `{"source":{"table":"Source","connection":"OTHER"},"action":{"type":"enqueue","queue":{"name":"work"}}}`, 400, "action.queue.connection", "if the source's connection is given"},
		{"no action", `{"source":{"table":"Source"}}`, 400, "action.type", "copy, count, keys"},
		{"no destination", `{"source":{"table":"Source"},"action":{"type":"copy"}}`, 400, "action.destination", "is missing"},
		{"bad destination name", with("Target", "1"), 400, "action.destination.table", "letters and digits"},
		{"copy onto itself", with("Target", "SOURCE"), 400, "action.destination", "is the source itself"},
		{"copy onto itself by another name", with(`"Target"`, `"Source","connection":"OTHER"`), 400, "action.destination", "is the source itself"},
		{"bad mode", with(`"type":"copy"`, `"type":"copy","mode":"upsert"`), 400, "action.mode", `use "replace", "merge", "skip" or "fail"`},
		{"count with destination", with("copy", "count"), 400, "action.destination", "not a field of count"},
		{"bad filter", with(`"action"`, `"filter":"Name is x","action"`), 400, "filter", "refuses this filter"},
		{"filter of 13 comparisons", with(`"action"`, `"filter":"`+strings.Repeat("A eq 1 or ", 12)+`A eq 1","action"`), 400, "filter", "13 comparisons"},
		{"limit of 0", with(`"action"`, `"limits":{"rowsPerSecond":5,"requestsPerSecond":0},"action"`), 400, "limits.requestsPerSecond", "at least 1"},
		{"limit below 0", with(`"action"`, `"limits":{"rowsPerSecond":-5},"action"`), 400, "limits.rowsPerSecond", "at least 1"},
		{"empty limits", with(`"action"`, `"limits":{},"action"`), 400, "limits", "rowsPerSecond"},
		{"filter of 13 lines", with(`"action"`, `"filter":"`+strings.Repeat(`A\nne\n1\nand\n`, 12)+`A\neq\n1","action"`), 400, "filter", "13 comparisons"},
		{"filter of 13 bare properties", with(`"action"`, `"filter":"`+strings.Repeat("A or ", 12)+`A","action"`), 400, "filter", "13 comparisons"},
		{"bad strategy", with(`"action"`, `"strategy":"magic","action"`), 400, "strategy", "use one of"},
		{"option of another strategy", with(`"action"`, `"segmentsPerFirstPrefix":2,"action"`), 400, "segmentsPerFirstPrefix", "strategy prefix"},
		{"option of another strategy, named", with(`"action"`, `"strategy":"serial","segmentsPerSubsequentPrefix":2,"action"`), 400, "segmentsPerSubsequentPrefix", "strategy prefix"},
		{"keys with a strategy", strings.Replace(with(`"action"`, `"strategy":"serial","action"`), "copy", "keys", 1), 400, "strategy", "keys skips rows, which serial cannot do"},
		{"keys with an option", strings.Replace(with(`"action"`, `"strategy":"prefix","segmentsPerFirstPrefix":2,"action"`), "copy", "keys", 1), 400, "segmentsPerFirstPrefix", "not an option of keys"},
		{"count with select", strings.Replace(countBody, `"action"`, `"select":["A"],"action"`, 1), 400, "select", "no effect on count"},
		{"segment size", with(`"action"`, `"segmentSize":1001,"action"`), 400, "segmentSize", "1 to 1000"},
		{"segments", with(`"action"`, `"segmentsPerInvocation":25,"action"`), 400, "segmentsPerInvocation", "1 to 24"},
		{"no segments", with(`"action"`, `"segmentsPerInvocation":0,"action"`), 400, "segmentsPerInvocation", "1 to 24"},
		{"0 segments for the strategy", with(`"action"`, `"strategy":"prefix","segmentsPerFirstPrefix":0,"action"`), 400, "segmentsPerFirstPrefix", "at least 1"},
		{"empty name", with("Source", ""), 400, "source.table", "is missing"},
		{"empty queue", `{"source":{"table":"Source"},"action":{"type":"enqueue","queue":{"name":""}}}`, 400, "action.queue.name", "is missing"},
		{"filter with a range", with(`"action"`, `"filter":"Name is x","range":{"prefix":"p"},"action"`), 400, "filter", "at character 6"},
		{"connection string in the range", with(`"action"`, `"range":{"prefix":"AccountName=a;AccountKey=c2VjcmV0"},"action"`), 400, "range", "looks like a connection string"},
		{"empty range", with(`"action"`, `"range":{"after":"b","before":"a"},"action"`), 400, "range", "no partition key fits"},
		{"empty property name", with(`"action"`, `"select":["A",""],"action"`), 400, "select", "not a property's name"},
		{"property name with a dash", with(`"action"`, `"select":["a-b"],"action"`), 400, "select", "not a property's name"},
		{"filter that closes the range's parenthesis", with(`"action"`, `"filter":"A eq 1) or (A eq 2","action"`), 400, "filter", "has a closing parenthesis"},
		{"filter with an open parenthesis", with(`"action"`, `"filter":"(A eq 1","action"`), 400, "filter", "lacks 1 closing"},
		{"filter with an open quote", with(`"action"`, `"filter":"A eq 'x","action"`), 400, "filter", "without a closing quote"},
		{"state table", with("Target", "tablesweep"), 400, "action.destination.table", "keeps this app's scans"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a.refuse(t, "POST", "/api/scans", tt.body, tt.status, tt.field, tt.detail)
		})
	}
	var list struct{ Scans []any }
	if a.fetch(t, "GET", "/api/scans", "", &list); len(list.Scans) > 0 {
		t.Errorf("a bad request started a scan: %v", list.Scans)
	}
}

// Messages that are not steps fail, so that the host moves them to the poison queue.
func TestBadMessages(t *testing.T) {
	a := newApp(t)
	for _, tt := range []struct {
		name, body string
		status     int
		detail     string
	}{
		{"no envelope", "hello", 400, "envelope"},
		{"not a step", `{"Data":{"item":"hello"}}`, 400, "not a step"},
		{"other version", `{"Data":{"item":"{\"v\":9,\"scan\":\"x\",\"step\":{\"range\":{}}}"}}`, 200, "the message has format 9, but this version of the program knows only format 2"},
		{"no scan", `{"Data":{"item":"{\"v\":1,\"step\":{\"range\":{}}}"}}`, 400, "scan: is not the id of a scan"},
		{"unknown field", `{"Data":{"item":"{\"v\":1,\"scan\":\"x\",\"more\":1}"}}`, 400, "not a step"},
		{"too large", `{"Data":{"item":"` + strings.Repeat("x", 50<<10) + `"}}`, 413, "bytes"},
		{"envelope too large", `{"Data":{"item":"` + strings.Repeat("x", 2<<20) + `"}}`, 413, "larger than"},
		{"unknown scan", `{"Data":{"item":"{\"v\":1,\"scan\":\"2524556144539999999-xhqyex\",\"step\":{\"range\":{}}}"}}`, 200, "not in the ledger"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var answer struct{ Logs []string }
			w := a.fetch(t, "POST", "/ScanPrefix", tt.body, &answer)
			if w.Code != tt.status || len(answer.Logs) != 1 || !strings.Contains(answer.Logs[0], tt.detail) {
				t.Errorf("status %d, logs %q; want %d and %q", w.Code, answer.Logs, tt.status, tt.detail)
			}
		})
	}
}

func TestPanicFailsOnlyItsInvocation(t *testing.T) {
	a := appOf(function.App{}) // calls panic, because there is no engine
	a.call(t, "GET", "/api/scans/x", "", 500, "{")
	if w := a.send("POST", "/Maintain", timerBody); w.Code != http.StatusInternalServerError {
		t.Errorf("the timer, whose parts panic: status %d", w.Code)
	}
	a.call(t, "GET", "/", "", 204, "") // the process continues
}

// TestStatusURL: the address of a scan's status is relative. Behind a proxy, the caller's host name and scheme are unknown, and no header may
// set them.
func TestStatusURL(t *testing.T) {
	w := newApp(t).send("POST", "/api/scans", countBody, "X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "https")
	var started struct{ ID, StatusURL string }
	if err := json.Unmarshal(w.Body.Bytes(), &started); err != nil || started.StatusURL != "/api/scans/"+started.ID || started.StatusURL != w.Header().Get("Location") {
		t.Errorf("got body %s, error %v, Location %s", w.Body, err, w.Header().Get("Location"))
	}
}

// TestFailedRowsOverHTTP: the result of a done step is one line of its answer, which the host adds to the invocation's log. The app's own log
// does not contain it. The rows that the step could not write are one warning, and are listed page by page.
func TestFailedRowsOverHTTP(t *testing.T) {
	a := newApp(t)
	proof.Must(t, a.account.Table("Target").Create(t.Context()))
	for i := range 2 { // two of the three rows already exist in the destination
		taken := storage.Entity{Key: key.Key{Partition: fmt.Sprint(i)}, Properties: []storage.Property{storage.StringProperty("Name", "<img onerror>")}}
		proof.Must(t, a.account.Table("Target").Write(t.Context(), storage.Op{Row: taken.Row()}))
	}
	var started struct{ ID string }
	a.fetch(t, "POST", "/api/scans", strings.Replace(copyBody, `"type":"copy"`, `"type":"copy","mode":"fail"`, 1), &started)
	base := "/api/scans/" + started.ID
	a.log.Reset()
	if logs := a.deliver(t); len(logs) != 1 || !strings.Contains(logs[0], "read 3 rows in 1 queries, wrote 1, 2 failed, sent 0 messages") {
		t.Errorf("Logs %q; want one line with the step's result", logs)
	}
	log := a.log.String()
	if strings.Count(log, `"level":"warn"`) != 1 || !strings.Contains(log, `"rows":2,"partitionKey":"0"`) || !strings.Contains(log, `"invocation":"`+invocation+`"`) || strings.Contains(log, "read 3 rows") {
		t.Errorf("the log is %s; want one warning with the invocation, the number of rows and the first key", log)
	}
	more := ""
	for i := range 2 {
		var failed struct {
			Rows   []struct{ PartitionKey, Reason string }
			Total  int
			Cursor string
		}
		w := a.fetch(t, "GET", base+"/failed?top=1"+more, "", &failed)
		if failed.Total != 2 || len(failed.Rows) != 1 || failed.Rows[0].PartitionKey != fmt.Sprint(i) || failed.Rows[0].Reason == "" || i == 0 && w.Header().Get("Link") == "" {
			t.Errorf("page %d: header %v, body %s; want only row %d", i, w.Header(), w.Body, i)
		}
		more = "&cursor=" + url.QueryEscape(failed.Cursor)
	}
	for path, code := range map[string]int{"/api/scans/x/timeline": 404, "/api/scans/x/ranges": 404, "/api/scans/x/failed": 404, base + "/failed?top=1000": 200, base + "/failed?top=1001": 400, base + "/failed?cursor=x": 400, base + "/timeline?x=1": 400} {
		if w := a.fetch(t, "GET", path, "", nil); w.Code != code {
			t.Errorf("GET %s: status %d, body %s; want %d", path, w.Code, w.Body, code)
		}
	}
}

// TestAllErrorsAreListed: the answer to a request with several mistakes lists each. Blanks around names are ignored.
func TestAllErrorsAreListed(t *testing.T) {
	a := newApp(t)
	var refusal struct {
		Field  string
		Errors []struct{ Field, Detail string }
	}
	for sent, want := range map[string][]string{
		`/api/scans {"name":"` + strings.Repeat("ä", 101) + `","source":{"table":"a_b"},"action":{"type":"count","mode":"merge","queue":{"name":"x"}},"strategy":"magic","segmentSize":0,"filter":"(A eq 1","range":{"after":"b","before":"a"}}`: {
			"segmentSize", "name", "source.table", "action.queue.name", "filter", "action.mode", "action.queue", "strategy", "range"},
		`/api/scans {"source":{"table":"Source","connection":"A"},"action":{"type":"copy","destination":{"table":"Target","connection":"B"}}}`: {"source.connection", "action.destination.connection"},
		// Events are read only up to the first refused event.
		`/api/log/s [{"b":1},{"a":1,"c":"\ud800","d@odata.type":"Edm.Byte","d":1}, {"d":"\udc00"}]`: {"[1].d@odata.type", "[1].c"},
	} {
		refusal.Errors = nil
		path, body, _ := strings.Cut(sent, " ")
		if w := a.fetch(t, "POST", path, body, &refusal); w.Code != http.StatusBadRequest {
			t.Fatalf("got status %d, body %s; want 400", w.Code, w.Body)
		}
		var fields []string
		for _, e := range refusal.Errors {
			fields = append(fields, e.Field)
		}
		if !slices.Equal(fields, want) || refusal.Field != want[0] {
			t.Errorf("%s: errors in the fields %q, the first in %q; want %q", body, fields, refusal.Field, want)
		}
	}
	var started struct{ ID string }
	if w := a.fetch(t, "POST", "/api/scans", `{"name":" by hand\n","source":{"table":" Source "},"action":{"type":"copy","destination":{"table":"Target\t","connection":" OTHER"}}}`, &started); w.Code != http.StatusAccepted {
		t.Fatalf("got status %d, body %s; want 202", w.Code, w.Body)
	}
	var s status.Status
	a.fetch(t, "GET", "/api/scans/"+started.ID, "", &s)
	if d := s.Action.Destination; s.Name != "by hand" || s.Source.Table != "Source" || d.Table != "Target" || d.Connection != "OTHER" {
		t.Errorf("got request %+v with destination %+v", s.Request, d)
	}
}

// TestConnections: the answers list the connections, tables and queues that the app may use, and no others.
func TestConnections(t *testing.T) {
	em := emulatortest.New(t, emulator.Options{})
	var refused atomic.Bool
	a := newAppVia(t, em, emulatortest.Via{Transporter: em.Transport(), Answer: func(r *http.Request, _ string) (*http.Response, error) {
		if refused.Load() && (strings.HasSuffix(r.URL.Path, "/Tables") || r.URL.Query().Get("comp") == "list") {
			return emulatortest.Refusal(r, http.StatusForbidden, "AuthorizationPermissionMismatch"), nil
		}
		return nil, nil
	}})
	for path, want := range map[string]string{
		"":               `{"connections":["AzureWebJobsStorage","OTHER"]}`,
		"/OTHER/tables":  `{"tables":["log","People","PeopleWAL","Source","tablesweep","Visits","VisitsWAL"]}`,
		"/OTHER/queues":  `{"queues":["tablesweep-copy-rows","tablesweep-scan-partition","tablesweep-scan-prefix"]}`,
		"/Other/queues":  "404",
		"/OTHER/blobs":   "404",
		"/OTHER/tables/": `{"tables":["log","People","PeopleWAL","Source","tablesweep","Visits","VisitsWAL"]}`,
	} {
		w := a.fetch(t, "GET", "/api/scans/connections"+path, "", nil)
		if got := strings.TrimSpace(w.Body.String()); got != want && fmt.Sprint(w.Code) != want {
			t.Errorf("path %s: status %d, body %s; want %s", path, w.Code, got, want)
		}
	}
	refused.Store(true)
	for _, what := range []string{"tables", "queues"} {
		a.call(t, "GET", "/api/scans/connections/OTHER/"+what, "", http.StatusOK, `{"`+what+`":[]}`)
	}
}
