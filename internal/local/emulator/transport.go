package emulator

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
)

// Transport carries requests to an emulator in the same process. It implements http.RoundTripper and the Azure SDK's
// policy.Transporter, and serves requests in the caller's goroutine.
type Transport struct{ handlers map[string]http.Handler }

// Transport returns a transport that serves the hosts of [Emulator.ConnectionString].
func (e *Emulator) Transport() *Transport {
	t := &Transport{make(map[string]http.Handler)}
	for _, p := range e.pipelines() {
		t.handlers[e.host(p.name)] = p
	}
	return t
}

// ConnectionString returns a connection string for clients that use [Emulator.Transport]. Other clients cannot resolve the host names in this string.
func (e *Emulator) ConnectionString() string {
	return e.connectionString("http://"+e.host("table"), "http://"+e.host("queue"), "http://"+e.host("blob"))
}

func (e *Emulator) host(service string) string {
	return e.account + "." + service + ".emulator.invalid"
}

// Do serves the request. If a fault resets the connection, the error wraps syscall.ECONNRESET.
func (t *Transport) Do(req *http.Request) (*http.Response, error) {
	handler := t.handlers[req.URL.Host]
	if handler == nil {
		return nil, fmt.Errorf("the emulator's transport does not know the host %q", req.URL.Host)
	}
	served := req.WithContext(req.Context()) // a copy
	served.RequestURI = req.URL.RequestURI()
	served.Header = make(http.Header, len(req.Header)) // with canonical names, as an HTTP server gets them
	for name, values := range req.Header {
		served.Header[http.CanonicalHeaderKey(name)] = values
	}
	if served.Host == "" {
		served.Host = req.URL.Host
	}
	if served.Body == nil {
		served.Body = http.NoBody
	}
	defer served.Body.Close()
	w := &recorder{header: make(http.Header), status: http.StatusOK}
	handler.ServeHTTP(w, served)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if w.reset {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	for name, values := range w.header {
		if canonical := http.CanonicalHeaderKey(name); canonical != name { // makes the name canonical, as net/http does for an answer from a socket
			delete(w.header, name)
			w.header[canonical] = values
		}
	}
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)),
		StatusCode:    w.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        w.header,
		Body:          io.NopCloser(&w.body),
		ContentLength: int64(w.body.Len()),
		Request:       req,
	}, nil
}

// RoundTrip is the same as Do.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) { return t.Do(req) }

// recorder is the http.ResponseWriter of a Transport.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
	reset  bool // the connection must be reset
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }
