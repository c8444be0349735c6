package scans

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// A scan may read and export every table, but must not change tables of the app or its host. Otherwise a scan could,
// for example, delete records while calls write them. Each step and each retry checks the scan's tables again, because
// the settings may have changed since the scan began.

// The names of the Functions host's containers begin with hostContainers. These containers hold locks, keys, and the state
// of triggers.
const hostContainers = "azure-webjobs-"

// Container is a container of an account; the zero value means none.
type Container struct {
	Account *storage.Account
	Name    string
}

// OwnError is the error for work that would change tables, queues or containers of the app or its host.
type OwnError struct{ error }

func (o *OwnError) Unwrap() error { return o.error }

func refuse(field, what string) error {
	return &OwnError{problem.Invalidf(field, "%s; name another", what)}
}

// FatalIfOwn makes an [OwnError] fatal. It returns other errors of [Scans.Open] unchanged, because another instance may
// have newer settings, with which the scan can be opened.
func FatalIfOwn(err error) error {
	if errors.As(err, new(*OwnError)) {
		return &FatalError{errors.New(err.Error())}
	}
	return err
}

// CheckTable returns an error if scans must not change the table named in a request's field.
func (ss *Scans) CheckTable(field string, t *storage.Table) error {
	field += ".table"
	if slices.ContainsFunc(ss.Options.Kept, t.Same) {
		return refuse(field, "is a table of this app's catalogs or event log; copy a backup into new tables, and change the app's settings to use them")
	}
	if what := ss.HostsTable(t); what != "" {
		return refuse(field, what)
	}
	return nil
}

// HostsTable returns a description of the table if it holds the state of this app or of a Functions host, and otherwise
// "". Groups leave out the tables that HostsTable describes.
func (ss *Scans) HostsTable(t *storage.Table) string {
	o, name := ss.Options, t.Name()
	switch {
	case t.Same(o.Own.Table(o.StateTable)):
		return "is the table that keeps this app's scans"
	case storage.OfHost(name): // the host of this app or of another app
		return "is a table of the Functions host"
	}
	return ""
}

// checkQueue returns an error if scans must not put messages into the queue.
func (ss *Scans) checkQueue(field string, a *storage.Account, name string) error {
	switch {
	case strings.HasSuffix(name, PoisonSuffix):
		return refuse(field+".name", "is a queue for messages that a Functions host gave up on, and nobody reads it")
	case slices.Contains(slices.Collect(maps.Values(Queues)), name) && a.Same(ss.Options.Own):
		return refuse(field+".name", "is the app's own queue")
	}
	return nil
}

// checkContainer returns an error if scans must not export into the container.
func (ss *Scans) checkContainer(field string, a *storage.Account, name string) error {
	o := ss.Options
	switch {
	case strings.HasPrefix(name, hostContainers) && a.Same(o.Own):
		return refuse(field+".container", "is a container of the Functions host")
	case o.Packages.Account != nil && name == o.Packages.Name && a.Same(o.Packages.Account):
		return refuse(field+".container", "is the container that this app is deployed from")
	}
	return nil
}
