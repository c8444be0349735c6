package function_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestRepeatedDeletes sends each DELETE twice with the same invocation id or Idempotency-Key, as if the first answer
// were lost. Other callers write in between. Both calls get the same answer, and the records and events that were
// written in between are kept. A call with another id is another deletion.
func TestRepeatedDeletes(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	const record, other = `{"eid":"1","lastname":"Faux","npi":"7"}`, `{"eid":"2","lastname":"New","npi":"7"}`
	const event = `{"text":"x"}`
	location := a.send("POST", people, record).Header().Get("Location")
	for _, tt := range []struct{ name, path, append, to, find, left string }{
		{"a Location", location, record, people, people + "?eid=1", `{"records":[` + record},
		{"a selector", people + "?npi=7", other, people, people + "?npi=7", `{"records":[` + other},
		{"a stream", "/api/log?stream=orders", event, "/api/log?stream=orders", "/api/log?stream=orders", `{"events":[{"id"`},
	} {
		for name, header := range map[string][]string{
			"proxied": {"X-Azure-Functions-InvocationId", "0d26e0c9-3c8c-4c2c-9e53-30a9e8d4c5a1"},
			"keyed":   {"Idempotency-Key", "key-of-" + tt.path},
		} {
			a.send("POST", tt.to, tt.append)
			a.call(t, "DELETE", tt.path, "", http.StatusOK, `{"deleted":1}`, header...)
			a.send("POST", tt.to, tt.append)
			a.call(t, "DELETE", tt.path, "", http.StatusOK, `{"deleted":1}`, header...)
			if got := a.call(t, "GET", tt.find, "", http.StatusOK, tt.left); t.Failed() {
				t.Fatalf("%s, %s: the list is %s", tt.name, name, got)
			}
			a.call(t, "DELETE", tt.path, "", http.StatusOK, `{"deleted":1}`)
			if got := a.send("GET", tt.find, "").Body.String(); strings.Contains(got, tt.left) {
				t.Errorf("%s, %s: after a deletion with another id, the list is %s", tt.name, name, got)
			}
		}
	}
	key := []string{"Idempotency-Key", "one"}
	a.call(t, "DELETE", people+"?npi=7", "", http.StatusOK, `{"deleted":0}`, key...)
	a.call(t, "DELETE", people+"?npi=8", "", http.StatusUnprocessableEntity, `{"title"`, key...)
	a.call(t, "DELETE", location, "", http.StatusUnprocessableEntity, `{"title"`, key...)
	a.call(t, "DELETE", people+"?npi=7", "", http.StatusBadRequest, `{"title"`, "Idempotency-Key", "two words")
}
