package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"tablesweep/internal/host/envelope"
	"tablesweep/internal/task"
)

// forwardable returns why a request cannot be forwarded, nil if it can.
// (HttpRequestExtensions.ToHttpRequestMessage of azure-functions-host)
func forwardable(r *http.Request) error {
	if r.ContentLength < 0 {
		return errors.New("'Transfer-Encoding: chunked' header can not be used when content object is not specified")
	}
	if kind := r.Header.Get("Content-Type"); kind != "" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || !strings.Contains(media, "/") {
			return fmt.Errorf("the Content-Type does not parse: %q", kind)
		}
	}
	return nil
}

// contentHeaders are the headers that a forwarded request loses: .NET's headers of a content, but for Content-Type and Content-Length.
// (HttpContentHeaders)
var contentHeaders = []string{
	"Allow", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location", "Content-Md5", "Content-Range", "Expires", "Last-Modified",
}

// answered is a handler's whole answer to a forwarded request.
type answered struct {
	status int
	header http.Header
	body   []byte
}

// forward makes a new request to the handler and returns the whole answer. It loses and changes
// the same things as the real host.
func (v invocation) forward(ctx context.Context, r *http.Request, path string, body []byte) (resp answered, err error) {
	err = v.within(ctx, func(ctx context.Context, p *process) error {
		if err := forwardable(r); err != nil {
			return err
		}
		target := p.url + forwardedPath(path, r.URL.RawQuery != "")
		if query := forwardedQuery(r.URL.RawQuery); query != "" {
			target += "?" + query
		}
		out, err := http.NewRequestWithContext(ctx, r.Method, target, bytes.NewReader(body))
		if err != nil {
			return err
		}
		out.Header, out.Host = r.Header.Clone(), r.Host
		dropHop(out.Header)
		for _, name := range contentHeaders {
			out.Header.Del(name)
		}
		out.Header.Set("User-Agent", strings.TrimSpace(r.UserAgent()+" "+envelope.UserAgent))
		forged := out.Header.Values(envelope.HeaderInvocation)
		v.mark(out, p)
		out.Header.Set(envelope.HeaderInvocation, strings.Join(append(forged, v.id), ", "))
		answer, err := v.in.send(out)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		resp = answered{status: answer.StatusCode, header: answer.Header}
		if resp.body, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer)); err != nil {
			return fmt.Errorf("read the handler's answer: %w", err)
		}
		dropHop(resp.header)
		resp.header.Del("Content-Length") // known again when it is written, also to HEAD
		return nil
	})
	return resp, err
}

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

// dropHop removes the headers that concern one connection only. (RFC 9110, 7.6.1)
func dropHop(h http.Header) {
	for _, name := range strings.Split(h.Get("Connection"), ",") {
		h.Del(strings.TrimSpace(name))
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		h.Del(name)
	}
}
