package emulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Server serves an emulator over HTTP.
type Server struct {
	connection string
	servers    []*http.Server
}

// Serve listens at both addresses, where port 0 stands for any free port, and
// returns when they can be used. It serves until ctx ends or Close is called.
func (e *Emulator) Serve(ctx context.Context, tableAddr, queueAddr string) (*Server, error) {
	var config net.ListenConfig
	tables, err := config.Listen(ctx, "tcp", tableAddr)
	if err != nil {
		return nil, fmt.Errorf("table service: %w", err)
	}
	queues, err := config.Listen(ctx, "tcp", queueAddr)
	if err != nil {
		_ = tables.Close()
		return nil, fmt.Errorf("queue service: %w", err)
	}
	s := &Server{connection: e.connectionString("http://"+tables.Addr().String(), "http://"+queues.Addr().String())}
	s.start(tables, e.tableHandler(), e.clientTime)
	s.start(queues, e.queueHandler(), e.clientTime)
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return s, nil
}

// start serves in a goroutine that ends with Close. A ReadTimeout would cancel requests
// that take longer than that, so the handler limits the reading of bodies.
func (s *Server) start(l net.Listener, h http.Handler, clientTime time.Duration) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: clientTime, WriteTimeout: clientTime}
	s.servers = append(s.servers, server)
	go func() { _ = server.Serve(l) }()
}

// ConnectionString returns a connection string with both endpoints.
func (s *Server) ConnectionString() string { return s.connection }

// Close stops serving at once, and breaks off requests under way.
func (s *Server) Close() error {
	var errs []error
	for _, server := range s.servers {
		errs = append(errs, server.Close())
	}
	return errors.Join(errs...)
}
