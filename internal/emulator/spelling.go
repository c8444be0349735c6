package emulator

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
)

// net/http spells the names of a header in one way. The Queue and Blob services keep the names of
// metadata as the client spells them, so their connections remember the header of the request under way.

// metadataPrefix begins the names of the headers that carry metadata.
const metadataPrefix = "x-ms-meta-"

// spellingListener accepts connections that remember headers.
type spellingListener struct{ *net.TCPListener }

// Accept returns the next connection, a *spellingConn.
func (l spellingListener) Accept() (net.Conn, error) {
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return &spellingConn{TCPConn: c}, nil
}

// spellingConn remembers what was read up to the end of a request's header.
type spellingConn struct {
	*net.TCPConn
	mu   sync.Mutex // net/http reads on while it serves a request that came together with the one before
	read []byte
}

// Read reads from the connection.
func (c *spellingConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !bytes.Contains(c.read, []byte("\n\r\n")) && !bytes.Contains(c.read, []byte("\n\n")) {
		c.read = append(c.read, b[:n]...)
	}
	return n, err
}

// header returns what was read; it stays as it is until forget.
func (c *spellingConn) header() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read
}

func (c *spellingConn) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = c.read[:0]
}

// connKey is the context key of a request's *spellingConn.
type connKey struct{}

// remember makes the server hand its connections to the requests, and forget each header when its
// request is done. Requests sent before the answer to the one before keep net/http's spelling.
func remember(s *http.Server) {
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if spelling, ok := c.(*spellingConn); ok && state == http.StateIdle {
			spelling.forget()
		}
	}
}

// respell gives the request's metadata back the names that the client sent.
func respell(r *http.Request) {
	c, ok := r.Context().Value(connKey{}).(*spellingConn)
	if !ok {
		return
	}
	eachField(c.header(), func(name, _ []byte) {
		sent := string(name)
		canonical := http.CanonicalHeaderKey(sent)
		if !isMetadata(sent) || canonical == sent {
			return
		}
		if values, ok := r.Header[canonical]; ok {
			delete(r.Header, canonical)
			r.Header[sent] = values
		}
	})
}

// isMetadata reports whether a header carries metadata.
func isMetadata(name string) bool {
	return len(name) >= len(metadataPrefix) && strings.EqualFold(name[:len(metadataPrefix)], metadataPrefix)
}
