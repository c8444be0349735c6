package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"tablesweep/internal/app/health"
	"tablesweep/internal/file"
	"tablesweep/internal/job"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// keySetting is the environment variable with a function key of the app.
const keySetting = "TABLESWEEP_KEY"

// appTime is the longest time for an app's answer. The app may have to start, and it reads the source before it starts a scan.
const appTime = 2 * time.Minute

// appFlags choose how a command starts, cancels or retries a scan: by a call of the app's API, or by a row in the app's own storage.
type appFlags struct {
	scansFlags
	url string
}

func (f *appFlags) options() []option {
	return append(f.ofStorage(), option{"url", perRun, &f.url, nil, "call the API of the app at this address, such as https://APP.azurewebsites.net; " + keySetting + " contains the key"})
}

// openToChange opens the app's own storage, checks that the state table exists, and announces that the command changes this table.
func (f *appFlags) openToChange(r *call) (*engine.Engine, error) {
	r.changes = true
	e, err := f.open(r)
	if err != nil {
		return nil, err
	}
	t := e.Options.Own.Table(f.table)
	if _, err := t.Query(r.ctx, storage.Query{Top: 1, Select: []string{}}); err != nil {
		return nil, f.refused("nothing was changed", err)
	}
	r.announceChanges(t.Address())
	return e, nil
}

// refused lets explain rewrite err if err is a [problem.Error], or if the state table is missing. Otherwise, it puts the prefix before err.
func (f *appFlags) refused(prefix string, err error) error {
	if errors.As(err, new(*problem.Error)) || storage.HasCode(err, "TableNotFound") {
		return f.explain(err)
	}
	return fmt.Errorf("%s: %w", prefix, err)
}

// send sends a request to the app, and returns the id in its answer. If the app does not answer, or answers with a
// status of 500 or above, the error contains the hint.
func (f *appFlags) send(r *call, method, path string, body []byte, hint string) (string, error) {
	if f.connection.given() || f.table != "" || f.patience != storage.DefaultPatience {
		return "", usagef("--url cannot be combined with --connection, --state-table or --patience")
	}
	site := health.Site{URL: f.url, Key: environment().Get(keySetting), Web: http.DefaultClient}
	host, err := site.Host()
	if err != nil {
		return "", usagef("--url %w", err)
	}
	ctx, cancel := context.WithTimeout(r.ctx, appTime)
	defer cancel()
	status, answer, err := site.Send(ctx, method, "/api/scans"+path, body)
	var of *url.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("not within %v", appTime)
	case errors.As(err, &of): // the text of the *url.Error would repeat the address
		err = of.Err
	}
	if err != nil {
		return "", job.Hint(fmt.Errorf("%s did not answer: %w", host, err), hint)
	}
	id, err := judgeAnswer(host, status, site, answer)
	if status >= http.StatusInternalServerError { // the app may have failed after it fulfilled the request
		err = job.Hint(err, hint)
	}
	return id, err
}

// judgeAnswer returns the scan's id or the error in the app's answer to a request to start, cancel or retry a scan.
func judgeAnswer(host string, status int, site health.Site, answer []byte) (string, error) {
	type detail struct{ Field, Detail string }
	var reply struct {
		ID string
		detail
		Errors []detail
	}
	err := json.Unmarshal(answer, &reply)
	if reply.Errors == nil && reply.Detail != "" {
		reply.Errors = []detail{reply.detail}
	}
	switch {
	case status == http.StatusAccepted && err == nil && ledger.ScanID(reply.ID).Valid():
		return reply.ID, nil
	case status == http.StatusUnauthorized || status == http.StatusForbidden && reply.Errors == nil:
		refusal := "needs a key"
		if site.Key != "" {
			refusal = "refuses the key"
		}
		return "", fmt.Errorf("%s %s: set %s to a host key, or to a key of the function Scans", host, refusal, keySetting)
	case status < http.StatusBadRequest || err != nil || reply.Errors == nil:
		return "", site.Unknown(status)
	}
	var all []string
	for _, e := range reply.Errors {
		all = append(all, strings.TrimPrefix(e.Field+": "+e.Detail, ": "))
	}
	err = fmt.Errorf("%s answers %d: %s", host, status, site.Hide(strings.Join(all, "; ")))
	if status == http.StatusBadRequest {
		return "", usageError(err)
	}
	return "", err
}

type scansStartOptions struct{ appFlags }

func (o *scansStartOptions) run(r *call) error {
	body, request, err := requestIn(r, r.args[0])
	if err != nil {
		return err
	}
	if o.url != "" {
		id, err := o.send(r, http.MethodPost, "", body, "the app may have started the scan; its console lists the newest scans")
		if err != nil {
			return err
		}
		return r.print(false, nil, "%s\n", id)
	}
	e, err := o.openToChange(r)
	if err != nil {
		return err
	}
	id, err := e.RequestCheckedStart(r.ctx, request)
	if err != nil {
		if err = o.refused("start a scan", err); id != "" && !errors.As(err, new(job.Hinted)) {
			err = job.Hint(err, `the app may still start the scan; to see whether the scan exists, run "tablesweep scans show `+string(id)+`"`)
		}
		return err
	}
	r.Meter.Print("requested", `the app starts the scan within a minute; "tablesweep scans show `+string(id)+`" shows its progress`)
	return r.print(false, nil, "%s\n", id)
}

// requestIn reads the request for a scan from a file, or from stdin for "-".
func requestIn(r *call, name string) (body []byte, request scans.Request, err error) {
	in := r.In
	if name == "-" {
		name = "stdin"
	} else {
		f, err := file.OpenPipe(r.ctx, name, os.O_RDONLY, 0)
		if err != nil {
			return nil, request, job.Unopened("", err)
		}
		defer f.Close()
		in = f
	}
	body, err = io.ReadAll(io.LimitReader(in, scans.MaxRequest+1))
	if err != nil {
		return nil, request, fmt.Errorf("read %s: %w", name, err)
	}
	if len(body) > scans.MaxRequest {
		return nil, request, usagef("%s has more than %d KiB, which is the limit for a scan's request", name, scans.MaxRequest>>10)
	}
	if request, err = scans.ParseRequest(body); err != nil {
		err = usagef("%s: %s", name, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return body, request, err
}

type scansCancelOptions struct{ appFlags }

// repeat is the hint for a call that is safe to repeat.
const repeat = "run the command again; repeating it does no harm"

func (o *scansCancelOptions) run(r *call) error {
	id := r.args[0]
	if o.url != "" {
		_, err := o.send(r, http.MethodDelete, "/"+url.PathEscape(id), nil, repeat)
		if err == nil {
			r.Meter.Print("canceled", id)
		}
		return err
	}
	e, err := o.openToChange(r)
	if err != nil {
		return err
	}
	if err := e.Cancel(r.ctx, ledger.ScanID(id)); err != nil {
		return o.refused("cancel scan "+id, err)
	}
	r.Meter.Print("canceled", id)
	return nil
}

type scansRetryOptions struct {
	appFlags
	failed bool
}

func (o *scansRetryOptions) options() []option {
	return append(o.appFlags.options(), option{"failed", perRun, &o.failed, nil, "also retry the rows that failed"})
}

func (o *scansRetryOptions) run(r *call) error {
	id := r.args[0]
	if o.url != "" {
		var body []byte
		if o.failed {
			body = []byte(`{"rows":"failed"}`)
		}
		_, err := o.send(r, http.MethodPost, "/"+url.PathEscape(id)+"/retry", body, repeat)
		if err == nil {
			r.Meter.Print("runs", id)
		}
		return err
	}
	e, err := o.openToChange(r)
	if err != nil {
		return err
	}
	if err := e.RequestRetry(r.ctx, ledger.ScanID(id), o.failed); err != nil {
		return o.refused("retry scan "+id, err)
	}
	r.Meter.Print("requested", `the app retries the scan within a minute, unless the scan is already running; "tablesweep scans show `+id+`" shows its progress`)
	return nil
}
