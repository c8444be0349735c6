package function_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
	"tablesweep/internal/function"
	"tablesweep/internal/function/gate"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
)

// silent is a transport that never answers.
type silent struct{}

// Do implements the SDK's transporter.
func (silent) Do(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// calls has requests for each function: what it does at its longest.
var calls = map[string][]struct{ method, path, body string }{
	engine.ScanPrefix:    {{"POST", "/ScanPrefix", `{"v":1,"scan":"2524556144539999999-xhqyex","step":{"range":{}}}`}},
	engine.ScanPartition: {{"POST", "/ScanPartition", `{"v":1,"scan":"2524556144539999999-xhqyex","step":{"range":{"p":"p"}}}`}},
	engine.CopyRows:      {{"POST", "/CopyRows", `{"v":1,"scan":"2524556144539999999-xhqyex","rows":true,"step":{"range":{}}}`}},
	"Maintain":           {{"POST", "/Maintain", "{}"}},
	"Scans": {
		{"POST", "/api/scans", `{"source":{"table":"Source"},"action":{"type":"count"}}`},
		{"GET", "/api/scans", ""}, {"GET", "/api/scans/x", ""}, {"DELETE", "/api/scans/x", ""}, {"POST", "/api/scans/x/retry", ""},
	},
	"Schedules":     {{"GET", "/api/schedules", ""}, {"GET", "/api/schedules/x/backups", ""}},
	"Service":       {{"GET", "/api/health", ""}},
	"EventLog":      {{"POST", "/api/log/orders", `{"n":1}`}, {"GET", "/api/log/orders", ""}},
	"CatalogInsert": {{"POST", people, `{"eid":"1","lastname":"A"}`}, {"PUT", people, `{"eid":"1","lastname":"A"}`}},
	"CatalogQuery":  {{"GET", people + "?eid=1", ""}, {"GET", "/api/catalog/changes", ""}},
	"CatalogDelete": {{"DELETE", people + "?eid=1", ""}},
}

// limitOf is when the host, or the cloud in front of it, gives a function's call up.
func limitOf(f function.Function) time.Duration {
	if f.Trigger == function.HTTP {
		return 225 * time.Second
	}
	return 9*time.Minute + 30*time.Second // functionTimeout, well before it
}

// eachCall makes every call of every function to an app, in virtual time, and checks
// that it ends with a failure ahead of its limit.
func eachCall(t *testing.T, newParts func(t *testing.T) function.App) {
	for _, f := range function.Functions(function.App{}) {
		if f.Name == "Console" {
			continue // which needs nothing but the binary
		}
		if len(calls[f.Name]) == 0 {
			t.Errorf("%s has no call here", f.Name)
		}
		for _, c := range calls[f.Name] {
			t.Run(f.Name+" "+c.method+" "+c.path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := appOf(newParts(t))
					body := c.body
					if f.Trigger != function.HTTP {
						body = fmt.Sprintf(`{"Data":{"item":%q}}`, body)
					}
					start := time.Now()
					w := a.send(c.method, c.path, body)
					took := time.Since(start)
					time.Sleep(10 * time.Minute) // requests that nobody waits for end by their own limits
					if took > limitOf(f) || w.Code < 500 {
						t.Errorf("%d after %v, want a failure within %v", w.Code, took, limitOf(f))
					}
				})
			})
		}
	}
}

func TestSilentStorage(t *testing.T) {
	eachCall(t, func(t *testing.T) function.App {
		return partsOn(t, emulatortest.Open(t, emulatortest.New(t, emulator.Options{}), silent{}))
	})
}

// TestNeverReady: HTTP functions tell their callers soon, and steps wait.
func TestNeverReady(t *testing.T) {
	eachCall(t, func(t *testing.T) function.App {
		a := partsOn(t, emulatortest.Open(t, emulatortest.New(t, emulator.Options{}), silent{}))
		a.Gates = function.Gates{Own: gate.New(), Catalogs: map[string]*gate.Gate{"": gate.New()}}
		return a
	})
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
				t.Errorf("%s: %d after %v, want 503 after %v", path, w.Code, took, want)
			}
		})
	}
}

// TestFewErrorsAreListed: an answer names the first things that are wrong, however many there are.
func TestFewErrorsAreListed(t *testing.T) {
	testsize.WithoutRace(t)
	a := newApp(t)
	wrong := `{"a@odata.type":1` + strings.Repeat(`,"b@odata.type":1`, 200) + "}"
	for i := range 200 {
		wrong = strings.Replace(wrong, `"b@`, fmt.Sprintf(`"b%d@`, i), 1)
	}
	for _, path := range []string{"/api/log/orders", people} {
		body := "[" + strings.Repeat(wrong+",", 300) + wrong + "]"
		if answer := a.send("POST", path, body).Body; answer.Len() > 1<<20 || strings.Count(answer.String(), "Edm.Binary") < 20 {
			t.Errorf("%s: %d bytes for a body of %d", path, answer.Len(), len(body))
		}
	}
}

// TestCountsHoldWhileBodiesAreRead: too many records or fields are refused when the limit is met, not when all of them were read.
func TestCountsHoldWhileBodiesAreRead(t *testing.T) {
	a := newApp(t)
	const most = 4 << 20 // bytes of a body
	var fields strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&fields, `"f%d":1,`, i)
	}
	object := "{" + fields.String() + `"eid":"1","lastname":"A"}`
	for name, c := range map[string]struct{ path, body, contentType string }{
		"events":             {"/api/log/orders", "[" + strings.Repeat("1,", most/2-2) + "1]", "application/json"},
		"events in lines":    {"/api/log/orders", strings.Repeat("1\n", most/2), "application/x-ndjson"},
		"records":            {people, "[" + strings.Repeat("{},", most/3-2) + "{}]", "application/json"},
		"records in lines":   {people, strings.Repeat("{}\n", most/3), "application/x-ndjson"},
		"fields of an event": {"/api/log/orders", object, "application/json"},
		"fields of a record": {people, object, "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			var status int
			allocations := testing.AllocsPerRun(1, func() {
				status = a.send("POST", c.path, c.body, "Content-Type", c.contentType).Code
			})
			if status != http.StatusRequestEntityTooLarge || allocations > 10_000 {
				t.Errorf("%d after %v allocations, want 413 after few", status, allocations)
			}
		})
	}
}
