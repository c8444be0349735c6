package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"tablesweep/internal/config"
	"tablesweep/internal/engine"
	"tablesweep/internal/function"
)

// TestLinesAreShort: no message, whatever it holds, leaves a long line in the log.
func TestLinesAreShort(t *testing.T) {
	settings := environment(t, map[string]string{})
	c, err := config.Load(settings)
	if err != nil {
		t.Fatal(err)
	}
	app, _, err := newApp(c, settings)
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Engine.TryPrepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	handler := function.Handler(function.Functions(app), function.Host{}, newLog(&out, &out, zerolog.DebugLevel))
	const id = "2524556144539999999-xhqyex"
	long := strings.Repeat("long ", 9<<10)
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	for name, message := range map[string]string{
		"nothing": "", "text": long, "null": "null", "number": "1", "list": `[1,2]`, "half": `{"v":1,"scan":"`, "twice": `{}{}`,
		"zeros": strings.Repeat("\x00", 40<<10), "not Unicode": strings.Repeat("\xff", 40<<10), "deep": strings.Repeat(`{"step":`, 5<<10),
		"long id": `{"v":1,"scan":` + quoted(long) + `,"step":{"range":{}}}`, "control characters": `{"v":1,"scan":"` + strings.Repeat(`\u0001`, 7<<10) + `"}`,
		"long field": `{"v":1,` + quoted(long) + `:1}`, "other version": `{"v":99,"scan":` + quoted(long) + `}`, "text as version": `{"v":` + quoted(long) + `}`,
		"no such scan": `{"v":1,"scan":"` + id + `","step":{"range":{"p":` + quoted(long) + `}}}`, "long token": `{"v":1,"scan":"` + id + `","step":{"range":{},"token":{"p":` + quoted(long) + `}}}`,
		"too large": strings.Repeat("x", 60<<10),
	} {
		for _, queue := range []string{engine.ScanPrefix, engine.ScanPartition, engine.CopyRows} {
			for delivery := range engine.MaxDeliveries {
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
			t.Errorf("a line of %d bytes, want JSON of 2,000 at most: %.3000s", len(line), line)
		}
	}
	if lines < 100 {
		t.Errorf("%d lines, want one for each message that is refused", lines)
	}
}

func TestCut(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("x", 5000), strings.Repeat("é", 5000), strings.Repeat("\x00", 5000), strings.Repeat("😀", 998)} {
		got, _ := json.Marshal(cut(text))
		if len(got) > maxValue || len(text) > maxValue && len(got) < 300 || len(text) < maxValue && cut(text) != text {
			t.Errorf("%.20q… is cut to %d bytes: %.20q", text, len(got), got)
		}
	}
}
