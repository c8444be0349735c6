package scale

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/app/envelope"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/task"
)

// Result is the result of a run, in virtual time.
type Result struct {
	Options Options
	Took    time.Duration // from the request that starts the scan until its end

	Instances int
	Accounts  [3]Traffic // the app's own account, the source's and the destination's
	Status    status.Status
}

// Traffic counts an account's requests.
type Traffic struct {
	Requests, RefusedByAccount, RefusedByPartition int64
}

// Run scans in virtual time. It returns an error if an option is invalid, the scan fails, or rows are missing.
func Run(o Options) (r Result, err error) {
	if err := o.Check(); err != nil {
		return r, err
	}
	// Only package testing can open bubbles, so this creates a test.
	synctest.Test(new(testing.T), func(*testing.T) { r, err = run(o) })
	return r, err
}

// run scans. It must be called in a bubble.
func run(o Options) (Result, error) {
	c := newCloud(o)
	status, err := c.scan()
	c.stop()
	c.work.Wait()
	time.Sleep(time.Minute) // processes may still do work that needs no storage, such as the loop of heartbeats
	if err != nil {
		return Result{}, err
	}
	r := Result{Options: o, Instances: c.instances(), Accounts: [3]Traffic{c.own.traffic, c.source.traffic, c.destination.traffic}, Status: status}
	if status.FinishedAt != nil {
		r.Took = status.FinishedAt.Sub(c.start)
	}
	return r, c.check(status)
}

// scan starts the scan on a first instance, as a user would, and waits for its end.
func (c *cloud) scan() (status.Status, error) {
	first := c.groups[0].add()
	request := scans.Request{Source: sourceTable, Action: scans.Action{Type: c.options.Action}}
	if c.options.copies() {
		request.Action.Destination = &destinationTable
	}
	body, err := json.Marshal(request)
	if err != nil {
		return status.Status{}, err
	}
	var started struct{ ID string }
	if err := first.post("/api/scans", body, &started); err != nil {
		return status.Status{}, err
	}
	c.work.Go(c.scale)
	c.work.Go(func() { c.tick(first) })
	for {
		time.Sleep(10 * time.Second)
		var s status.Status
		if err := first.post("/api/scans/"+started.ID, nil, &s); err != nil || s.State != ledger.Running {
			return s, err
		}
		if c.options.Progress != nil {
			c.options.Progress(time.Since(c.start), s.Rows.Scanned)
		}
	}
}

// post posts a body, or gets the path if the `body` is nil, and decodes the answer.
func (in *instance) post(path string, body []byte, answer any) error {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	a := in.call(httptest.NewRequest(method, path, bytes.NewReader(body)))
	if err := json.Unmarshal(a.Body.Bytes(), answer); a.Code >= http.StatusBadRequest || err != nil {
		return fmt.Errorf("%s %s: %d %s", method, path, a.Code, a.Body)
	}
	return nil
}

// tick fires the timer of Maintain every minute. Each run waits for the end of the previous one. A run also does the work of a failed earlier run.
func (c *cloud) tick(in *instance) {
	for task.Sleep(c.over, time.Minute) {
		_ = in.execute(c.over, "Maintain", envelope.Timer("Maintain", envelope.Status{}, false))
	}
}

// check returns an error if the outcome of the scan is wrong.
func (c *cloud) check(s status.Status) error {
	written := c.sink.written.Load()
	switch {
	case s.State != ledger.Succeeded:
		return fmt.Errorf("the scan is %s: %s", s.State, s.Error)
	case s.Rows.Scanned != c.options.Rows:
		return fmt.Errorf("the scan's status shows that it read %d rows of %d", s.Rows.Scanned, c.options.Rows)
	case c.options.copies() && (s.Rows.Written != c.options.Rows || written < c.options.Rows):
		return fmt.Errorf("the scan's status shows that it wrote %d rows of %d, but the destination got %d", s.Rows.Written, c.options.Rows, written)
	}
	return nil
}
