package function_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/app/function"
	"tablesweep/internal/app/gate"
	"tablesweep/internal/proof/testsize"
)

// TestCallsBeforeTheAppIsReady: HTTP functions answer soon, and steps wait.
func TestCallsBeforeTheAppIsReady(t *testing.T) {
	for path, want := range map[string]time.Duration{"/api/scans": awayTime, "/api/catalog/changes": awayTime, "/ScanPrefix": 9 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			a := appOf(function.App{Gates: function.Gates{Settings: gate.New()}})
			method, body := "GET", ""
			if !strings.HasPrefix(path, "/api/") {
				method, body = "POST", `{"Data":{"item":"{}"}}`
			}
			start := time.Now()
			w := a.send(method, path, body)
			if took := time.Since(start); took != want || w.Code != 503 {
				t.Errorf("%s: status %d after %v, want 503 after %v", path, w.Code, took, want)
			}
		})
	}
}

// TestErrorListIsLimited: an answer lists the first errors, however many there are.
func TestErrorListIsLimited(t *testing.T) {
	testsize.WithoutRace(t)
	a := newApp(t)
	wrong := `{"a@odata.type":1` + strings.Repeat(`,"b@odata.type":1`, 200) + "}"
	for i := range 200 {
		wrong = strings.Replace(wrong, `"b@`, fmt.Sprintf(`"b%d@`, i), 1)
	}
	for _, path := range []string{"/api/log/orders", people} {
		body := "[" + strings.Repeat(wrong+",", 300) + wrong + "]"
		if answer := a.send("POST", path, body).Body; answer.Len() > 1<<20 || strings.Count(answer.String(), "Edm.Binary") < 20 {
			t.Errorf("%s: the answer has %d bytes for a body of %d bytes", path, answer.Len(), len(body))
		}
	}
}

// TestCountLimitsApplyWhileReading: too many records or fields are refused as soon as the limit is exceeded, before the rest of
// the body is parsed.
func TestCountLimitsApplyWhileReading(t *testing.T) {
	a := newApp(t)
	const most = 4 << 20 // maximum bytes of a body
	var fields strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&fields, `"f%d":1,`, i)
	}
	wide := "{"
	for i := range 450 {
		wide += fmt.Sprintf(`"f%d":1,`, i)
	}
	wide += `"g":1}`
	object := "{" + fields.String() + `"eid":"1","lastname":"A"}`
	for name, c := range map[string]struct{ path, body, contentType string }{
		"events":                {"/api/log/orders", "[" + strings.Repeat("1,", most/2-2) + "1]", "application/json"},
		"events in lines":       {"/api/log/orders", strings.Repeat("1\n", most/2), "application/x-ndjson"},
		"records":               {people, "[" + strings.Repeat("{},", most/3-2) + "{}]", "application/json"},
		"records in lines":      {people, strings.Repeat("{}\n", most/3), "application/x-ndjson"},
		"events of many fields": {"/api/log/orders", "[" + strings.Repeat(wide+",", 999) + wide + "]", "application/json"},
		"fields of an event":    {"/api/log/orders", object, "application/json"},
		"fields of a record":    {people, object, "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			var status int
			allocations := testing.AllocsPerRun(1, func() {
				status = a.send("POST", c.path, c.body, "Content-Type", c.contentType).Code
			})
			if status != http.StatusRequestEntityTooLarge || allocations > 10_000 {
				t.Errorf("status %d after %v allocations, want 413 after few allocations", status, allocations)
			}
		})
	}
}
