package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/catalog"
	"tablesweep/internal/config"
	"tablesweep/internal/engine"
	"tablesweep/internal/function"
	"tablesweep/internal/logtail"
	"tablesweep/internal/problem"
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
	app, err := newApp(c)
	if err != nil {
		return err
	}
	if err := prepare(log.WithContext(ctx), app, c.Catalogs); err != nil {
		return err
	}
	server := &http.Server{Handler: function.Handler(function.Functions(app), log), ReadHeaderTimeout: 30 * time.Second}
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
	err = server.Shutdown(stop)
	closed := make(chan struct{})
	go func() { // ends with the last write that was answered, or the process
		defer close(closed)
		for _, cat := range app.Catalogs {
			cat.Close()
		}
	}()
	select {
	case <-closed:
	case <-stop.Done(): // Maintain will complete what is left
	}
	return err
}

// prepare makes the app's parts ready, all at once.
func prepare(ctx context.Context, app function.App, catalogs []config.Catalog) error {
	ctx, cancel := context.WithTimeout(ctx, prepareTime)
	defer cancel()
	errs := make([]error, 2+len(catalogs))
	var g sync.WaitGroup
	g.Go(func() { errs[0] = storageError(config.HostStorage, app.Engine.Prepare(ctx)) })
	g.Go(func() { errs[1] = storageError(config.HostStorage, app.Log.Prepare(ctx)) })
	for i, cat := range catalogs {
		g.Go(func() {
			err := app.Catalogs[cat.Name].Prepare(ctx)
			var p *problem.Error
			if errors.As(err, &p) && p.Kind == problem.Conflict {
				errs[2+i] = fmt.Errorf("%s: %w", cat.SchemaSettings(), err)
				return
			}
			errs[2+i] = storageError(cat.Setting, err)
		})
	}
	g.Wait()
	return errors.Join(errs...)
}

// storageError says which setting leads to the storage that failed.
func storageError(setting string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("prepare the storage that setting %s names: %w", setting, err)
}

// newApp opens every account that the settings name, each once.
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
	own, err := open(config.HostStorage, c.Own)
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
	})
	if err != nil {
		return function.App{}, err
	}
	log := logtail.New(logtail.Options{Table: own.Table(c.LogTable), Retention: c.LogRetention, Streams: c.LogStreams})
	return function.App{Engine: e, Log: log, Catalogs: catalogs}, nil
}

func newCatalog(a *storage.Account, c config.Catalog) *catalog.Catalog {
	return catalog.New(catalog.Options{
		Name: c.Title(), Index: a.Table(c.Table), Log: a.Table(c.WAL), Schema: c.Schema, KeepChanges: c.KeepChanges,
	})
}
