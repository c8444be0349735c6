package action_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// TestTemplateOutputIsLimited runs templates that would make far more text than a message may have. Each soon makes its
// row fail. The test counts the memory of the whole process, so it runs alone.
func TestTemplateOutputIsLimited(t *testing.T) {
	testsize.WithoutRace(t)
	double := func(function string) string {
		return `{{$x := "<\\'aaaaaaaaaaaa"}}` + strings.Repeat("{{$x = "+function+"}}", 26)
	}
	long := storage.StringProperty("Long", strings.Repeat("'", 32<<10))
	for name, text := range map[string]string{
		"print":     double("print $x $x"),
		"println":   double("println $x $x"),
		"printf":    double(`printf "%s%s" $x $x`),
		"html":      strings.Repeat("{{$x := html .Long}}{{$x = html $x}}", 100),
		"js":        double("js $x"),
		"urlquery":  strings.Repeat("{{$x := urlquery .Long}}{{$x = urlquery $x}}", 200),
		"json":      double("json $x"),
		"row":       strings.Repeat("{{$x := json .}}", 2000),
		"kept":      keep(2000),
		"one verb":  `{{$x := printf "` + strings.Repeat("%[1]s", 2000) + `" .Long}}`,
		"many":      `{{$x := print` + strings.Repeat(" .Long", 2000) + `}}`,
		"widths":    `{{$x := printf "` + strings.Repeat("%999d", 60_000) + `" 1}}`,
		"a width":   `{{$x := printf "%999999d" 1}}`,
		"precision": `{{$x := printf "%.999999f" 1.0}}`,
		"star":      `{{$x := printf "%*d" 999999 1}}`,
		"output":    strings.Repeat("{{.Long}}", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			template, err := action.ParseTemplate(text)
			proof.Must(t, err)
			_, a := emulatortest.NewAccount(t, emulator.Options{})
			q, err := a.Queue("work")
			proof.Must(t, err)
			row := storage.Entity{Key: key.Key{Partition: "p"}, Properties: []storage.Property{long}}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r, err := action.All(t.Context(), storage.RequestOptions{}, nil, action.Enqueue{Queue: q, Message: template}, storage.Rows([]storage.Entity{row}))
			runtime.ReadMemStats(&after)
			mib := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%d MiB", mib)
			if name == "kept" { // this template makes no new text
				if mib > 24 {
					t.Errorf("the template allocated %d MiB", mib)
				}
				return
			}
			if err != nil || len(r.Failed) != 1 || mib > 24 {
				t.Errorf("got result %+v, error %v, %d MiB allocated; want a failed row and at most 24 MiB", r, err, mib)
			}
		})
	}
}

// keep returns a template that stores a property's text many times.
func keep(times int) string {
	var b strings.Builder
	for i := range times {
		fmt.Fprintf(&b, "{{$x%d := .Long.String}}", i)
	}
	return b.String()
}

func TestTemplatesWithoutLoops(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"{{range 9999999999}}{{end}}",
		"{{if true}}{{with 1}}{{else}}{{range .}}{{end}}{{end}}{{end}}",
		"{{if false}}{{else if true}}{{range 3}}{{end}}{{end}}",
		`{{define "x"}}{{template "x"}}{{end}}{{template "x"}}`,
		`{{define "message"}}{{template "message"}}{{end}}`,
		`{{block "x" .}}a{{end}}`,
		"{{with 1}}{{template `message`}}{{end}}",
		"{{.Name", "{{nothing .}}",
	} {
		if _, err := action.ParseTemplate(text); err == nil {
			t.Errorf("the template %s was accepted", text)
		}
	}
}
