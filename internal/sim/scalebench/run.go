package scalebench

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
	// patience is how long a scan may take.
	patience = 7 * 24 * time.Hour
	// look is how often the user asks for the scan's status.
	look = 10 * time.Second
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
	w, err := newWorld(o)
	if err != nil {
		return Result{}, err
	}
	status, err := w.scan()
	w.stop()
	w.work.Wait()
	time.Sleep(rest)
	w.mu.Lock()
	err = errors.Join(w.failure, err)
	w.mu.Unlock()
	if err != nil {
		return Result{}, err
	}
	r := w.result(status)
	return r, w.check(status)
}

// scan starts the scan on a first instance, as a user would, and waits for its end.
func (w *world) scan() (engine.Status, error) {
	if w.options.Done == 0 {
		w.work.Go(w.sample)
	}
	first := w.groups[0].add()
	if first.handler == nil {
		return engine.Status{}, nil // the reason is noted
	}
	id, err := w.post(first)
	if err != nil {
		return engine.Status{}, err
	}
	if w.options.Done > 0 {
		if err := w.prefill(id); err != nil {
			return engine.Status{}, err
		}
		w.own.reset()
		w.start = time.Now()
		w.work.Go(w.sample)
	}
	w.work.Go(w.scale)
	w.work.Go(func() { w.tick(first) })
	for {
		if !task.Sleep(w.running, look) {
			return engine.Status{}, nil
		}
		req := httptest.NewRequest(http.MethodGet, "/api/scans/"+id, nil)
		a := first.call(req.WithContext(w.running))
		var s engine.Status
		if err := json.Unmarshal(a.Body.Bytes(), &s); a.Code != http.StatusOK || err != nil {
			return s, fmt.Errorf("GET /api/scans/%s: %d %s", id, a.Code, a.Body)
		}
		if s.State != ledger.Running {
			return s, nil
		}
		if time.Since(w.start) > patience {
			return s, fmt.Errorf("the scan still runs after %v: %s", patience, a.Body)
		}
	}
}

func (w *world) post(in *instance) (id string, err error) {
	request := engine.Request{
		Source: engine.TableRef{Table: sourceTable, Connection: sourceConnection}, Action: engine.Action{Type: w.options.Action},
		Strategy: w.options.Strategy, SegmentsPerInvocation: w.options.Segments,
	}
	if w.options.copies() {
		request.Action.Destination = &engine.TableRef{Table: destinationTable, Connection: destinationConnection}
	}
	if w.options.Done > 0 {
		request.Range.After = w.rows.key(w.options.Done - 1).Partition
	}
	body, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	a := in.call(httptest.NewRequest(http.MethodPost, "/api/scans", bytes.NewReader(body)).WithContext(w.running))
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
func (w *world) tick(in *instance) {
	for task.Sleep(w.running, time.Minute) {
		err := in.execute(w.running, "Maintain", envelope.Timer(in.invocation("Maintain", "timer"), false, nil, false))
		if err != nil {
			w.log.Warn().Err(err).Msg("Maintain failed")
		}
	}
}

// check returns what is wrong with the scan's outcome.
func (w *world) check(s engine.Status) error {
	switch {
	case s.State != ledger.Succeeded:
		return fmt.Errorf("the scan is %s: %s", s.State, s.Error)
	case s.Rows.Scanned != w.options.Rows:
		return fmt.Errorf("the scan says that it read %d rows of %d", s.Rows.Scanned, w.options.Rows)
	case !w.options.copies():
		return nil
	case s.Rows.Written != w.options.Rows:
		return fmt.Errorf("the scan says that it wrote %d rows of %d", s.Rows.Written, w.options.Rows)
	}
	return w.sink.check()
}
