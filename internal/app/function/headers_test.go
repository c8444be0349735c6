package function_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tablesweep/internal/proof"
)

// A body's type is checked. A body without a type, or with the type that curl -d sends, is JSON.
func TestBodyTypes(t *testing.T) {
	a := newApp(t)
	location, _ := a.headers(t, "POST", people, `{"eid":"1","lastname":"A"}`, 201)
	for kind, detail := range map[string]string{
		"": "", "application/json": "", "Application/JSON; charset=utf-8": "", "application/x-www-form-urlencoded": "",
		"text/plain;charset=UTF-8": "send JSON", "text/json": "send JSON", "application/octet-stream": "send JSON",
		"application/json-patch+json": "a JSON merge patch", "application/xml": "is XML", "application/atom+xml; type=entry": "is XML",
		"multipart/form-data; boundary=x": "send JSON", "application/json; charset": "send JSON", "nonsense": "send JSON", "application/cbor": "send JSON",
	} {
		want := http.StatusOK
		if detail != "" {
			want = http.StatusUnsupportedMediaType
		}
		for path, method := range map[string]string{people: "POST", location: "PATCH"} {
			w := a.send(method, path, `{"eid":"1","lastname":"A"}`, "Content-Type", kind)
			if w.Code != want || !strings.Contains(w.Body.String(), detail) {
				t.Errorf("%s with Content-Type %q: status %d, body %s; want %d and %q", method, kind, w.Code, w.Body, want, detail)
			}
			if accepts := w.Header().Get("Accept-Patch"); (accepts == "application/merge-patch+json") != (method == "PATCH") {
				t.Errorf("%s: got Accept-Patch %q", method, accepts)
			}
		}
	}
	a.headers(t, "PATCH", location, `{"wage":1}`, 200, "Content-Type", "application/merge-patch+json")
	a.headers(t, "PUT", location, `{"eid":"1","lastname":"A"}`, 415, "Content-Type", "application/merge-patch+json")
	a.headers(t, "POST", "/api/scans", countBody, 415, "Content-Type", "application/x-ndjson")
}

// A write is refused if an unsupported header would change its meaning.
func TestUnsupportedHeadersAreRefused(t *testing.T) {
	a := newApp(t)
	for _, name := range []string{"If-Unmodified-Since", "Content-Range"} {
		for method, path := range map[string]string{"POST": people, "PUT": people, "PATCH": people + "?eid=1", "DELETE": people + "?eid=1"} {
			a.call(t, method, path, `{"eid":"1","lastname":"A"}`, 400, `{"title":"Bad Request","status":400,"field":"`+name+`"`, name, "x")
		}
		a.call(t, "GET", people+"?eid=1", "", 200, `{"records":[]`, name, "x")
	}
}

// If the caller prefers that, the answer to a write does not contain the record.
func TestMinimalAnswers(t *testing.T) {
	a := newApp(t)
	for _, step := range []struct {
		method, body, prefer, applied string
		status                        int
	}{
		{"POST", `{"eid":"1","lastname":"A"}`, "return=minimal", "return=minimal", 201},
		{"POST", `{"eid":"1","lastname":"A"}`, `respond-async, Return="minimal"; foo`, "return=minimal", 204},
		{"PUT", `{"eid":"1","lastname":"A","wage":1}`, "return=minimal", "return=minimal", 204},
		{"PUT", `{"eid":"1","lastname":"A","wage":2}`, "return=representation", "", 200},
	} {
		w := a.send(step.method, people, step.body, "Prefer", step.prefer)
		if w.Code != step.status || w.Header().Get("Preference-Applied") != step.applied || (w.Body.Len() == 0) != (step.applied != "") || w.Header().Get("Location") == "" || w.Header().Get("ETag") == "" {
			t.Errorf("%s with Prefer %s: status %d, header %v, body %s", step.method, step.prefer, w.Code, w.Header(), w.Body)
		}
	}
}

// A list's Link is the call for its next page, without the caller's key. The parameter `select` names the fields of the
// list's records.
func TestLinksAndSelect(t *testing.T) {
	a := newApp(t)
	for _, name := range []string{"A", "B", "C"} {
		a.headers(t, "POST", people, `{"eid":"1","lastname":"`+name+`","wage":1.5,"when":"2026-01-01T00:00:00Z","when@odata.type":"Edm.DateTime"}`, 201)
	}
	at, _ := url.Parse("https://app" + people + "?eid=1&top=2&select=lastname,when,none&code=secret")
	var pages []string
	for range 3 {
		w := a.send("GET", at.RequestURI(), "")
		pages = append(pages, w.Body.String())
		link := w.Header().Get("Link")
		if strings.Contains(link, "secret") {
			t.Errorf("the Link %s contains the key", link)
		}
		next, ok := strings.CutSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
		if !ok {
			break
		}
		reference, err := url.Parse(next)
		proof.Must(t, err)
		at = at.ResolveReference(reference)
	}
	const when = `"when@odata.type":"Edm.DateTime","when":"2026-01-01T00:00:00Z"}`
	if len(pages) != 2 || !strings.HasPrefix(pages[0], `{"records":[{"lastname":"A",`+when+`,{"lastname":"B",`+when+`],"meta"`) || !strings.HasPrefix(pages[1], `{"records":[{"lastname":"C",`) {
		t.Errorf("%q", pages)
	}
	a.call(t, "GET", people+"?eid=1&select=", "", 400, `{"title":"Bad Request","status":400,"field":"select"`)
	a.call(t, "GET", people+"?eid=1&select=wage,lastname", "", 200, `{"records":[{"lastname":"A","wage":1.5},`)
	a.call(t, "DELETE", people+"?eid=1&select=wage", "", 400, `{"title":"Bad Request","status":400,"field":"select"`)
}
