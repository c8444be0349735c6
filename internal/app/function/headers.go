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

	problemType = "application/problem+json" // of an answer that has the members of RFC 9457
)

// bodyTypes are the media types of a JSON body, and what curl -d sends.
var bodyTypes = []string{"", "application/json", "application/x-www-form-urlencoded"}

// mediaType returns the type of the request's body, without its parameters.
func mediaType(r *http.Request) string {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// inLines reports whether the request's body has one record a line.
func inLines(r *http.Request) bool { return mediaType(r) == jsonLines }

// checkType refuses a body of a type that is neither JSON's nor among the others that the call takes.
func checkType(r *http.Request, others ...string) error {
	const field = "Content-Type"
	kind := mediaType(r)
	_, _, err := mime.ParseMediaType(r.Header.Get(field))
	switch {
	case slices.Contains(others, kind), slices.Contains(bodyTypes, kind) && (kind == "" || err == nil):
		return nil
	case kind == "application/json-patch+json":
		return problem.WrongEncodingf(field, "is JSON Patch, which is not taken; send a JSON merge patch (RFC 7396) as %s", mergePatch)
	case strings.HasSuffix(kind, "/xml"), strings.HasSuffix(kind, "+xml"):
		return problem.WrongEncodingf(field, "is XML; send JSON")
	}
	return problem.WrongEncodingf(field, "is %q; send JSON as %s", r.Header.Get(field), strings.Join(append([]string{"application/json"}, others...), " or "))
}

// private keeps answers out of caches, and keeps browsers from taking data for a page. The console's page has no data, and may be cached.
func private(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// checkHeaders refuses a write with a header that would change what it means, and which this app does not know.
func checkHeaders(r *http.Request) error {
	switch {
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		return nil
	case has(r, "If-Unmodified-Since"):
		return problem.Invalidf("If-Unmodified-Since", "is not taken: a write here compares versions by If-Match")
	case has(r, "Content-Range"):
		return problem.Invalidf("Content-Range", "is not taken: a write here takes a whole body")
	}
	return nil
}

// wantsMinimal reports whether the caller prefers an answer without the record, and then notes in
// the answer that it is one. (RFC 7240)
func wantsMinimal(w http.ResponseWriter, r *http.Request) bool {
	const minimal = "return=minimal"
	for preference := range strings.FieldsFuncSeq(strings.Join(r.Header.Values("Prefer"), ","), func(c rune) bool { return c == ',' || c == ';' }) {
		if strings.EqualFold(strings.ReplaceAll(strings.TrimSpace(preference), `"`, ""), minimal) {
			w.Header().Set("Preference-Applied", minimal)
			return true
		}
	}
	return false
}

// linkNext says in the answer where the next page is, if there is a cursor: the same call with
// it, and without the caller's key. (RFC 8288)
func linkNext(w http.ResponseWriter, r *http.Request, cursor string) {
	if cursor == "" {
		return
	}
	q := r.URL.Query()
	q.Del("code")
	q.Set("cursor", cursor)
	w.Header().Set("Link", "<?"+q.Encode()+`>; rel="next"`)
}
