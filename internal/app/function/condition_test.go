package function_test

import (
	"encoding/json"
	"strings"
	"testing"

	"tablesweep/internal/proof"
)

// headers sends a request, checks the status, and returns the answer's Location and ETag.
func (a *app) headers(t *testing.T, method, path, body string, status int, header ...string) (location, etag string) {
	t.Helper()
	w := a.send(method, path, body, header...)
	if w.Code != status {
		t.Errorf("%s %s %v: status %d, body %s, want %d", method, path, header, w.Code, w.Body, status)
	}
	return w.Header().Get("Location"), w.Header().Get("ETag")
}

func TestConditionalRequests(t *testing.T) {
	a := newApp(t)
	const one, two = `{"eid":"1","etag":"mine","id":7,"lastname":"A","npi":7}`, `{"eid":"1","etag":"mine","id":7,"lastname":"A","npi":7,"wage":2}`
	location, first := a.headers(t, "POST", people, one, 201)
	if again, etag := a.headers(t, "POST", people, one, 200); again != location || etag != first || first == "" {
		t.Errorf("the first answer has %s %s, the second %s %s", location, first, again, etag)
	}
	// The ETag is the same at the record's Location, and in lists under every key.
	a.call(t, "GET", location, "", 200, one)
	if _, etag := a.headers(t, "GET", location, "", 200); etag != first {
		t.Errorf("ETag %s, want %s", etag, first)
	}
	a.headers(t, "GET", location, "", 304, "If-None-Match", `"x", `+first)
	for _, tags := range []string{"W/" + first, `, "a,b" ,,` + first + ",", "*"} {
		a.headers(t, "GET", location, "", 304, "If-None-Match", tags)
	}
	for _, tags := range []string{"", ",", `"a`, `*, "1"`, first + first, strings.Trim(first, `"`), "w/" + first} {
		a.call(t, "GET", location, "", 400, `{"title":"Bad Request","status":400,"field":"If-None-Match"`, "If-None-Match", tags)
	}
	for _, query := range []string{"?eid=1", "?npi=7"} {
		var list struct {
			Records []json.RawMessage
			Meta    []struct{ ID, ETag string }
		}
		proof.Must(t, json.Unmarshal([]byte(a.call(t, "GET", people+query, "", 200, `{"records":[`+one+`],`)), &list))
		if len(list.Meta) != 1 || list.Meta[0].ETag != first || !strings.HasSuffix(location, "/records/"+list.Meta[0].ID) {
			t.Errorf("got meta %+v, want %s and %s", list.Meta, location, first)
		}
	}
	unmet := func(method, query, body string, header ...string) {
		t.Helper()
		a.call(t, method, people+query, body, 412, `{"title":"Precondition Failed","status":412,"field":"If-`, header...)
	}
	unmet("PUT", "", two, "If-Match", `"1"`)
	unmet("PUT", "", two, "If-Match", "W/"+first)
	unmet("PUT", "", two, "If-None-Match", "*")
	unmet("PUT", "", two, "If-None-Match", "W/"+first)
	unmet("PUT", "?npi=7", two, "If-Match", `"1"`)
	unmet("PATCH", "?npi=7", `{"wage":2}`, "If-Match", `"1"`)
	unmet("DELETE", "?npi=7", "", "If-Match", `"1"`)
	unmet("PUT", "", `{"eid":"2","lastname":"B"}`, "If-Match", "*")
	unmet("PATCH", "?eid=2", `{"wage":2}`, "If-Match", "*")
	unmet("DELETE", "?eid=2", "", "If-Match", "*")
	a.call(t, "GET", location, "", 200, one)

	_, second := a.headers(t, "PUT", people, two, 200, "If-Match", `"1", `+first)
	unmet("PUT", "", one, "If-Match", first)
	moved, third := a.headers(t, "PATCH", people+"?eid=1", `{"npi":8}`, 200, "If-Match", second)
	if moved == location || third == second {
		t.Errorf("moved from Location %s, ETag %s to Location %s, ETag %s", location, second, moved, third)
	}
	a.refuse(t, "GET", location, "", 404, "", "no record with this id")
	a.headers(t, "PUT", people, `{"eid":"1","lastname":"B"}`, 201, "If-None-Match", "*")
	// Several records.
	for _, method := range []string{"PUT", "PATCH", "DELETE"} {
		a.call(t, method, people+"?eid=1", `{"eid":"1","lastname":"C"}`, 409, `{"title":"Conflict"`, "If-Match", third)
	}
	a.call(t, "DELETE", people+"?npi=8", "", 200, `{"deleted":1}`, "If-Match", third)
	a.call(t, "DELETE", people+"?npi=8", "", 200, `{"deleted":0}`, "If-None-Match", "*")
	for _, bad := range []string{"1", `"a" "b"`, `*, "1"`, `"a`, ""} {
		a.call(t, "PUT", people, one, 400, `{"title":"Bad Request","status":400,"field":"If-Match"`, "If-Match", bad)
	}
	a.call(t, "POST", people, one, 400, `{"title":"Bad Request","status":400,"field":"If-Match"`, "If-Match", "*")
	// In another catalog.
	if location, _ := a.headers(t, "PUT", visits, `{"at":"2026-02-01","eid":"1"}`, 201); !strings.HasPrefix(location, visits+"/") {
		t.Errorf("Location %s, want one below %s", location, visits)
	}
}

// A Location identifies one record: it accepts GET, PUT, PATCH and DELETE until the record's id changes.
func TestLocationIdentifiesOneRecord(t *testing.T) {
	a := newApp(t)
	location, first := a.headers(t, "POST", people, `{"eid":"1","lastname":"A","npi":7}`, 201)
	a.headers(t, "POST", people, `{"eid":"1","lastname":"B","npi":7}`, 201) // a second record with the same index values
	_, second := a.headers(t, "PATCH", location, `{"wage":1}`, 200, "If-Match", first)
	a.headers(t, "PATCH", location, `{"wage":2}`, 412, "If-Match", first)
	a.headers(t, "PUT", location, `{"eid":"1","lastname":"A","npi":7,"wage":3}`, 412, "If-Match", first)
	if there, third := a.headers(t, "PUT", location, `{"eid":"1","lastname":"A","npi":7,"wage":3}`, 200, "If-Match", second); there != location || third == second {
		t.Errorf("the first answer has %s %s, the second %s %s", location, second, there, third)
	}
	a.refuse(t, "PUT", location, `{"eid":"2","lastname":"A","npi":7}`, 400, "eid", "is the first index key")
	a.refuse(t, "PATCH", location+"?eid=1", `{"wage":2}`, 400, "eid", "is not a parameter")
	moved, _ := a.headers(t, "PATCH", location, `{"lastname":"C"}`, 200)
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE"} {
		a.refuse(t, method, location, `{"eid":"1","lastname":"A","npi":7}`, 404, "", "no record with this id")
	}
	a.call(t, "GET", moved, "", 200, `{"eid":"1","lastname":"C","npi":7,"wage":3}`)
	a.headers(t, "DELETE", moved, "", 412, "If-Match", first)
	a.call(t, "DELETE", moved, "", 200, `{"deleted":1}`)
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE"} {
		a.refuse(t, method, location, `{"eid":"1","lastname":"A","npi":7}`, 404, "", "no record with this id")
	}
	a.headers(t, "DELETE", location, "", 412, "If-Match", "*")
	a.call(t, "GET", people+"?eid=1", "", 200, `{"records":[{"eid":"1","lastname":"B","npi":7}],`)
}
