package host

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// This file does to requests what the host's web server, Kestrel, does, and Go's does not.

// kestrel is a listener of connections whose requests may have an invalid escape in their path.
type kestrel struct{ net.Listener }

// Accept implements [net.Listener].
func (l kestrel) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tolerant{Conn: c}, nil
}

// tolerant is a connection that escapes every % of a path that begins no escape, which Go's server would
// refuse. It does not see the paths of pipelined requests.
type tolerant struct {
	net.Conn
	begun bool   // the request's path has been read
	held  []byte // what has been read, and not yet by the server
}

// between is the server's hook between two requests of a connection. No read is under way then.
func between(c net.Conn, state http.ConnState) {
	if t, ok := c.(*tolerant); ok && state == http.StateIdle && len(t.held) == 0 {
		t.begun = false
	}
}

// Read implements [net.Conn].
func (c *tolerant) Read(p []byte) (int, error) {
	const maxLine = 64 << 10
	for !c.begun {
		chunk := make([]byte, 4<<10)
		n, err := c.Conn.Read(chunk)
		c.held = append(c.held, chunk[:n]...)
		end := bytes.IndexAny(c.held, "?\n")
		if end >= 0 {
			c.held = append(withEscapes(c.held[:end]), c.held[end:]...)
		}
		if c.begun = end >= 0 || err != nil || len(c.held) > maxLine; err != nil && len(c.held) == 0 {
			return 0, err
		}
	}
	if len(c.held) > 0 {
		n := copy(p, c.held)
		c.held = c.held[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// withEscapes escapes every % that begins no escape.
func withEscapes(path []byte) (escaped []byte) {
	for i, c := range path {
		escaped = append(escaped, c)
		if _, ok := escapedByte(string(path[i:])); c == '%' && !ok {
			escaped = append(escaped, "25"...)
		}
	}
	return escaped
}

// canonicalMethod returns a method that the web server knows in capitals, whatever its case, and others as they are.
// (HttpMethods of ASP.NET Core)
func canonicalMethod(method string) string {
	if upper := strings.ToUpper(method); slices.Contains([]string{"GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT"}, upper) {
		return upper
	}
	return method
}

// beyondASCII reports whether a header has a character that .NET's client does not send.
func beyondASCII(h http.Header) bool {
	for _, values := range h {
		for _, v := range values {
			if strings.ContainsFunc(v, func(r rune) bool { return r > '~' }) {
				return true
			}
		}
	}
	return false
}

// A body may stand still for bodyGrace. Then at least bodyRate bytes must have come for each second, which
// the web server checks once a second. (MinRequestBodyDataRate of Kestrel)
const (
	bodyGrace = 5 * time.Second
	bodyRate  = 240
	bodyCheck = time.Second
)

// pacedBody is a body that must arrive at the least rate.
type pacedBody struct {
	io.ReadCloser
	connection *http.ResponseController
	start      time.Time
	got        int
}

// newPacedBody returns the body of a request that w answers. Reading fails with [os.ErrDeadlineExceeded] if it is too slow.
func newPacedBody(w http.ResponseWriter, r *http.Request) io.ReadCloser {
	if r.Body == http.NoBody {
		return r.Body
	}
	return &pacedBody{ReadCloser: r.Body, connection: http.NewResponseController(w), start: time.Now()}
}

// Read implements [io.Reader].
func (b *pacedBody) Read(p []byte) (int, error) {
	limit := max(bodyGrace, time.Duration(b.got)*time.Second/bodyRate)
	_ = b.connection.SetReadDeadline(b.start.Add(limit + bodyCheck)) // fails in tests without a connection
	n, err := b.ReadCloser.Read(p)
	b.got += n
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		_ = b.connection.SetReadDeadline(time.Time{}) // the server reads on, to notice that the client leaves
	}
	return n, err
}
