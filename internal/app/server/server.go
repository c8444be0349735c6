// Package server is the custom handler's process. It listens on the Functions host's port, prepares the storage in the
// background, and ends when the host ends. Package function contains the functions.
package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"tablesweep/internal/app/config"
	"tablesweep/internal/app/envelope"
	"tablesweep/internal/app/function"
	"tablesweep/internal/storage"
)

// portVariables are the variables in which a Functions host passes the port to its handler. The second name is the older one.
var portVariables = []string{"FUNCTIONS_CUSTOMHANDLER_PORT", "FUNCTIONS_HTTPWORKER_PORT"}

// Port returns the port on which a Functions host expects the handler to listen; "" if no host started the process.
func Port(settings storage.Settings) string {
	for _, name := range portVariables {
		if port := settings.Get(name); port != "" {
			return port
		}
	}
	return ""
}

const (
	shutdownTime = 5 * time.Second
	// orphanTime is how long the handler waits for its invocations after the host has ended. If an invocation takes longer, for
	// example because it waits for storage, another process repeats the invocation's work.
	orphanTime = 50 * time.Second
	// startPause is the wait between a failed start and the exit. Without this wait, the host would restart the handler
	// in a fast loop.
	startPause = 2 * time.Second
)

// Restart is the error with which the handler ends. Its exit code makes the host start another handler without counting a crash.
// (azure-functions-host, WorkerProcess.cs)
type Restart struct {
	Cause error // nil if the handler ended as intended
}

// RestartCode is the exit code of [Restart].
const RestartCode = 200

func (r Restart) Error() string {
	if r.Cause == nil {
		return "the handler has ended"
	}
	return r.Cause.Error()
}

func (r Restart) Unwrap() error { return r.Cause }

// Serve runs the custom handler until ctx or its host ends. It listens immediately, and prepares the storage in the
// background. Its errors are of type [Restart].
func Serve(ctx context.Context, settings storage.Settings, stdout, stderr io.Writer) error {
	started := parent()
	port := Port(settings)
	host := function.Host{Secret: settings.Get(envelope.SecretVariable), Worker: settings.Get(envelope.WorkerVariable), Development: strings.EqualFold(settings.Get("AZURE_FUNCTIONS_ENVIRONMENT"), "Development")}
	_ = os.Unsetenv(envelope.SecretVariable) // child processes must not inherit the secret
	signal.Ignore(syscall.SIGPIPE)           // a write to a log that nobody reads must not end the handler
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		time.Sleep(startPause)
		return Restart{fmt.Errorf("cannot listen for the Functions host: %w", err)}
	}
	c, settingsErr := config.Load(settings)
	c.Memory.Limit()
	log := newLog(stdout, stderr, c.LogLevel)
	ctx, stop := context.WithCancel(log.WithContext(ctx))
	defer stop()
	app := function.App{}
	if settingsErr == nil {
		var accounts []*storage.Account
		app, accounts, settingsErr = newApp(c, settings)
		go watch(ctx, accounts) // ends with ctx
		if app.SchedulesErr != nil {
			log.Error().Err(app.SchedulesErr).Msg("schedules are wrong")
		}
	}
	app.Console = c.Console // even with invalid settings, because the console shows the mistakes
	prepare(ctx, &app, c.Catalogs, settingsErr)
	server := &http.Server{
		Handler: function.Handler(function.Functions(app), host, log), ReadHeaderTimeout: 30 * time.Second,
		DisableGeneralOptionsHandler: true, // net/http would answer "OPTIONS *" without a check
	}
	log.Info().Str("port", port).Msg("listening")
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }() // ends with Shutdown below
	grace := shutdownTime
	select {
	case err := <-ended:
		return Restart{fmt.Errorf("serve: %w", err)}
	case <-ctx.Done():
	case <-started.ended(ctx):
		log.Warn().Msg("the Functions host has ended; finishing the current calls")
		grace = orphanTime
	}
	return Restart{end(ctx, server, app.Catalogs, grace)}
}

// end waits for the current work, at most for the duration `grace`. Other processes repeat or complete work that takes longer.
func end(ctx context.Context, server *http.Server, catalogs function.Catalogs, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := server.Shutdown(ctx)
	closed := make(chan struct{})
	go func() { // this goroutine ends when the last write is answered, or with the process
		defer close(closed)
		for _, cat := range catalogs {
			cat.Close()
		}
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	}
	return err
}
