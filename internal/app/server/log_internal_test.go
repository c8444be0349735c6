package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"tablesweep/internal/app/config"
	"tablesweep/internal/app/function"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
)

// logged returns the handler of an app with a catalog on prepared storage, and the app's log.
func logged(t *testing.T) (http.Handler, *bytes.Buffer) {
	t.Helper()
	settings := environment(t, map[string]string{"TABLE_CATALOG_NAME": "People", "TABLE_CATALOG_INDEX_KEYS": "eid", "TABLE_CATALOG_ROW_KEY": "name"})
	c, err := config.Load(settings)
	proof.Must(t, err)
	app, _, err := newApp(c, settings)
	proof.Must(t, err)
	cat := app.Catalogs[""]
	proof.Must(t, errors.Join(app.Engine.TryPrepare(t.Context()), app.Log.TryPrepare(t.Context()), cat.TryPrepare(t.Context())))
	t.Cleanup(cat.Close)
	var out bytes.Buffer
	return function.Handler(function.Functions(app), function.Host{}, newLog(&out, &out, zerolog.DebugLevel)), &out
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// TestLogLinesAreShort: no message causes a long line in the log, whatever it contains.
func TestLogLinesAreShort(t *testing.T) {
	testsize.WithoutRace(t)
	handler, out := logged(t)
	const id = "2524556144539999999-xhqyex"
	long := strings.Repeat("long ", 9<<10)
	for name, message := range map[string]string{
		"nothing": "", "text": long, "null": "null", "number": "1", "list": `[1,2]`, "half": `{"v":1,"scan":"`, "twice": `{}{}`,
		"zeros": strings.Repeat("\x00", 40<<10), "not Unicode": strings.Repeat("\xff", 40<<10), "deep": strings.Repeat(`{"step":`, 5<<10),
		"long id": `{"v":1,"scan":` + quoted(long) + `,"step":{"range":{}}}`, "control characters": `{"v":1,"scan":"` + strings.Repeat(`\u0001`, 7<<10) + `"}`,
		"long field": `{"v":1,` + quoted(long) + `:1}`, "other version": `{"v":99,"scan":` + quoted(long) + `}`, "text as version": `{"v":` + quoted(long) + `}`,
		"no such scan": `{"v":1,"scan":"` + id + `","step":{"range":{"p":` + quoted(long) + `}}}`, "long token": `{"v":1,"scan":"` + id + `","step":{"range":{},"token":{"p":` + quoted(long) + `}}}`,
		"too large": strings.Repeat("x", 60<<10),
	} {
		for _, queue := range []string{scans.ScanPrefix, scans.ScanPartition, scans.CopyRows} {
			for delivery := range scans.MaxDeliveries {
				body := fmt.Sprintf(`{"Data":{"item":%s},"Metadata":{"DequeueCount":"%d"}}`, quoted(message), delivery+1)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/"+queue, strings.NewReader(body)))
				if strings.Contains(out.String(), "panic") {
					t.Errorf("%s: panic", name)
				}
			}
		}
	}
	for _, path := range []string{"/api/" + strings.Repeat("x", 7<<10), "/api/scans/" + strings.Repeat("%01", 2<<10), "/api/scans?" + strings.Repeat("x", 7<<10) + "=1"} {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	lines := 0
	for line := range strings.Lines(out.String()) {
		lines++
		if !json.Valid([]byte(line)) || len(line) > 2000 {
			t.Errorf("got a line of %d bytes, want JSON of at most 2,000: %.3000s", len(line), line)
		}
	}
	if lines < 100 {
		t.Errorf("got %d lines, want one for each refused message", lines)
	}
}

// TestSecretsAreNotRepeated: if a caller sends a secret instead of a name, no answer and no line of the log contains it, and no stored
// field accepts it.
func TestSecretsAreNotRepeated(t *testing.T) {
	const (
		key       = "c2VjcmV0K2tleS9vZis2NCtieXRlcy1mb3ItdGVzdHMtb25seS0wMTIzNDU2Nzg5YWJjZGVmZ2hpamtsbW5vcA=="
		signature = "c2VjcmV0c2lnbmF0dXJlb2YzMmJ5dGVzMDEyMzQ1Njc4OWE="
	)
	handler, out := logged(t)
	for name, text := range map[string]string{
		"connection string": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=" + key + ";EndpointSuffix=core.windows.net",
		"SAS URL":           "https://a.table.core.windows.net/?sv=2024-11-04&sig=" + url.QueryEscape(signature),
		"bare key":          key,
		"function's URL":    "https://f.azurewebsites.net/api/scans?code=" + key,
	} {
		escaped := url.PathEscape(text)
		type call struct{ method, path, body string }
		calls := []call{
			{"GET", "/api/scans?table=" + url.QueryEscape(text), ""}, {"GET", "/api/scans?state=" + url.QueryEscape(text), ""},
			{"GET", "/api/scans?action=" + url.QueryEscape(text), ""}, {"GET", "/api/scans?" + url.QueryEscape(text) + "=1", ""},
			{"GET", "/api/scans?since=" + url.QueryEscape(text), ""}, {"GET", "/api/scans?cursor=" + url.QueryEscape(text), ""},
			{"GET", "/api/scans/" + escaped, ""}, {"POST", "/api/scans/" + escaped + "/retry", ""}, {"GET", "/api/" + escaped, ""},
			{"GET", "/api/scans/connections/" + escaped + "/tables", ""}, {"DELETE", "/api/log/" + escaped, ""},
			{"POST", "/api/log?stream=" + url.QueryEscape(text), `{"n":1}`},
			{"GET", "/api/log/orders?since=" + url.QueryEscape(text), ""}, {"GET", "/api/log/orders?after=" + url.QueryEscape(text), ""},
			{"GET", "/api/catalog/" + escaped + "/records", ""}, {"GET", "/api/catalog/records/" + escaped, ""},
			{"GET", "/api/catalog/records?" + url.QueryEscape(text) + "=1", ""}, {"POST", "/api/catalog/records", `{"eid":` + quoted(text) + `}`},
			{"POST", "/api/catalog/records", `[{"eid@odata.type":` + quoted(text) + `,"eid":"1"}]`}, {"GET", "/api/catalog/changes?cursor=" + url.QueryEscape(text), ""},
		}
		for _, body := range []string{
			`{"source":{"table":%s},"action":{"type":"count"}}`, `{"source":{"table":"T12","connection":%s},"action":{"type":"count"}}`,
			`{"source":{"container":%s},"action":{"type":"count"}}`, `{"source":{"container":"abc","prefix":%s},"action":{"type":"count"}}`,
			`{"source":{"container":"abc","export":%s},"action":{"type":"count"}}`,
			`{"source":{"table":"T12"},"action":{"type":"enqueue","queue":{"name":%s}}}`, `{"source":{"table":"T12"},"action":{"type":%s}}`,
			`{"source":{"table":"T12"},"action":{"type":"enqueue","queue":{"name":"abc","connection":%s}}}`,
			`{"source":{"table":"T12"},"action":{"type":"enqueue","queue":{"name":"abc"},"message":%s}}`,
			`{"source":{"table":"T12"},"action":{"type":"copy","destination":{"table":%s}}}`, `{"source":{"table":"T12"},"action":{"type":"copy","destination":{"table":"T123","connection":%s}}}`,
			`{"source":{"table":"T12"},"action":{"type":"copy","mode":%s,"destination":{"table":"T123"}}}`,
			`{"name":%s,"source":{"table":"T12"},"action":{"type":"count"}}`, `{"range":{"prefix":%s},"source":{"table":"T12"},"action":{"type":"count"}}`,
			`{"range":{"after":%s},"source":{"table":"T12"},"action":{"type":"count"}}`, `{"filter":%s,"source":{"table":"T12"},"action":{"type":"count"}}`,
			`{"strategy":%s,"source":{"table":"T12"},"action":{"type":"count"}}`, `{"select":[%s],"source":{"table":"T12"},"action":{"type":"copy"}}`,
			`{%s:1,"source":{"table":"T12"},"action":{"type":"count"}}`, `%s`,
		} {
			calls = append(calls, call{"POST", "/api/scans", fmt.Sprintf(body, quoted(text))})
		}
		for _, queue := range []string{scans.ScanPrefix, scans.CopyRows} {
			calls = append(calls, call{"POST", "/" + queue, `{"Data":{"item":` + quoted(`{"v":1,"scan":`+quoted(text)+`}`) + `},"Metadata":{"DequeueCount":"1"}}`})
		}
		for _, c := range calls {
			out.Reset()
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)))
			texts := w.Body.String() + out.String()
			if refused := w.Code >= 400 && w.Code < 500; !refused && !strings.HasPrefix(c.body, "[") {
				t.Errorf("%s: %s %s with body %s: status %d, want a refusal", name, c.method, c.path, c.body, w.Code)
			}
			for _, part := range []string{key[:40], signature[:40], "c2VjcmV0"} {
				if strings.Contains(texts, part) {
					t.Errorf("%s: %s %s %s: an answer or the log contains the secret:\n%s", name, c.method, c.path, c.body, texts)
					break
				}
			}
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: the answer is not JSON: %s", name, w.Body)
			}
		}
	}
}

func TestShorten(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("x", 5000), strings.Repeat("é", 5000), strings.Repeat("\x00", 5000), strings.Repeat("😀", 998)} {
		got, _ := json.Marshal(shorten(text))
		if len(got) > maxValue || len(text) > maxValue && len(got) < 300 || len(text) < maxValue && shorten(text) != text {
			t.Errorf("%.20q… is shortened to %d bytes: %.20q", text, len(got), got)
		}
	}
}
