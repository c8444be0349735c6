package function_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
)

// results sends several records, and returns the result of each: the status, and the field of an error.
func (a *app) results(t *testing.T, body string, header ...string) string {
	t.Helper()
	w := a.send("POST", people, body, header...)
	var answer struct {
		Results []struct {
			Status int
			ID     string
			Error  struct{ Field, Detail string }
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
		t.Fatalf("status %d, body %s", w.Code, w.Body)
	}
	var all []string
	for _, r := range answer.Results {
		text := fmt.Sprint(r.Status)
		if r.Status < 300 != (r.ID != "") || r.Status >= 300 != (r.Error.Detail != "") {
			t.Errorf("%+v", r)
		}
		if r.Error.Field != "" {
			text += " " + r.Error.Field
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestSeveralRecordsInOneCall(t *testing.T) {
	a := newApp(t)
	if got := a.results(t, `[{"eid":"1","lastname":"A","npi":1},{"eid":"1","lastname":"A","npi":1},{"npi":7},{"eid":"2","lastname":1e400}, 7,{"eid":"1","lastname":"A","npi":1,"x":2}]`); got != "201, 200, 400 eid, 400 lastname, 400, 409" {
		t.Errorf("got results %s", got)
	}
	const lines = "\ufeff{\"eid\":\"3\",\"lastname\":\"C\",\"npi\":3}\r\n\n{\"eid\":\n{\"eid\":\"4\",\"lastname\":\"D\",\"npi\":4}"
	if got := a.results(t, lines, "Content-Type", "application/x-ndjson; charset=utf-8"); got != "201, 400, 201" {
		t.Errorf("got results %s", got)
	}
	a.call(t, "POST", people, "\ufeff"+`[{"eid":"4","lastname":"D","npi":4}]`, 200, `{"results":[{"status":200,`)

	// Lists, counts, and several values of a key.
	const one, three, four = `{"eid":"1","lastname":"A","npi":1}`, `{"eid":"3","lastname":"C","npi":3}`, `{"eid":"4","lastname":"D","npi":4}`
	a.call(t, "GET", people, "", 200, `{"records":[`+one+`,`+three+`,`+four+`],`)
	first := a.call(t, "GET", people+"?top=2", "", 200, `{"records":[`+one+`,`+three+`],`)
	var page struct{ Cursor string }
	proof.Must(t, json.Unmarshal([]byte(first), &page))
	a.call(t, "GET", people+"?top=2&cursor="+page.Cursor, "", 200, `{"records":[`+four+`],`)
	a.call(t, "GET", people+"?row_prefix=c", "", 200, `{"records":[`+three+`],`)
	a.call(t, "GET", people+"?row_prefix=c&row_from=a", "", 400, `{"title":"Bad Request","status":400,"field":"row_prefix"`)
	a.call(t, "GET", visits+"?row_prefix=2026-0", "", 400, `{"title":"Bad Request","status":400,"field":"row_prefix","detail":"\"2026-0\" is neither`)
	a.call(t, "GET", people+"?npi=1&npi=4&npi=9", "", 200, `{"records":[`+one+`,`+four+`],`)
	a.call(t, "GET", strings.Replace(people, "records", "count", 1), "", 200, `{"count":3}`)
	a.call(t, "GET", strings.Replace(people, "records", "count", 1)+"?npi=1&npi=4&row_prefix=d", "", 200, `{"count":1}`)
	for _, method := range []string{"DELETE", "PUT", "PATCH"} {
		a.call(t, method, people+"?npi=1&npi=4", four, 400, `{"title":"Bad Request","status":400,"field":"npi","detail":"is given several times`)
	}
	a.call(t, "DELETE", people, "", 400, `{"title":"Bad Request"`)
	a.call(t, "GET", people, "", 200, `{"records":[`+one+`,`+three+`,`+four+`],`)

	// Changes since a time.
	a.parts.Catalogs[""].Close() // waits for work that continues after the answers
	changes := strings.Replace(people, "records", "changes", 1)
	a.call(t, "GET", changes+"?since=0s", "", 200, `{"changes":[]}`)
	a.call(t, "GET", changes+"?since=yesterday", "", 400, `{"title":"Bad Request","status":400,"field":"since"`)
	if got := a.call(t, "GET", changes+"?since=1h", "", 200, `{"changes":[{`); strings.Count(got, `"kind":"insert"`) != 3 {
		t.Errorf("got changes %s, want three insertions", got)
	}
}

// TestLongDeletionContinuesInTheNextCall: on slow storage, a deletion of many records answers in time, and the same call deletes the rest.
func TestLongDeletionContinuesInTheNextCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		em := emulatortest.New(t, emulator.Options{})
		a := newAppVia(t, em, em.Transport())
		var all []string
		for i := range 600 {
			all = append(all, fmt.Sprintf(`{"eid":"%d","npi":7,"lastname":"A"}`, i))
		}
		a.results(t, "["+strings.Join(all, ",")+"]")
		proof.Must(t, em.SetFaults("latency=9s"))
		left, calls := len(all), 0
		for more := true; more; calls++ {
			start := time.Now()
			var done struct {
				Deleted int
				More    bool
			}
			w := a.fetch(t, "DELETE", people+"?npi=7", "", &done)
			left, more = left-done.Deleted, done.More
			if took := time.Since(start); done.Deleted == 0 || more != (left > 0) || took > 200*time.Second { // the time after which it would end with an error
				t.Fatalf("after %v: answer %s, and %d records are left", took, w.Body, left)
			}
		}
		if calls < 2 {
			t.Error("one call deleted all records, so the test proves nothing")
		}
		a.call(t, "POST", people, all[0], 201, "")
		proof.Must(t, em.SetFaults("latency=9s; busy p=1 on=batch")) // the storage refuses commits
		a.call(t, "DELETE", people+"?npi=7", "", 503, `{"title":"Service Unavailable","status":503,"detail":"of 1 record found, 0 were deleted, the deletion of 1 may be committed; repeat the call to continue: the storage of `)
	})
}

// TestSeveralRecordsWithIdempotencyKey: each item has its own key. A repetition gets the first results. An item with other contents is refused.
// An item that was invalid can be corrected.
func TestSeveralRecordsWithIdempotencyKey(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	for body, want := range map[string]string{
		`[{"eid":"5","lastname":"E"},7,{"eid":"6","lastname":"F"}]`:                          "201, 400, 201",
		`[{"eid":"5","lastname":"E"},7,{"eid":"7","lastname":"F"}]`:                          "201, 400, 422 Idempotency-Key",
		`[{"eid":"5","lastname":"E"},{"eid":"7","lastname":"F"},{"eid":"6","lastname":"F"}]`: "201, 201, 201",
	} {
		a.results(t, `[{"eid":"5","lastname":"E"},7,{"eid":"6","lastname":"F"}]`, "Idempotency-Key", "x")
		if got := a.results(t, body, "Idempotency-Key", "x"); got != want {
			t.Errorf("body %s: results %s, want %s", body, got, want)
		}
	}
}
