package emulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/input/loopback"
	"tablesweep/internal/local/emulator/refusal"
)

// Server serves an emulator over HTTP.
type Server struct {
	connection string
	servers    []*http.Server
}

// Serve starts to listen on the addresses of the three services, and returns. Port 0 means any free port. The server runs until ctx ends or Close is called.
func (e *Emulator) Serve(ctx context.Context, tableAddr, queueAddr, blobAddr string) (*Server, error) {
	var config net.ListenConfig
	var urls [3]string
	s := &Server{}
	for i, addr := range []string{tableAddr, queueAddr, blobAddr} {
		p := e.pipelines()[i]
		l, err := config.Listen(ctx, "tcp", addr)
		if err != nil {
			_ = s.Close()
			return nil, fmt.Errorf("%s service: %w", p.name, err)
		}
		urls[i] = "http://" + l.Addr().String()
		s.start(l, p.onlyHosts(addr), e.clientTime)
	}
	s.connection = e.connectionString(urls[0], urls[1], urls[2])
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return s, nil
}

// onlyHosts refuses a request unless its host is a name of this machine, the given address, or the address at which the
// request arrived. Without this check, a web page could make its own host name resolve to this machine, and sign
// requests with the well-known key.
func (p pipeline) onlyHosts(addr string) http.Handler {
	given, _, _ := net.SplitHostPort(addr)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isAdmin(r) && !loopback.Is(r.RemoteAddr) { // no signature protects these requests
			http.Error(w, "/_emulator answers only requests from the same machine", http.StatusForbidden)
			return
		}
		host := (&url.URL{Host: r.Host}).Hostname()
		if !loopback.Is(r.Host) && !strings.EqualFold(host, given) && !arrivedAt(r.Context(), host) {
			p.fail(w, p.newCall(r), refusal.New("AuthorizationFailure", "Embedded storage is not served as "+strconv.Quote(host)+". Use localhost, or serve it at that address."))
			return
		}
		p.ServeHTTP(w, r)
	})
}

// arrivedAt reports whether `host` is the address at which the request arrived. A server on 0.0.0.0 or :: needs this check,
// because it has many addresses.
func arrivedAt(ctx context.Context, host string) bool {
	ip, err := netip.ParseAddr(host)
	local, ok := ctx.Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return err == nil && ok && ip.Unmap() == local.AddrPort().Addr().Unmap()
}

// start serves in a goroutine until Close is called. The server has no ReadTimeout, which would also cancel long requests. Instead, the handler limits the
// time for reading a body.
func (s *Server) start(l net.Listener, h http.Handler, clientTime time.Duration) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: clientTime, WriteTimeout: clientTime}
	s.servers = append(s.servers, server)
	go func() { _ = server.Serve(l) }()
}

// ConnectionString returns a connection string for the server's endpoints.
func (s *Server) ConnectionString() string { return s.connection }

// Close stops serving immediately, and aborts requests under way.
func (s *Server) Close() error {
	var errs []error
	for _, server := range s.servers {
		errs = append(errs, server.Close())
	}
	return errors.Join(errs...)
}
