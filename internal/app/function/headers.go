package function

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"tablesweep/internal/problem"
)

const (
	jsonLines  = "application/x-ndjson"
	mergePatch = "application/merge-patch+json"

	problemType = "application/problem+json" // the type of an answer with the members of RFC 9457
)

// bodyTypes are the accepted media types of a JSON body, including the type that curl -d sends by default.
var bodyTypes = []string{"", "application/json", "application/x-www-form-urlencoded"}

// mediaType returns the type of the request's body, without its parameters.
func mediaType(r *http.Request) string {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

func inLines(r *http.Request) bool { return mediaType(r) == jsonLines }

// checkType returns an error unless the body's type is one of [bodyTypes] or one of `others`.
func checkType(r *http.Request, others ...string) error {
	const field = "Content-Type"
	kind := mediaType(r)
	_, _, err := mime.ParseMediaType(r.Header.Get(field))
	switch {
	case slices.Contains(others, kind), slices.Contains(bodyTypes, kind) && (kind == "" || err == nil):
		return nil
	case kind == "application/json-patch+json":
		return problem.WrongEncodingf(field, "is JSON Patch, which is not supported; send a JSON merge patch (RFC 7396) as %s", mergePatch)
	case strings.HasSuffix(kind, "/xml"), strings.HasSuffix(kind, "+xml"):
		return problem.WrongEncodingf(field, "is XML; send JSON")
	}
	return problem.WrongEncodingf(field, "is %q; send JSON as %s", r.Header.Get(field), strings.Join(append([]string{"application/json"}, others...), " or "))
}

// keepPrivate prevents caches from storing answers, and browsers from interpreting data as a page. The console, which contains no
// data, overrides Cache-Control.
func keepPrivate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// checkHeaders refuses a write with an unsupported header that would change the meaning of the write.
func checkHeaders(r *http.Request) error {
	switch {
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		return nil
	case hasHeader(r, "If-Unmodified-Since"):
		return problem.Invalidf("If-Unmodified-Since", "is not supported; use If-Match with the record's version")
	case hasHeader(r, "Content-Range"):
		return problem.Invalidf("Content-Range", "is not supported; send the whole body")
	}
	return nil
}

// prefersMinimal reports whether the caller prefers an answer without the record. If the caller does, prefersMinimal confirms the preference in
// a header of the answer. (RFC 7240)
func prefersMinimal(w http.ResponseWriter, r *http.Request) bool {
	const minimal = "return=minimal"
	for preference := range strings.FieldsFuncSeq(strings.Join(r.Header.Values("Prefer"), ","), func(c rune) bool { return c == ',' || c == ';' }) {
		if strings.EqualFold(strings.ReplaceAll(strings.TrimSpace(preference), `"`, ""), minimal) {
			w.Header().Set("Preference-Applied", minimal)
			return true
		}
	}
	return false
}

// linkNext adds a link to the next page. The link is the URL of this call with the cursor, but without the caller's
// key. If the cursor is "", linkNext adds nothing. (RFC 8288)
func linkNext(w http.ResponseWriter, r *http.Request, cursor string) {
	if cursor == "" {
		return
	}
	q := r.URL.Query()
	q.Del("code")
	q.Set("cursor", cursor)
	w.Header().Set("Link", "<?"+q.Encode()+`>; rel="next"`)
}
