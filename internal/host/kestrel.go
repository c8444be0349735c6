package host

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file does to requests what the host's web server, Kestrel, does, and Go's does not.

// kestrel is a listener of connections whose requests may have an invalid escape in their path, or name their host there.
type kestrel struct{ net.Listener }

// Accept implements [net.Listener].
func (l kestrel) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tolerant{Conn: c}, nil
}

// tolerant is a connection whose requests' heads become what Go's server takes. It does not see those of pipelined requests.
type tolerant struct {
	net.Conn
	begun bool   // the request's head has been read
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
	const maxHead = 64 << 10
	for !c.begun {
		chunk := make([]byte, 4<<10)
		n, err := c.Conn.Read(chunk)
		c.held = append(c.held, chunk[:n]...)
		c.begun = bytes.Contains(c.held, []byte("\n\r\n")) || bytes.Contains(c.held, []byte("\n\n")) || err != nil || len(c.held) > maxHead
		if c.begun {
			c.held = tolerated(c.held)
		}
		if err != nil && len(c.held) == 0 {
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

var absolute = regexp.MustCompile(`^(\S+ )(?i:http)://([^/? ]+)`)

// tolerated changes the request line of a head: every % of the path that begins no escape is escaped, and an absolute target that names the
// same Host loses it.
func tolerated(head []byte) []byte {
	if at := absolute.FindSubmatchIndex(head); at != nil {
		authority := strings.ToLower(string(head[at[4]:at[5]]))
		host := regexp.MustCompile(`(?im)^host:[ \t]*` + regexp.QuoteMeta(authority) + `(:80)?[ \t]*\r?$`)
		if lines, _, _ := bytes.Cut(head, []byte("\r\n\r\n")); host.Match(lines) {
			head = slices.Concat(head[:at[3]], head[at[5]:])
			if head[at[3]] != '/' {
				head = slices.Insert(head, at[3], '/')
			}
		}
	}
	if end := bytes.IndexAny(head, "?\n"); end >= 0 {
		head = append(withEscapes(head[:end]), head[end:]...)
	}
	return head
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

// Limits of a request's head. (KestrelServerLimits of ASP.NET Core)
const (
	maxRequestLine = 8 << 10
	maxHeaders     = 32 << 10
	maxHeaderLines = 100
)

// hostForm is what the web server takes for a Host.
var hostForm = regexp.MustCompile(`^([0-9A-Za-z!$&'()._~-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?$`)

// refusal returns the status with which the host's web server answers a request itself, 0 if it hands it on.
func refusal(r *http.Request) int {
	lines, size := 1, len("Host: \r\n")+len(r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			lines++
			size += len(name) + len(": \r\n") + len(v)
		}
	}
	switch {
	case len(r.Method)+len(r.RequestURI)+len(r.Proto)+len("  \r\n") > maxRequestLine:
		return http.StatusRequestURITooLong
	case lines > maxHeaderLines || size > maxHeaders:
		return http.StatusRequestHeaderFieldsTooLarge
	case r.RequestURI == "*" || r.Method == http.MethodConnect:
		return http.StatusNotFound
	case !strings.HasPrefix(r.RequestURI, "/") || !hostForm.MatchString(r.Host):
		return http.StatusBadRequest
	case !possible(r.Host):
		return http.StatusInternalServerError
	}
	return 0
}

// possible reports whether .NET makes a URI with such a Host. It knows more names that are none.
func possible(host string) bool {
	name, port, _ := strings.Cut(host, ":")
	if strings.HasPrefix(host, "[") {
		name, port, _ = strings.Cut(host, "]")
		port = strings.TrimPrefix(port, ":")
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if punycode, ok := strings.CutPrefix(strings.ToLower(label), "xn--"); label == "" || ok && len(punycode) < 2 {
			return false
		}
	}
	_, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil
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
