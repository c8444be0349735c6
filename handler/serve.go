package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/config"
	"tablesweep/internal/engine"
	"tablesweep/internal/function"
	"tablesweep/internal/storage"
)

// portVariables name the port that the Functions host wants us to listen on, the
// second being its older name.
var portVariables = []string{"FUNCTIONS_CUSTOMHANDLER_PORT", "FUNCTIONS_HTTPWORKER_PORT"}

// errNoHost tells somebody who started the binary by hand what to do.
var errNoHost = errors.New("FUNCTIONS_CUSTOMHANDLER_PORT is not set: without an argument this program is started by the Azure Functions host; run \"handler demo\" or \"handler --help\"")

const (
	// prepareTime ends before the host gives up a handler that does not answer,
	// after 30 s, so that the reason gets into the log.
	prepareTime  = 25 * time.Second
	shutdownTime = 5 * time.Second
)

// serve runs the custom handler until ctx ends. It listens only when it is ready
// to work, since the host takes any answer as a sign of that.
func serve(ctx context.Context, getenv func(string) string) error {
	var port string
	for _, name := range portVariables {
		if port == "" {
			port = getenv(name)
		}
	}
	if port == "" {
		return errNoHost
	}
	c, err := config.Load(getenv)
	if err != nil {
		return err
	}
	log := zerolog.New(os.Stdout).Level(c.LogLevel).With().Timestamp().Logger()
	e, err := newEngine(c)
	if err != nil {
		return err
	}
	preparing, cancel := context.WithTimeout(log.WithContext(ctx), prepareTime)
	defer cancel()
	if err := e.Prepare(preparing); err != nil {
		return fmt.Errorf("prepare the storage that setting %s names: %w", config.HostStorage, err)
	}
	server := &http.Server{Handler: function.Handler(function.Functions(e), log), ReadHeaderTimeout: 30 * time.Second}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return fmt.Errorf("listen for the Functions host: %w", err)
	}
	log.Info().Str("port", port).Msg("ready")
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }() // ends with Shutdown below
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	return server.Shutdown(stop)
}

// newEngine opens every account that the settings name, each once.
func newEngine(c config.Config) (*engine.Engine, error) {
	own, err := storage.Open(c.Own, storage.Options{})
	if err != nil {
		return nil, fmt.Errorf("setting %s: %w", config.HostStorage, err)
	}
	accounts := map[string]*storage.Account{}
	for name, connection := range c.Connections {
		if name == config.HostStorage {
			accounts[name] = own
			continue
		}
		if accounts[name], err = storage.Open(connection, storage.Options{}); err != nil {
			return nil, fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return engine.New(engine.Options{
		Own:                   own,
		Accounts:              accounts,
		StateTable:            c.StateTable,
		SegmentsPerInvocation: c.SegmentsPerInvocation,
	})
}
