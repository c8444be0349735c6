package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"tablesweep/internal/host/envelope"
)

// forward hands a request to the handler as it is, and returns the answer as it is:
// path, query, status and headers pass unchanged. A body without Content-Length is
// lost, as in the real host. (HttpRequestExtensions.ToHttpRequestMessage of azure-functions-host)
func (v invocation) forward(ctx context.Context, r *http.Request, body []byte) (resp envelope.Response, err error) {
	err = v.within(ctx, func(ctx context.Context, base string) error {
		if r.ContentLength <= 0 {
			body = nil
		}
		out, err := http.NewRequestWithContext(ctx, r.Method, base+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			return err
		}
		out.Header, out.Host = r.Header.Clone(), r.Host
		dropHop(out.Header)
		out.Header.Set("User-Agent", strings.TrimSpace(r.UserAgent()+" "+envelope.UserAgent))
		v.mark(out)
		answer, err := v.in.host.client.Do(out)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		resp = envelope.Response{Status: answer.StatusCode, Header: answer.Header}
		if resp.Body, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer)); err != nil {
			return fmt.Errorf("read the handler's answer: %w", err)
		}
		dropHop(resp.Header)
		resp.Header.Del("Content-Length") // known again when it is written, also to HEAD
		return nil
	})
	return resp, err
}

// proxy streams a request to the handler and its answer back.
func (v invocation) proxy(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	client, stop := context.WithTimeout(r.Context(), responseLimit)
	defer stop()
	var aborted any                                                            // what the proxy panics with when the answer breaks off
	_ = v.within(ctx, func(ctx context.Context, base string) (failure error) { // within logs it
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(client, cancel)()
		ctx = context.WithValue(ctx, http.ServerContextKey, r.Context().Value(http.ServerContextKey))
		target, err := url.Parse(base)
		if err != nil {
			return err
		}
		p := &httputil.ReverseProxy{
			Rewrite: func(pr *httputil.ProxyRequest) {
				pr.SetURL(target)
				v.mark(pr.Out)
			},
			Transport:     v.in.host.client.Transport,
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
				failure = errors.New("the answer broke off")
			}
		}()
		p.ServeHTTP(w, r.WithContext(ctx))
		return failure
	})
	if aborted != nil {
		panic(aborted) // tells the server to break off the client's answer, too
	}
}

// dropHop removes the headers that concern one connection only. (RFC 9110, 7.6.1)
func dropHop(h http.Header) {
	for _, name := range strings.Split(h.Get("Connection"), ",") {
		h.Del(strings.TrimSpace(name))
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		h.Del(name)
	}
}

func copyHeader(to, from http.Header) { maps.Copy(to, from) }
