package function_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof/emulatortest"
)

// logPage is an answer of GET /api/log/{stream}.
type logPage struct {
	Events []struct {
		ID, Time string
		Event    json.RawMessage
	}
	Cursor, Next string
	More         bool
}

func (p logPage) texts() string {
	var all []string
	for _, e := range p.Events {
		all = append(all, string(e.Event))
	}
	return strings.Join(all, " ")
}

func TestEventsOverHTTP(t *testing.T) {
	a := newApp(t)
	var first, more logPage
	if w := a.fetch(t, "POST", "/api/log/orders", `{"n":1,"id":"mine","PartitionKey":3.0}`, &first); w.Code != http.StatusCreated || len(first.Events) != 1 {
		t.Fatalf("status %d, body %s", w.Code, w.Body)
	}
	if w := a.fetch(t, "POST", "/api/log/orders?code=the-functions-key", `[{"n":2},{"n":3} , {"at":"2026-02-03T04:05:06Z","at@odata.type":"Edm.DateTime"}]`, &more); w.Code != http.StatusCreated || len(more.Events) != 3 {
		t.Fatalf("status %d, body %s", w.Code, w.Body)
	}
	read := func(query string) logPage {
		t.Helper()
		var p logPage
		w := a.fetch(t, "GET", "/api/log/orders"+query, "", &p)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
			t.Fatalf("query %s: status %d, body %s", query, w.Code, w.Body)
		}
		return p
	}
	const last = `{"at@odata.type":"Edm.DateTime","at":"2026-02-03T04:05:06Z"}`
	all := last + ` {"n":3} {"n":2} {"PartitionKey":3.0,"id":"mine","n":1}`
	for _, tt := range []struct{ query, want string }{
		{"", all},
		{"?top=1000&code=x&clientId=default", all},
		{"?top=1", last},
		{"?top=2&cursor=" + more.Events[2].ID, `{"n":3} {"n":2}`},
		{"?since=" + more.Events[0].ID, last + ` {"n":3}`},
		{"?since=" + first.Events[0].Time + "&cursor=" + more.Events[1].ID, `{"n":2}`},
		{"?since=2020-01-01T00:00:00%2B02:00", all},
		{"?since=2020-01-01", all},
		{"?since=15m", all},
		{"?since=0s", ""},
		{"?since=2100-01-01T00:00:00Z", ""},
	} {
		if got := read(tt.query).texts(); got != tt.want {
			t.Errorf("query %s: got events %s, want %s", tt.query, got, tt.want)
		}
	}
	if p := read("?top=3"); read("?top=3&cursor="+p.Cursor).texts() != `{"PartitionKey":3.0,"id":"mine","n":1}` {
		t.Errorf("the page after the cursor %s does not contain only the first event", p.Cursor)
	}
	if p := read("?top=4"); p.Cursor != "" || p.Events[3].ID != first.Events[0].ID || p.Events[3].Time != first.Events[0].Time {
		t.Errorf("got page %+v, want the first event last, and no cursor", p)
	}
	if w := a.fetch(t, "GET", "/api/log/nothing", "", nil); w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), `{"events":[]}`) {
		t.Errorf("a stream without events: status %d, body %s", w.Code, w.Body)
	}
}

// A follower that stores only next gets each event once, in order.
func TestFollowingOverHTTP(t *testing.T) {
	a := newApp(t)
	p := logPage{Next: "now"}
	for i, want := range []string{"", `{"n":1} {"n":2} more`, `{"n":3}`, ""} {
		if i == 1 {
			a.fetch(t, "POST", "/api/log/orders", `[{"n":1},{"n":2},{"n":3}]`, nil)
		}
		w := a.fetch(t, "GET", "/api/log/orders?top=2&after="+p.Next, "", &p)
		got := p.texts()
		if p.More {
			got += " more"
		}
		if got != want || !strings.HasPrefix(w.Body.String(), `{"events":[`) {
			t.Errorf("call %d: got events %s, want %s", i, w.Body, want)
		}
	}
}

func TestStreamNamesOverHTTP(t *testing.T) {
	a := newApp(t)
	for _, name := range []string{"a/b", "a b", "50%", "é?#", "%2F", "..x", "a//b"} {
		path := "/api/log?stream=" + url.QueryEscape(name)
		var p logPage
		if w := a.fetch(t, "POST", path, fmt.Sprintf(`{"of":%q}`, name), nil); w.Code != http.StatusCreated {
			t.Errorf("append to %q: status %d, body %s", name, w.Code, w.Body)
		}
		if a.fetch(t, "GET", path, "", &p); p.texts() != fmt.Sprintf(`{"of":%q}`, name) {
			t.Errorf("stream %q: got events %s", name, p.texts())
		}
	}
	// A host changes such names in a path, so that the call would write to another stream. The name that arrives may
	// differ from the name that was sent, so the error does not repeat the name.
	for _, path := range []string{"a/b", "a%2Fb", "a%5Cb", "a%252Fb", "50%25", "a//b", "/a"} {
		w := a.fetch(t, "POST", "/api/log/"+path, "{}", nil)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "send the name in the query, with these characters escaped: /api/log?stream=ESCAPED") {
			t.Errorf("path %s: status %d, body %s; want 400 and a hint at /api/log?stream=ESCAPED", path, w.Code, w.Body)
		}
	}
	for path, name := range map[string]string{"é%3F%23": "é?#", "a%20b/": "a b", "..x": "..x", "A+b": "A+b"} {
		var p logPage
		a.fetch(t, "POST", "/API/Log/"+path+"?code=x", fmt.Sprintf(`{"by":%q}`, path), nil)
		if a.fetch(t, "GET", "/api/log?top=1&stream="+url.QueryEscape(name), "", &p); p.texts() != fmt.Sprintf(`{"by":%q}`, path) {
			t.Errorf("path %s: got events %s", path, p.texts())
		}
	}
}

func TestBadEventRequests(t *testing.T) {
	a := newApp(t)
	many := "[" + strings.Repeat("{},", 1000) + "{}]"
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		field, detail            string
	}{
		{"empty", "POST", "/api/log/s", "", 400, "", "must be a JSON object"},
		{"empty array", "POST", "/api/log/s", "[]", 400, "", "send at least one"},
		{"array cut off", "POST", "/api/log/s", `[{"a":1}`, 400, "", "not a JSON array"},
		{"text after the array", "POST", "/api/log/s", `[{"a":1}]{}`, 400, "", "text after the array"},
		{"bad field", "POST", "/api/log/s", `{"a":1e400}`, 400, "a", "range"},
		{"number in an array", "POST", "/api/log/s", `[{},7]`, 400, "[1]", "JSON object"},
		{"too many", "POST", "/api/log/s", many, 413, "", "several requests"},
		{"too large", "POST", "/api/log/s", `{"a":"` + strings.Repeat("x", 5<<20) + `"}`, 413, "", "several requests"},
		{"no stream", "POST", "/api/log", "{}", 400, "stream", "name the stream"},
		{"deleting no stream", "DELETE", "/api/log", "", 400, "stream", "name the stream"},
		{"deleting another stream", "DELETE", "/api/log/none", "", 404, "", "no stream"},
		{"two names", "GET", "/api/log/s?stream=s", "", 400, "stream", "once"},
		{"long stream", "GET", "/api/log/" + strings.Repeat("x", 300), "", 400, "stream", "256"},
		{"unknown parameter", "GET", "/api/log/s?limit=5", "", 400, "limit", "stream, top, since, cursor"},
		{"after", "GET", "/api/log/s?after=yesterday", "", 400, "after", "now"},
		{"after nothing", "GET", "/api/log/s?after=", "", 400, "after", "is empty"},
		{"since nothing", "GET", "/api/log/s?since=", "", 400, "since", "is empty"},
		{"no name", "GET", "/api/log?stream=", "", 400, "stream", "is empty"},
		{"after with since", "GET", "/api/log/s?after=now&since=15m", "", 400, "since", "remove one"},
		{"parameter of a POST", "POST", "/api/log/s?top=5", "{}", 400, "top", "not a parameter"},
		{"top", "GET", "/api/log/s?top=1001", "", 400, "top", "1 to 1000"},
		{"cursor of the list", "GET", "/api/log?cursor=zz", "", 400, "cursor", "not a cursor that this list returned"},
		{"since", "GET", "/api/log/s?since=yesterday", "", 400, "since", "2026-02-03T04:05:06Z"},
		{"cursor", "GET", "/api/log/s?cursor=1", "", 400, "cursor", "cursor"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a.refuse(t, tt.method, tt.path, tt.body, tt.status, tt.field, tt.detail)
		})
	}
	var p logPage
	if a.fetch(t, "GET", "/api/log/s", "", &p); len(p.Events) > 0 {
		t.Errorf("an invalid request appended %s", p.texts())
	}
}

// If an array is appended in part, the caller gets the ids of the appended events.
func TestPartlyAppendedArray(t *testing.T) {
	em := emulatortest.New(t, emulator.Options{})
	a := newAppVia(t, em, emulatortest.Via{Transporter: em.Transport(), Answer: func(r *http.Request, body string) (*http.Response, error) {
		if strings.Contains(body, `"n":150}`) {
			return emulatortest.Refusal(r, http.StatusForbidden, "AuthorizationFailure"), nil
		}
		return nil, nil
	}})
	var events []string
	for i := range 250 {
		events = append(events, fmt.Sprintf(`{"n":%d}`, i))
	}
	var p struct {
		Status int
		Detail string
		IDs    []*string
	}
	w := a.fetch(t, "POST", "/api/log/s", "["+strings.Join(events, ",")+"]", &p)
	if w.Code != http.StatusServiceUnavailable || p.Status != w.Code || len(p.IDs) != 250 || !strings.HasPrefix(p.Detail, "150 of 250 events were appended") {
		t.Fatalf("status %d, %d ids, body %s", w.Code, len(p.IDs), p.Detail)
	}
	if w := a.send("POST", "/api/log/keyed", "["+strings.Join(events, ",")+"]", "Idempotency-Key", "k"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "150 of 250 events were appended") || !strings.Contains(w.Body.String(), "same Idempotency-Key") {
		t.Errorf("with an Idempotency-Key: status %d, body %.300s", w.Code, w.Body)
	}
	var page logPage
	a.fetch(t, "GET", "/api/log/s?top=1000", "", &page)
	there := map[string]string{}
	for _, e := range page.Events {
		there[e.ID] = string(e.Event)
	}
	for i, id := range p.IDs {
		missing := i >= 100 && i < 200
		if (id == nil) != missing || id != nil && there[*id] != events[i] {
			t.Errorf("event %d has the id %v", i, id)
		}
	}
}
