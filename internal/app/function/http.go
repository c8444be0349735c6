package function

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"tablesweep/internal/input"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/scans"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

// Limits of a request's size and time. The host waits 230 s for an HTTP answer. After functionTimeout, it kills the process
// with all its invocations. (Microsoft Learn, "Azure Functions scale and hosting")
const (
	// maxEnvelope is enough for a queue message of 64 KiB that is escaped twice, and for a copy of the message's top-level properties in the
	// metadata.
	maxEnvelope   = 1 << 20
	maxRequest    = scans.MaxRequest
	maxEventBytes = 4 << 20 // about the size of one transaction
	maxRecord     = 4 << 20 // a row has at most 1 MiB in UTF-16; if JSON escapes every character of such a row, the JSON has 3 MiB

	invocationTime = 9 * time.Minute
	requestTime    = 200 * time.Second
	// awayTime is how long a call waits for unavailable storage or an unprepared app.
	awayTime   = 25 * time.Second
	retryAfter = "10" // seconds, if the storage is unavailable
	// bodyTime is the maximum time in which a body may arrive. answerTime is added to the maximum time for
	// handling a request, and allows for writing the answer.
	bodyTime   = 150 * time.Second
	answerTime = 20 * time.Second
	// An answer may be ready before the request's body has arrived. In this case, the answer waits until the whole body or
	// its first maxRest bytes have arrived, but for at most restTime.
	restTime = 10 * time.Second
	maxRest  = 100 << 20 // the host's limit
)

// withLimits limits the size of a request's body and the time of its handling. A request that may write continues after the client disconnects,
// so that no recovery has to complete the write.
func withLimits(bytes int64, t time.Duration, next http.Handler) http.Handler {
	return withProblems(func(w http.ResponseWriter, r *http.Request) error {
		ctx := r.Context()
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			ctx = context.WithoutCancel(ctx)
		}
		ctx, cancel := context.WithTimeout(ctx, t)
		defer cancel()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(t + answerTime))
		body, err := unpacked(w, r, bytes)
		if err != nil {
			w.Header().Set("Accept-Encoding", "gzip")
			return err
		}
		r = r.WithContext(ctx)
		r.Body = body
		next.ServeHTTP(w, r)
		return nil
	})
}

// unpacked returns the request's body, uncompressed. Both the compressed and the uncompressed body may have at most
// `limit` bytes.
func unpacked(w http.ResponseWriter, r *http.Request, limit int64) (io.ReadCloser, error) {
	body := http.MaxBytesReader(w, r.Body, limit)
	switch encoding := strings.ToLower(strings.Join(r.Header.Values("Content-Encoding"), ",")); encoding {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		return http.MaxBytesReader(w, &gzipBody{packed: body}, limit), nil
	default:
		return nil, problem.WrongEncodingf("Content-Encoding", "is %q; send the body uncompressed or with gzip", encoding)
	}
}

// gzipBody uncompresses a body. It reads nothing before the first call of Read.
type gzipBody struct {
	packed io.ReadCloser
	reader *gzip.Reader
}

func (b *gzipBody) Read(p []byte) (n int, err error) {
	if b.reader == nil {
		if b.reader, err = gzip.NewReader(b.packed); err != nil {
			return 0, err
		}
	}
	return b.reader.Read(p)
}

func (b *gzipBody) Close() error { return b.packed.Close() }

// withDeadlines disconnects clients that send or read slowly, because the host buffers neither requests nor answers.
func withDeadlines(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		// Setting a deadline fails only in tests, whose connections have no deadlines.
		_ = c.SetWriteDeadline(time.Now().Add(requestTime + answerTime))
		if r.Body != http.NoBody {
			_ = c.SetReadDeadline(time.Now().Add(bodyTime)) // the server clears the deadline when the body has arrived
		}
		next.ServeHTTP(w, r)
	})
}

// readToEnd reads the body of each request to its end, even if the answer is ready earlier.
func readToEnd(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			on := &readingOn{ResponseWriter: w, request: r}
			r = r.WithContext(r.Context())
			w, r.Body = on, on
		}
		next.ServeHTTP(w, r)
	})
}

// readingOn delays an answer until the request's body has arrived, or until the body is found to be too long or too
// slow. Without the delay, the host would turn the answer into an empty 500. readingOn also replaces the request's
// body, and counts the body's bytes. Bytes that the handler does not read are neither decompressed nor stored.
type readingOn struct {
	http.ResponseWriter
	request *http.Request
	got     int64
	ended   bool
}

// Unwrap is for [http.ResponseController].
func (on *readingOn) Unwrap() http.ResponseWriter { return on.ResponseWriter }

// Close implements [io.Closer].
func (on *readingOn) Close() error { return on.request.Body.Close() }

// Read implements [io.Reader].
func (on *readingOn) Read(p []byte) (int, error) {
	n, err := on.request.Body.Read(p)
	on.got += int64(n)
	on.ended = on.ended || err != nil
	return n, err
}

// WriteHeader implements [http.ResponseWriter].
func (on *readingOn) WriteHeader(status int) {
	expects := on.got == 0 && on.request.Header.Get("Expect") != "" // the client sends the body only after an interim answer
	if !on.ended && !expects && on.request.ContentLength <= maxRest {
		_ = http.NewResponseController(on.ResponseWriter).SetReadDeadline(time.Now().Add(restTime))
		_, _ = io.CopyN(io.Discard, on, maxRest-on.got) // if the body cannot be read, the answer is still sent
		on.ended = true
	}
	on.ResponseWriter.WriteHeader(status)
}

// parameters reads the query, which may contain only the allowed parameters, each at most once.
func parameters(r *http.Request, allowed ...string) (url.Values, error) {
	return input.Query(r.URL.RawQuery, input.Once(allowed...))
}

// withQuery returns the handler of a call that accepts only the allowed parameters, each at most once.
func withQuery(serve func(w http.ResponseWriter, r *http.Request, given url.Values) error, allowed ...string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		given, err := parameters(r, allowed...)
		if err != nil {
			return err
		}
		return serve(w, r, given)
	}
}

// readTop reads the parameter "top". If the parameter is missing, readTop returns `standard`.
func readTop(given url.Values, standard, limit int) (int, error) {
	if !given.Has("top") {
		return standard, nil
	}
	top, err := strconv.Atoi(given.Get("top"))
	if err != nil {
		top = 0
	}
	return top, input.Top(top, limit)
}

// readBody reads a request's body within the limits of withLimits and withDeadlines. The body's type must be JSON or one
// of `others`.
func readBody(r *http.Request, others ...string) ([]byte, error) {
	if err := checkType(r, others...); err != nil {
		return nil, err
	}
	b, err := readAll(r)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, memory.ErrFull):
		return nil, err
	case errors.As(err, &tooLarge):
		return nil, problem.TooLargef("", "the body is larger than %d bytes", tooLarge.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problem.Invalidf("", "the body did not arrive within %v", bodyTime)
	case err != nil:
		return nil, problem.Invalidf("", "the body cannot be read").Because(err)
	case !utf8.Valid(b):
		return nil, problem.Invalidf("", "line %d of the body is not valid UTF-8; send JSON in UTF-8", invalidLine(b))
	}
	return bytes.TrimPrefix(b, []byte(lines.ByteOrderMark)), nil
}

// readAll reads a request's body. If the body's length is known, readAll allocates memory only once.
func readAll(r *http.Request) ([]byte, error) {
	if r.ContentLength <= 0 || r.ContentLength > maxRecord || r.Header.Get("Content-Encoding") != "" {
		return io.ReadAll(r.Body)
	}
	b := bytes.NewBuffer(make([]byte, 0, r.ContentLength+bytes.MinRead))
	_, err := b.ReadFrom(r.Body)
	return b.Bytes(), err
}

// invalidLine returns the number of the first line that is not valid UTF-8.
func invalidLine(text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		if n++; !utf8.Valid(line) {
			break
		}
	}
	return n
}

// withLogger puts a logger with the invocation's id into each request's context.
func withLogger(log zerolog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l := log
		if id := invocationID(r); id != "" {
			l = log.With().Str("invocation", id).Logger()
		}
		next.ServeHTTP(w, r.WithContext(l.WithContext(r.Context())))
	})
}

// recoverPanics turns a panic into an error of that invocation. Other invocations continue.
func recoverPanics(next http.Handler) http.Handler {
	return withProblems(func(w http.ResponseWriter, r *http.Request) error {
		return task.Do(func() error {
			next.ServeHTTP(w, r)
			return nil
		})
	})
}

// withProblems returns a handler that calls fn, and answers with fn's error as a problem.
func withProblems(fn func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := fn(w, r); err != nil {
			writeProblem(w, r, err)
		}
	}
}

// notFound answers a path that has no route.
func notFound(w http.ResponseWriter, r *http.Request) {
	writeProblem(w, r, problem.NotFoundf("", "there is no %s %s", r.Method, r.URL.Path))
}

// writeProblem answers with the error in the form of RFC 9457.
func writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	status := problem.Status(p)
	if status == http.StatusServiceUnavailable || p.Kind == problem.Deleting {
		w.Header().Set("Retry-After", retryAfter)
	}
	log := zerolog.Ctx(r.Context())
	switch {
	case errors.Is(r.Context().Err(), context.Canceled):
		log.Debug().Err(err).Msg("the caller closed the connection")
	case status < http.StatusInternalServerError || p.Kind == problem.Moving: // the host does not log such answers
		log.Info().Str("method", r.Method).Str("route", r.Pattern).Int("status", status).Stringer("code", p.Kind).Msg("request refused")
	case p.Kind != problem.NotReady: // the gate already reports NotReady once a minute
		log.Error().Err(err).Str("path", r.URL.Path).Msg("request failed")
	}
	writeProblemJSON(w, r, status, problemBody(p, err))
}

// problemBody returns p in the form of RFC 9457, with the first maxErrors errors that are joined in err.
func problemBody(p *problem.Error, err error) any {
	status := problem.Status(p)
	return struct {
		Title  string       `json:"title"`
		Status int          `json:"status"`
		Field  string       `json:"field,omitempty"`
		Detail string       `json:"detail"`
		Errors []fieldError `json:"errors,omitempty"`
	}{http.StatusText(status), status, p.Field, publicText(p), fieldErrors(err)}
}

// problemOf is like [problem.Of], with one exception. If storage is unavailable, refuses the app's request, or lacks one of the app's tables,
// the result is a [problem.Busy] error that names the cause for the caller.
func problemOf(err error) *problem.Error {
	var p *problem.Error
	var away *storage.AwayError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &away):
		return problem.Busyf("", "%s", away.Sentence())
	case errors.Is(err, memory.ErrFull):
		return errFull()
	case storage.BeingDeleted(err):
		return problem.BeingDeleted("", err)
	case storage.Passing(err):
		return problem.Busyf("", "try again later: %v", err)
	case storage.Denied(err):
		return problem.Busyf("", "the storage refuses this app, perhaps because the app's key, SAS or role has changed: %v", err)
	case storage.HasCode(err, "TableNotFound"): // the app's own table is missing; if a scan's table is missing, the error is about the request
		return problem.Busyf("", "one of the app's tables is missing; restore the table, or restart the app to create an empty table: %v", err)
	}
	return problem.Of(err)
}

// publicText returns an error's text for callers. The text includes the error's cause if the status is below 500, or if the
// app is not ready because of a storage error. Any other cause is only in the log.
func publicText(p *problem.Error) string {
	if p.Err == nil || problem.Status(p) >= http.StatusInternalServerError && !(p.Kind == problem.NotReady && (storage.Passing(p.Err) || storage.Denied(p.Err))) {
		return p.Detail
	}
	return p.Detail + ": " + p.Err.Error()
}

// fieldError is one of several errors in a request.
type fieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// maxErrors is the maximum number of errors that an answer lists for one record, or for a request without records. A request can cause hundreds of
// thousands of errors.
const maxErrors = 20

// firstOf returns the first problems that are joined in an error, at most `limit` of them.
func firstOf(err error, limit int) []*problem.Error {
	all := problem.All(err)
	return all[:min(len(all), limit)]
}

// fieldErrors lists the errors if there are several.
func fieldErrors(err error) []fieldError {
	all := firstOf(err, maxErrors)
	if len(all) < 2 {
		return nil
	}
	list := make([]fieldError, len(all))
	for i, p := range all {
		list[i] = fieldError{p.Field, p.Detail}
	}
	return list
}

// answer writes an answer with v as JSON. If err is not nil, it writes nothing and returns err.
func answer(w http.ResponseWriter, r *http.Request, v any, err error) error {
	if err == nil {
		writeJSON(w, r, http.StatusOK, v)
	}
	return err
}

func writeJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	writeBytes(w, r, status, "application/json", encode(v))
}

// writeProblemJSON writes v, which must have the members that RFC 9457 defines, as the answer's JSON. It hides
// secrets in v, because a caller may have sent a secret instead of a name.
func writeProblemJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	writeBytes(w, r, status, problemType, secret.HideJSON(encode(v)))
}

// encode encodes all answers. It leaves <, > and & unescaped.
func encode(v any) []byte {
	var b bytes.Buffer
	if err := lines.JSON(&b).Encode(v); err != nil {
		panic("function: internal error: " + err.Error())
	}
	return b.Bytes()
}

func writeBytes(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		zerolog.Ctx(r.Context()).Debug().Err(err).Msg("the client did not read the answer")
	}
}
