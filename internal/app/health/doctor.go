package health

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"tablesweep/internal/app/config"
	"tablesweep/internal/scans"
	"tablesweep/internal/storage"
)

const (
	// nowhere is the name of a table that does not exist. A request to this table shows whether permission is missing, because the service
	// checks permission before it reports a missing table.
	nowhere = "tablesweepdoctor"
	// hostContainer is the container in which the Functions host keeps its locks.
	hostContainer = "azure-webjobs-hosts"
	// maxAnswer is the maximum number of bytes that are read from the app's answer.
	maxAnswer = 1 << 20
)

// Doctor is the data for the checks from outside the app.
type Doctor struct {
	App              // Check sets Own and StateTable from the settings
	URL string       // the app's URL, such as https://APP.azurewebsites.net; may be ""
	Key string       // a function key; may be ""
	Web *http.Client // for the app's URL
}

// Check makes all checks, and changes nothing.
func (d Doctor) Check(ctx context.Context) []Check {
	ctx, cancel := context.WithTimeout(ctx, 3*answerTime)
	defer cancel()
	c, err := config.Load(d.Settings)
	if err != nil {
		var checks []Check
		for line := range strings.SplitSeq(err.Error(), "\n") {
			checks = append(checks, Check{"settings", Failed, line})
		}
		return append(checks, d.hostJSON(), d.checkSite(ctx))
	}
	parts := []func() []Check{
		func() []Check { return []Check{settingsCheck(c)} },
		func() []Check { return d.checkOwn(ctx, c) },
	}
	for _, name := range slices.Sorted(maps.Keys(c.Connections)) {
		if name != storage.HostConnection {
			parts = append(parts, func() []Check { return []Check{checkTables(ctx, name, c.Connections[name], nil)} })
		}
	}
	for _, cat := range c.Catalogs {
		parts = append(parts, func() []Check { return catalog(ctx, cat) })
	}
	parts = append(parts, func() []Check { return []Check{d.checkSite(ctx)} })
	return runAll(parts)
}

func settingsCheck(c config.Config) Check {
	var catalogs []string
	for _, cat := range c.Catalogs {
		catalogs = append(catalogs, cat.Title())
	}
	return Check{"settings", OK, fmt.Sprintf("valid; connections for scans: %s; catalogs: %s",
		strings.Join(slices.Sorted(maps.Keys(c.Connections)), ", "), cmp.Or(strings.Join(catalogs, ", "), "none"))}
}

// refusedCheck returns a failed check. It names the missing role, or another possible reason for the refusal. t is any table of the account.
func refusedCheck(name, who string, err error, c storage.Connection, t *storage.Table, role string) Check {
	detail := who + oneLine(err.Error())
	var e *storage.Error
	off := slices.DeleteFunc(checkClock(t), func(c Check) bool { return c.State != Failed })
	switch {
	case !errors.As(err, &e) || e.Status != http.StatusForbidden:
	case len(off) > 0:
		detail += "; this machine's clock is " + off[0].Detail
	case c.Entra():
		detail += "; it needs the role " + role
	case e.Code == "AuthenticationFailed":
		detail += "; " + c.SignsIn() + " is not valid for the account"
	default:
		detail += "; the cause may be the account's firewall, or the permissions of " + c.SignsIn()
	}
	return Check{name, Failed, detail}
}

func open(c storage.Connection) (*storage.Account, error) {
	return storage.Open(c, storage.Options{Patience: answerTime})
}

// checkOwn checks the roles for the app's own storage, and the state that a running app stores in it.
func (d Doctor) checkOwn(ctx context.Context, c config.Config) []Check {
	const name = "connection " + storage.HostConnection
	a, err := open(c.Own)
	if err != nil {
		return []Check{NewCheck(name, "", err)}
	}
	account := checkTables(ctx, storage.HostConnection, c.Own, a)
	if account.State == Failed { // the other checks would report the same error
		return append([]Check{account, d.hostJSON()}, checkClock(a.Table(nowhere))...)
	}
	if d.URL == "" && !deployed(ctx, a, c.StateTable) {
		none := Check{"app's storage", Warning, fmt.Sprintf("not deployed: the account has neither the table %s nor a queue of the app; "+
			"commands do not need them, and an app creates them when it starts", c.StateTable)}
		return append([]Check{account, d.hostJSON(), none}, checkClock(a.Table(nowhere))...)
	}
	d.Own, d.StateTable = a, c.StateTable
	parts := []func() []Check{
		func() []Check { return append([]Check{account}, d.App.Check(ctx)...) },
		func() []Check { return []Check{mayWrite(ctx, "log table", a.Table(c.LogTable))} },
	}
	for _, queue := range slices.Sorted(maps.Values(scans.Queues)) {
		parts = append(parts, func() []Check { return []Check{checkQueue(ctx, c.Own, a, queue)} })
	}
	return runAll(append(parts, func() []Check { return []Check{checkBlobs(ctx, c.Own, a)} }))
}

// deployed reports whether an app has probably used the account before: whether its state table or one of its queues
// exists. If this is unknown, the result is true.
func deployed(ctx context.Context, a *storage.Account, stateTable string) bool {
	once := storage.RequestOptions{Once: true}
	if _, err := a.Table(stateTable).With(once).Query(ctx, storage.Query{Top: 1}); !storage.NotFound(err) {
		return true
	}
	for _, name := range scans.Queues {
		q, err := a.Queue(name)
		if err == nil {
			_, err = q.With(once).Length(ctx)
		}
		if !storage.NotFound(err) {
			return true
		}
	}
	return false
}

// checkTables checks the sign-in to an account, and the permissions to read and write its tables. If a is nil, it opens the
// account.
func checkTables(ctx context.Context, setting string, c storage.Connection, a *storage.Account) Check {
	name := "connection " + setting
	who := fmt.Sprintf("account %s by %s", c, c.SignsIn())
	if a == nil {
		var err error
		if a, err = open(c); err != nil {
			return NewCheck(name, "", err)
		}
	}
	table := a.Table(nowhere).With(storage.RequestOptions{Once: true})
	_, err := table.Query(ctx, storage.Query{Top: 1})
	if setting != storage.HostConnection && storage.Passing(err) {
		return judgeOther(setting, err)
	}
	if err != nil && !storage.NotFound(err) {
		check := refusedCheck(name, who+": ", err, c, table, "Storage Table Data Reader")
		var e *storage.Error
		if c.Managed() && !errors.As(err, &e) {
			check.Detail += fmt.Sprintf("; a managed identity can sign in only in Azure: elsewhere, remove %[1]s__credential and %[1]s__clientId, and run az login", setting)
		}
		return check
	}
	switch _, err := table.MayWrite(ctx); {
	case setting != storage.HostConnection && storage.Passing(err):
		return judgeOther(setting, err)
	case err == nil:
		return Check{name, OK, who + ": tables can be read and written"}
	case setting == storage.HostConnection:
		return refusedCheck(name, who+": ", err, c, table, "Storage Table Data Contributor")
	}
	return Check{name, OK, who + ": tables can be read but not written, so scans can use the account as a source but not as a destination"}
}

// checkQueue checks the permission to put messages into a queue.
func checkQueue(ctx context.Context, c storage.Connection, a *storage.Account, queue string) Check {
	name := "role on queue " + queue
	q, err := a.Queue(queue)
	if err != nil {
		return NewCheck(name, "", err)
	}
	exists, err := q.With(storage.RequestOptions{Once: true}).MayWrite(ctx)
	switch {
	case err != nil:
		return refusedCheck(name, "", err, c, a.Table(nowhere), "Storage Queue Data Contributor")
	case !exists:
		return Check{name, Unknown, "not checked, because the queue does not exist yet"}
	}
	return Check{name, OK, "messages can be written"}
}

// checkBlobs checks whether the Functions host can read its locks. Without the locks, no timer runs.
func checkBlobs(ctx context.Context, c storage.Connection, a *storage.Account) Check {
	locks, err := a.Container(hostContainer)
	if err != nil {
		return Check{"blobs", Unknown, err.Error()}
	}
	err = locks.With(storage.RequestOptions{Once: true}).List(ctx, "none/", func(storage.Blob) error { return nil })
	switch {
	case storage.HasCode(err, "ContainerNotFound"):
		return Check{"blobs", Warning, "the Functions host has not created its container " + hostContainer + " yet"}
	case err != nil:
		return refusedCheck("blobs", "", err, c, a.Table(nowhere), "Storage Blob Data Owner")
	}
	return Check{"blobs", OK, "container " + hostContainer + " can be read"}
}

func catalog(ctx context.Context, c config.CatalogSettings) []Check {
	name := "catalog " + c.Title()
	a, err := open(c.Connection)
	if err != nil {
		return []Check{NewCheck(name, "", err)}
	}
	once := storage.RequestOptions{Once: true}
	return []Check{mayWrite(ctx, name, a.Table(c.Table).With(once)), mayWrite(ctx, name+", log", a.Table(c.WAL).With(once))}
}

// checkSite checks the app by a request to its URL, with the key.
func (d Doctor) checkSite(ctx context.Context) Check {
	const name = "app"
	if d.URL == "" {
		return Check{name, Unknown, "not checked; this check needs the app's address (--url) and a key (--key)"}
	}
	s := Site{d.URL, d.Key, d.Web}
	host, err := s.Host()
	if err != nil {
		return Check{name, Failed, "its URL " + err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*answerTime) // the app may have to start an instance
	defer cancel()
	status, answer, err := s.Send(ctx, http.MethodGet, "/api/health", nil)
	if err != nil {
		return NewCheck(name, "", err)
	}
	return judgeSite(host, status, s, answer)
}

// judgeSite judges an app's answer. The check does not show the key, even if the answer contains it.
func judgeSite(host string, status int, s Site, answer []byte) Check {
	const name = "app"
	var report Report
	err := json.Unmarshal(answer, &report)
	means := map[int][]State{http.StatusOK: {OK, Warning}, http.StatusServiceUnavailable: {Failed}}
	switch {
	case status == http.StatusUnauthorized && s.Key == "":
		return Check{name, Failed, host + " answers, but needs a key; put the key into an environment variable, and give the variable's name with --key"}
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return Check{name, Failed, host + " answers, but refuses the key: it must be a host key, or a key of the function Service"}
	case err != nil || len(report.Checks) == 0 || !slices.Contains(means[status], report.Status):
		return Check{name, Failed, s.Unknown(status).Error()}
	}
	facts := []string{"answers"}
	if report.Status == OK {
		facts = []string{"answers, and reports no problem"}
	}
	for _, c := range report.Checks {
		if c.State == Failed || c.State == Warning || c.Name == memoryCheck {
			facts = append(facts, oneLine(s.Hide(c.Name+": "+c.Detail)))
		}
	}
	return Check{name, report.Status, host + " " + strings.Join(facts, "; ")}
}
