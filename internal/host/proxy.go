package host

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"tablesweep/internal/task"
)

// proxy streams a request to the handler and its answer back. The invocation ends when
// the client leaves.
func (v invocation) proxy(ctx context.Context, w http.ResponseWriter, r *http.Request, path string) {
	client, stop := context.WithTimeout(r.Context(), responseLimit)
	defer stop()
	var aborted any                                                                 // what the proxy panics with when the answer breaks off
	_ = v.within(ctx, func(ctx context.Context, process *process) (failure error) { // within logs it
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(client, cancel)()
		ctx = context.WithValue(ctx, http.ServerContextKey, r.Context().Value(http.ServerContextKey))
		target, err := url.Parse(process.url)
		if err != nil {
			return err
		}
		p := &httputil.ReverseProxy{
			Rewrite: func(pr *httputil.ProxyRequest) {
				pr.SetURL(target) // and with it the Host
				setPath(pr.Out.URL, proxiedPath(path))
				pr.Out.URL.RawQuery = pr.In.URL.RawQuery
				pr.SetXForwarded()
				v.mark(pr.Out, process)
			},
			Transport:     repeating{v.in},
			FlushInterval: -1,
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				failure = err
				status := http.StatusInternalServerError
				if errors.Is(client.Err(), context.DeadlineExceeded) {
					status = http.StatusGatewayTimeout
				}
				w.WriteHeader(status)
			},
		}
		defer func() {
			if aborted = recover(); aborted != nil {
				failure = cmp.Or(r.Context().Err(), errors.New("the answer broke off"))
			}
		}()
		p.ServeHTTP(w, r.WithContext(ctx))
		return failure
	})
	if aborted != nil {
		panic(aborted) // tells the server to break off the client's answer, too
	}
}

// repeating is the transport of proxied requests. It sends a request again if no
// answer came and nothing of its body was read: without a body, whatever the
// method. (RetryProxyHandler of azure-functions-host)
type repeating struct{ in *instance }

const (
	proxyAttempts = 10
	firstPause    = 50 * time.Millisecond
	longestPause  = 250 * time.Millisecond
	closedTries   = 4
)

// send sends a request to a handler as .NET's client does: up to four times if it has no body, and the connection was closed in good order
// before the first byte of an answer. (HttpConnectionPool of .NET)
func (in *instance) send(r *http.Request) (resp *http.Response, err error) {
	for range closedTries {
		resp, err = in.host.client.Transport.RoundTrip(r.Clone(r.Context()))
		if !errors.Is(err, io.EOF) || r.Body != nil && r.Body != http.NoBody {
			break
		}
	}
	return resp, err
}

// RoundTrip implements [http.RoundTripper].
func (t repeating) RoundTrip(r *http.Request) (*http.Response, error) {
	var body *notedBody
	if r.Body != nil {
		body = &notedBody{Reader: r.Body}
		defer r.Body.Close()
	}
	pause := firstPause
	for attempt := 1; ; attempt++ {
		out := r.Clone(r.Context())
		if body != nil {
			out.Body = body
		}
		if p := t.in.current(); p != nil { // it may be another than the one before
			out.URL.Host = strings.TrimPrefix(p.url, "http://")
			p.sign(out)
		}
		resp, err := t.in.send(out)
		if err == nil || attempt == proxyAttempts || body != nil && body.begun.Load() || r.Context().Err() != nil {
			return resp, err
		}
		t.in.log.Warn().Err(err).Int("attempt", attempt).Msg("failed to proxy a request to the handler; trying again")
		task.Sleep(r.Context(), pause)
		pause = min(2*pause, longestPause)
	}
}

// notedBody is a body that several attempts share. It notes whether anything of it was
// read.
type notedBody struct {
	io.Reader
	begun atomic.Bool
}

// Read implements [io.Reader].
func (b *notedBody) Read(p []byte) (int, error) {
	b.begun.Store(true)
	return b.Reader.Read(p)
}

// Close implements [io.Closer]. Another attempt may follow.
func (b *notedBody) Close() error { return nil }
