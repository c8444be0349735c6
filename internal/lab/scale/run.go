package scale

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/host/envelope"
	"tablesweep/internal/task"
)

const (
	// longest is how long a scan may take.
	longest = 7 * 24 * time.Hour
	// asked is how often the user asks for the scan's status.
	asked = 10 * time.Second
	// rest is how long processes may continue work without storage, such as their heart,
	// when the run is over.
	rest = time.Minute
)

// Run scans in virtual time. Its error is a mistake in the options or the model, or
// of the scan: the copy differs from the source, or the scan failed.
func Run(o Options) (r Result, err error) {
	if err := o.Check(); err != nil {
		return r, err
	}
	began := time.Now()
	// Only package testing opens bubbles: this makes a test for it.
	synctest.Test(new(testing.T), func(*testing.T) { r, err = run(o) })
	r.Simulated = time.Since(began).Seconds()
	return r, err
}

// run scans. It must be called in a bubble.
func run(o Options) (Result, error) {
	c, err := newCloud(o)
	if err != nil {
		return Result{}, err
	}
	status, err := c.scan()
	c.stop()
	c.work.Wait()
	time.Sleep(rest)
	c.mu.Lock()
	err = errors.Join(c.failure, err)
	c.mu.Unlock()
	if err != nil {
		return Result{}, err
	}
	r := c.result(status)
	return r, c.check(status)
}

// scan starts the scan on a first instance, as a user would, and waits for its end.
func (c *cloud) scan() (engine.Status, error) {
	if c.options.Done == 0 {
		c.work.Go(c.sample)
	}
	first := c.groups[0].add()
	if first.handler == nil {
		return engine.Status{}, nil // the reason is noted
	}
	id, err := c.post(first)
	if err != nil {
		return engine.Status{}, err
	}
	if c.options.Done > 0 {
		if err := c.prefill(id); err != nil {
			return engine.Status{}, err
		}
		c.own.reset()
		c.start = time.Now()
		c.work.Go(c.sample)
	}
	c.work.Go(c.scale)
	c.work.Go(func() { c.tick(first) })
	for {
		if !task.Sleep(c.over, asked) {
			return engine.Status{}, nil
		}
		req := httptest.NewRequest(http.MethodGet, "/api/scans/"+id, nil)
		a := first.call(req.WithContext(c.over))
		var s engine.Status
		if err := json.Unmarshal(a.Body.Bytes(), &s); a.Code != http.StatusOK || err != nil {
			return s, fmt.Errorf("GET /api/scans/%s: %d %s", id, a.Code, a.Body)
		}
		if s.State != ledger.Running {
			return s, nil
		}
		if time.Since(c.start) > longest {
			return s, fmt.Errorf("the scan still runs after %v: %s", longest, a.Body)
		}
	}
}

func (c *cloud) post(in *instance) (id string, err error) {
	request := engine.Request{
		Source: engine.TableRef{Table: sourceTable, Connection: sourceConnection}, Action: engine.Action{Type: c.options.Action},
		Strategy: c.options.Strategy, SegmentsPerInvocation: c.options.Segments,
	}
	if c.options.copies() {
		request.Action.Destination = &engine.TableRef{Table: destinationTable, Connection: destinationConnection}
	}
	if c.options.Done > 0 {
		request.Range.After = c.rows.key(c.options.Done - 1).Partition
	}
	body, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	a := in.call(httptest.NewRequest(http.MethodPost, "/api/scans", bytes.NewReader(body)).WithContext(c.over))
	var started struct{ ID string }
	if err := json.Unmarshal(a.Body.Bytes(), &started); a.Code != http.StatusAccepted || err != nil {
		return "", fmt.Errorf("POST /api/scans: %d %s", a.Code, a.Body)
	}
	return started.ID, nil
}

// copies reports whether the scan is a copy, and not a count.
func (o Options) copies() bool { return o.Action == engine.Copy }

// tick fires the timer of Maintain every minute. The next run waits for the end of the
// last one.
func (c *cloud) tick(in *instance) {
	for task.Sleep(c.over, time.Minute) {
		err := in.execute(c.over, "Maintain", envelope.Timer(in.invocation("Maintain", "timer"), false, nil, false))
		if err != nil {
			c.log.Warn().Err(err).Msg("Maintain failed")
		}
	}
}

// check returns what is wrong with the scan's outcome.
func (c *cloud) check(s engine.Status) error {
	switch {
	case s.State != ledger.Succeeded:
		return fmt.Errorf("the scan is %s: %s", s.State, s.Error)
	case s.Rows.Scanned != c.options.Rows:
		return fmt.Errorf("the scan says that it read %d rows of %d", s.Rows.Scanned, c.options.Rows)
	case !c.options.copies():
		return nil
	case s.Rows.Written != c.options.Rows:
		return fmt.Errorf("the scan says that it wrote %d rows of %d", s.Rows.Written, c.options.Rows)
	}
	return c.sink.check()
}
