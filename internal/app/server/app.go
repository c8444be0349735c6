package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/rs/zerolog"

	"tablesweep/internal/app/config"
	"tablesweep/internal/app/function"
	"tablesweep/internal/app/gate"
	"tablesweep/internal/app/health"
	"tablesweep/internal/catalog"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
	"tablesweep/internal/task"
)

// prepare prepares the app's parts in the background, each with its own gate. If the settings are wrong, no part is
// prepared, and app.Gates.Settings becomes a gate that stays closed.
func prepare(ctx context.Context, app *function.App, catalogs []config.CatalogSettings, settingsErr error) {
	behind := func(what string, prepare func(context.Context) error) *gate.Gate {
		g := gate.New()
		go g.Prepare(ctx, prepare, func(err error) { // ends when the preparation has succeeded or ctx ends
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
	go func() { // advances the schedules once, because the timer may have stopped; ends afterwards, or when ctx ends
		err := app.Gates.Own.Wait(ctx)
		if err == nil {
			err = task.Do(func() error { return app.Engine.AdvanceSchedules(ctx, true) })
		}
		if err != nil && ctx.Err() == nil {
			zerolog.Ctx(ctx).Warn().Err(err).Msg("some schedules were not checked; the function Maintain will check them")
		}
	}()
	app.Gates.Catalogs = map[string]*gate.Gate{}
	for _, cat := range catalogs {
		c := app.Catalogs[cat.Name]
		app.Gates.Catalogs[cat.Name] = behind("catalog "+c.Name, func(ctx context.Context) error {
			err := c.TryPrepare(ctx)
			var p *problem.Error
			switch {
			case errors.As(err, &p) && p.Kind == problem.Moving:
				return p
			case p != nil && p.Kind == problem.Conflict:
				return problem.Conflictf("", "%s: %s", cat.SchemaSettings(), p.Detail).Because(p.Err)
			}
			return storageError(cat.Setting, err)
		})
	}
}

// storageError adds the name of the storage's setting to an error. If the service refuses the request permanently,
// a person must act, so the result is a [problem.Error], which [gate.Gate.Pass] returns immediately.
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

// newApp opens every account of the settings once. It returns the app and the accounts.
func newApp(c config.Config, settings storage.Settings) (function.App, []*storage.Account, error) {
	var all []*storage.Account
	opened := map[storage.Connection]*storage.Account{}
	open := func(setting string, connection storage.Connection) (*storage.Account, error) {
		if a := opened[connection]; a != nil {
			return a, nil
		}
		a, err := storage.Open(connection, storage.Options{Name: setting})
		if err != nil {
			return nil, fmt.Errorf("setting %s: %w", setting, err)
		}
		opened[connection] = a
		all = append(all, a)
		return a, nil
	}
	own, err := open(storage.HostConnection, c.Own)
	if err != nil {
		return function.App{}, nil, err
	}
	accounts := map[string]*storage.Account{}
	for _, name := range slices.Sorted(maps.Keys(c.Connections)) {
		if accounts[name], err = open(name, c.Connections[name]); err != nil {
			return function.App{}, nil, err
		}
	}
	kept := []*storage.Table{own.Table(c.LogTable)}
	catalogs := function.Catalogs{}
	for _, cat := range c.Catalogs {
		a, err := open(cat.Setting, cat.Connection)
		if err != nil {
			return function.App{}, nil, err
		}
		catalogs[cat.Name] = NewCatalog(a, cat)
		kept = append(kept, a.Table(cat.Table), a.Table(cat.WAL))
	}
	packages := scans.Container{Name: c.Packages.Name}
	if packages.Name != "" {
		if packages.Account, err = open(config.DeploymentContainer, c.Packages.Account); err != nil {
			return function.App{}, nil, err
		}
	}
	budget := c.Memory.Budget()
	e, err := engine.New(scans.Options{
		Own:                   own,
		Memory:                budget,
		Accounts:              accounts,
		StateTable:            c.StateTable,
		Kept:                  kept,
		Packages:              packages,
		SegmentsPerInvocation: c.SegmentsPerInvocation,
		Retention:             c.ScanRetention,
		Price:                 c.Price,
	}, c.Schedules...)
	if err != nil {
		return function.App{}, nil, err
	}
	log := logtail.New(logtail.Options{Table: own.Table(c.LogTable), Retention: c.LogRetention, Streams: c.LogStreams})
	others := maps.Clone(accounts)
	delete(others, storage.HostConnection)
	checked := health.App{Own: own, StateTable: c.StateTable, Root: os.DirFS("."), Settings: settings, Others: others, Instance: c.Memory, Memory: budget}
	app := function.App{Memory: budget, Engine: *e, Log: log, Catalogs: catalogs, Health: checked, SchedulesErr: c.SchedulesErr}
	if err := e.CheckSchedules(); err != nil {
		app.SchedulesErr = errors.Join(app.SchedulesErr, config.NameSchedules(err))
	}
	return app, all, nil
}

// NewCatalog returns the catalog that the settings describe. The catalog's tables are in the given account.
func NewCatalog(a *storage.Account, c config.CatalogSettings) *catalog.Catalog {
	return catalog.New(catalog.Options{
		Name: c.Title(), Index: a.Table(c.Table), Log: a.Table(c.WAL), Schema: c.Schema, KeepChanges: c.KeepChanges,
	})
}
