package function

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/function/gate"
	"tablesweep/internal/input"
	"tablesweep/internal/problem"
	"tablesweep/internal/task"
)

// Limits on what a caller may send, and on the time that answering may take: the
// host kills the process, with all that it has under way, when functionTimeout is
// over, and gives up waiting for an HTTP answer after 230 s. (Microsoft Learn, "Azure
// Functions scale and hosting")
const (
	// maxEnvelope admits a queue message of 64 KiB, escaped twice as a string
	// in a string, and its top-level properties again as metadata.
	maxEnvelope   = 1 << 20
	maxRequest    = 64 << 10
	maxEventBytes = 4 << 20 // about what one transaction takes
	maxRecord     = 4 << 20 // a row's 1 MiB of UTF-16 is three times as long if every character is escaped

	invocationTime = 9 * time.Minute
	requestTime    = 200 * time.Second
	// patience is how long a request waits for an app that isn't ready yet.
	patience   = 20 * time.Second
	retryAfter = "10" // seconds, when the storage is away
	// bodyTime bounds the arrival of a body, and answerTime the whole exchange beyond
	// the time for handling.
	bodyTime   = 150 * time.Second
	answerTime = 20 * time.Second
)

// gated lets requests pass when the app is ready for them.
func gated(gates []*gate.Gate) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return failing(func(w http.ResponseWriter, r *http.Request) error {
			for _, g := range gates {
				if err := g.Pass(r.Context(), patience); err != nil {
					return err
				}
			}
			next.ServeHTTP(w, r)
			return nil
		})
	}
}

// fromHost admits the Functions host's own requests alone. A forwarding host resolves a
// caller's /api/log/..%5C..%5CMaintain to /Maintain, and would let callers invoke queue
// and timer functions. Their requests keep the caller's Host; those of the host itself
// have this server's address. (DefaultHttpWorkerService and HttpRequestExtensions of
// azure-functions-host)
func fromHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address, served := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		passedOn := r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("X-Forwarded-Host") != ""
		if served && (passedOn || r.Host != address.String()) {
			notFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// behindHost refuses browsers that call this server past the host, which asks for keys or
// knows its own pages: on a developer's machine, any web page can send simple requests to any
// port. A host adds one of these headers, by forwarding or proxying, and a page can't.
// (DefaultHttpWorkerService and DefaultHttpProxyService of azure-functions-host; YARP)
func behindHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		has := func(names ...string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return r.Header.Get(name) != "" })
		}
		if has("Origin", "Sec-Fetch-Site") && !has("X-Azure-Functions-InvocationId", "X-Ms-Invocation-Id", "X-Forwarded-Host") {
			notFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// limited bounds the size of a request's body and the time of its handling. A request
// that may write goes on when its client leaves, which a proxying host tells: half of
// a write would be left to recovery.
func limited(bytes int64, t time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
				writeProblem(w, r, err)
				return
			}
			r = r.WithContext(ctx)
			r.Body = body
			next.ServeHTTP(w, r)
		})
	}
}

// unpacked returns the request's body, of which no more than limit bytes can be read,
// packed or unpacked.
func unpacked(w http.ResponseWriter, r *http.Request, limit int64) (io.ReadCloser, error) {
	body := http.MaxBytesReader(w, r.Body, limit)
	switch encoding := strings.ToLower(strings.Join(r.Header.Values("Content-Encoding"), ",")); encoding {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		return http.MaxBytesReader(w, &gzipBody{packed: body}, limit), nil
	default:
		return nil, problem.WrongEncodingf("Content-Encoding", "is %q; send the body as it is or with gzip", encoding)
	}
}

// gzipBody unpacks a body. Nothing is read before the first Read.
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

// timed cuts off clients that send or read slowly, whose pace a proxying host passes on.
// The server itself reads what a handler leaves of a body.
func timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		// Errors: the connection of a test has no deadlines.
		_ = c.SetWriteDeadline(time.Now().Add(requestTime + answerTime))
		if r.Body != http.NoBody {
			_ = c.SetReadDeadline(time.Now().Add(bodyTime))
			r.Body = &timedBody{r.Body, c}
		}
		next.ServeHTTP(w, r)
	})
}

// timedBody ends its connection's read deadline when it has arrived: the connection is
// read on, to notice that the client leaves.
type timedBody struct {
	io.ReadCloser
	connection *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	return n, err
}

// parameters returns the query's parameters: none but the allowed ones, by the rule of
// [input.Query].
func parameters(r *http.Request, allowed ...string) (url.Values, error) {
	return input.Query(r.URL.RawQuery, input.Once(allowed...))
}

// readTop reads how many items are wanted at most: standard unless it is given.
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

// readBody reads a request's body, which is limited.
func readBody(r *http.Request) ([]byte, error) {
	b, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, problem.TooLargef("", "the body is larger than %d bytes", tooLarge.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problem.Invalidf("", "the body did not arrive within %v", bodyTime)
	case err != nil:
		return nil, problem.Invalidf("", "the body can't be read").Because(err)
	}
	return bytes.TrimPrefix(b, []byte("\ufeff")), nil // which some editors on Windows begin a file with
}

// withLogger gives each request a logger that names its invocation.
func withLogger(log zerolog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l := log
			if id := r.Header.Get("X-Azure-Functions-InvocationId"); id != "" {
				l = log.With().Str("invocation", id).Logger()
			}
			next.ServeHTTP(w, r.WithContext(l.WithContext(r.Context())))
		})
	}
}

// recovered turns a panic into an error of that one invocation: the process has
// others under way.
func recovered(next http.Handler) http.Handler {
	return failing(func(w http.ResponseWriter, r *http.Request) error {
		return task.Do(func() error {
			next.ServeHTTP(w, r)
			return nil
		})
	})
}

// failing makes a handler of a function that may fail.
func failing(fn func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := fn(w, r); err != nil {
			writeProblem(w, r, err)
		}
	}
}

func notFound(w http.ResponseWriter, r *http.Request) {
	writeProblem(w, r, problem.NotFoundf("", "there is no %s %s", r.Method, r.URL.Path))
}

// writeProblem answers with the error as RFC 9457 has it.
func writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	p, status := problem.Of(err), problem.Status(err)
	detail := p.Detail
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	switch {
	case p.Kind == problem.NotReady: // the log has it, once a minute
	case status >= http.StatusInternalServerError:
		zerolog.Ctx(r.Context()).Error().Err(err).Str("path", r.URL.Path).Msg("request failed")
	case p.Err != nil:
		detail = p.Detail + ": " + p.Err.Error()
	}
	writeProblemJSON(w, r, status, struct {
		Title  string       `json:"title"`
		Status int          `json:"status"`
		Field  string       `json:"field,omitempty"`
		Detail string       `json:"detail"`
		Errors []fieldError `json:"errors,omitempty"`
	}{http.StatusText(status), status, p.Field, detail, fieldErrors(err)})
}

// fieldError is one of several things that are wrong with a request.
type fieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// fieldErrors lists all that is wrong, nil if that is one thing only.
func fieldErrors(err error) []fieldError {
	all := problem.All(err)
	if len(all) < 2 {
		return nil
	}
	list := make([]fieldError, len(all))
	for i, p := range all {
		list[i] = fieldError{p.Field, p.Detail}
	}
	return list
}

// writeJSON answers with v as JSON.
func writeJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	writeBytes(w, r, status, "application/json", encode(v))
}

// writeProblemJSON answers with v, which has the members of RFC 9457.
func writeProblemJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	writeBytes(w, r, status, "application/problem+json", encode(v))
}

func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("function: internal error: " + err.Error())
	}
	return b.Bytes()
}

func writeBytes(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		zerolog.Ctx(r.Context()).Debug().Err(err).Msg("answer not taken")
	}
}
