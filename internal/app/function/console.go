package function

import (
	"bytes"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/app/console"
)

// consoleRoute matches only file names. Anonymous functions need no key, so the route must not match paths of other
// functions.
const consoleRoute = "console/{file:regex(^[a-z]+[.](css|js|svg)$)?}"

// consoleHeaders prevent the page from loading data from other sites, sending data to them, and running data as code.
var consoleHeaders = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-cache",
}

// consoleCalls returns the calls for the console's files, which contain no data. There are none if the setting TABLESWEEP_CONSOLE is off.
//
// The callers are browsers.
func consoleCalls(on bool) []call {
	if !on {
		return nil
	}
	return []call{{method: "GET", path: "console", needs: needsNothing, serve: getConsole}, {method: "GET", path: "console/{file}", needs: needsNothing, serve: getConsole}}
}

func getConsole(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("file")
	file, found := console.Named(name)
	for name, value := range consoleHeaders {
		w.Header().Set(name, value)
	}
	switch {
	case !found:
		notFound(w, r)
		return nil
	case name == "" && !strings.HasSuffix(r.URL.Path, "/"): // redirects, because the page's relative links need a path that ends in a slash
		w.Header().Set("Location", path.Base(r.URL.Path)+"/")
		w.WriteHeader(http.StatusFound)
		return nil
	}
	w.Header().Set("Content-Type", file.Kind)
	w.Header().Set("ETag", file.ETag)
	w.Header().Set("Vary", "Accept-Encoding")
	content := file.Content
	if takesGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		content = file.Packed
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	return nil
}

// takesGzip reports whether the caller accepts a compressed answer. (RFC 9110, 12.5.3)
func takesGzip(r *http.Request) bool {
	takes := false
	for _, part := range strings.Split(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(part, " ", "")), ";q=")
		if q, err := strconv.ParseFloat(weight, 64); name == "gzip" {
			return err != nil || q > 0
		} else if name == "*" {
			takes = err != nil || q > 0
		}
	}
	return takes
}
