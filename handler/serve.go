package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/catalog"
	"tablesweep/internal/config"
	"tablesweep/internal/engine"
	"tablesweep/internal/function"
	"tablesweep/internal/function/gate"
	"tablesweep/internal/logtail"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// portVariables hold the port on which the Functions host wants the handler to listen.
// The second is the older name.
var portVariables = []string{"FUNCTIONS_CUSTOMHANDLER_PORT", "FUNCTIONS_HTTPWORKER_PORT"}

// errNoHost helps somebody who started the binary by hand.
var errNoHost = errors.New("FUNCTIONS_CUSTOMHANDLER_PORT is not set: without an argument this program is started by the Azure Functions host; run \"handler demo\" or \"handler --help\"")

const (
	shutdownTime = 5 * time.Second
	// orphanTime is what an orphan gives its invocations to end, which they do earlier
	// by themselves.
	orphanTime = 10 * time.Minute
	// startPause follows a failure at the start, before the exit: the host restarts
	// the handler at once.
	startPause = 2 * time.Second
)

// restart ends the handler with the exit code that makes the host start another,
// without counting it as a crash. (azure-functions-host, WorkerProcess.cs)
type restart struct{ cause error }

func (r restart) Error() string {
	if r.cause == nil {
		return "the handler has ended"
	}
	return r.cause.Error()
}

func (r restart) Unwrap() error { return r.cause }

// serve runs the custom handler until ctx ends, or the host that started it. It listens
// at once; what needs storage is prepared in the background. Its errors are of type
// restart, unless no host has started it.
func serve(ctx context.Context, getenv func(string) string) error {
	host := parent()
	var port string
	for _, name := range portVariables {
		if port == "" {
			port = getenv(name)
		}
	}
	if port == "" {
		return errNoHost
	}
	signal.Ignore(syscall.SIGPIPE) // an orphan's log has no reader, and must not end it
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		time.Sleep(startPause)
		return restart{fmt.Errorf("listen for the Functions host: %w", err)}
	}
	c, settingsErr := config.Load(getenv)
	log := newLog(os.Stdout, os.Stderr, c.LogLevel)
	ctx, stop := context.WithCancel(log.WithContext(ctx))
	defer stop()
	app := function.App{}
	if settingsErr == nil {
		app, settingsErr = newApp(c)
	}
	app.Console = c.Console // whose page tells what is wrong with the settings
	prepare(ctx, &app, c.Catalogs, settingsErr)
	server := &http.Server{Handler: function.Handler(function.Functions(app), log), ReadHeaderTimeout: 30 * time.Second}
	log.Info().Str("port", port).Msg("listening")
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }() // ends with Shutdown below
	grace := shutdownTime
	select {
	case err := <-ended:
		return restart{fmt.Errorf("serve: %w", err)}
	case <-ctx.Done():
	case <-host.gone(ctx):
		log.Warn().Msg("the Functions host is gone; finishing what is under way")
		grace = orphanTime
	}
	return restart{end(ctx, server, app.Catalogs, grace)}
}

// end waits for the work under way, for at most the given time. Others repeat or complete
// the rest.
func end(ctx context.Context, server *http.Server, catalogs function.Catalogs, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := server.Shutdown(ctx)
	closed := make(chan struct{})
	go func() { // ends with the last write that was answered, or the process
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

// prepare makes the app's parts ready in the background, each behind a gate of its
// own. With wrong settings there is only a gate that stays closed.
func prepare(ctx context.Context, app *function.App, catalogs []config.CatalogSettings, settingsErr error) {
	behind := func(what string, prepare func(context.Context) error) *gate.Gate {
		g := gate.New()
		go g.Prepare(ctx, prepare, func(err error) { // ends when it is done, or with ctx
			zerolog.Ctx(ctx).Error().Err(err).Msg(what + " not ready; trying again")
		})
		return g
	}
	if settingsErr != nil {
		app.Gates.Settings = behind("settings", func(context.Context) error {
			return problem.NotReadyf("", "%s", settingsErr.Error())
		})
		return
	}
	app.Gates.Own = behind("scans and the event log", func(ctx context.Context) error {
		return storageError(storage.HostConnection, errors.Join(app.Engine.TryPrepare(ctx), app.Log.TryPrepare(ctx)))
	})
	app.Gates.Catalogs = map[string]*gate.Gate{}
	for _, cat := range catalogs {
		c := app.Catalogs[cat.Name]
		app.Gates.Catalogs[cat.Name] = behind(c.Name, func(ctx context.Context) error {
			err := c.TryPrepare(ctx)
			var p *problem.Error
			if errors.As(err, &p) && p.Kind == problem.Conflict {
				return problem.Conflictf("", "%s: %s", cat.SchemaSettings(), p.Detail).Because(p.Err)
			}
			return storageError(cat.Setting, err)
		})
	}
}

// storageError adds the setting of the storage that failed. If the service refuses for
// good, somebody must change something, and callers learn it at once.
func storageError(setting string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("prepare the storage that setting %s names: %w", setting, err)
	if storage.Permanent(err) {
		return problem.NotReadyf("", "%s", err.Error())
	}
	return err
}

// newApp opens every account of the settings, each once.
func newApp(c config.Config) (function.App, error) {
	opened := map[storage.Connection]*storage.Account{}
	open := func(setting string, connection storage.Connection) (*storage.Account, error) {
		if a := opened[connection]; a != nil {
			return a, nil
		}
		a, err := storage.Open(connection, storage.Options{})
		if err != nil {
			return nil, fmt.Errorf("setting %s: %w", setting, err)
		}
		opened[connection] = a
		return a, nil
	}
	own, err := open(storage.HostConnection, c.Own)
	if err != nil {
		return function.App{}, err
	}
	accounts := map[string]*storage.Account{}
	for name, connection := range c.Connections {
		if accounts[name], err = open(name, connection); err != nil {
			return function.App{}, err
		}
	}
	catalogs := function.Catalogs{}
	for _, cat := range c.Catalogs {
		a, err := open(cat.Setting, cat.Connection)
		if err != nil {
			return function.App{}, err
		}
		catalogs[cat.Name] = newCatalog(a, cat)
	}
	e, err := engine.New(engine.Options{
		Own:                   own,
		Accounts:              accounts,
		StateTable:            c.StateTable,
		SegmentsPerInvocation: c.SegmentsPerInvocation,
		Retention:             c.ScanRetention,
		Price:                 c.Price,
	})
	if err != nil {
		return function.App{}, err
	}
	log := logtail.New(logtail.Options{Table: own.Table(c.LogTable), Retention: c.LogRetention, Streams: c.LogStreams})
	return function.App{Engine: e, Log: log, Catalogs: catalogs}, nil
}

func newCatalog(a *storage.Account, c config.CatalogSettings) *catalog.Catalog {
	return catalog.New(catalog.Options{
		Name: c.Title(), Index: a.Table(c.Table), Log: a.Table(c.WAL), Schema: c.Schema, KeepChanges: c.KeepChanges,
	})
}
