package function

import (
	"context"
	"net/http"
	"net/url"

	"tablesweep/internal/input"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/stream/logtail"
)

const (
	defaultTop   = 20
	maxTop       = 100
	maxFailedTop = 1000
)

// scanAPI serves the calls below /api/scans.
type scanAPI struct{ engine.Engine }

// scanCalls returns the calls for /api/scans, by which clients start and watch scans.
func scanCalls(e engine.Engine) []call {
	s := scanAPI{e}
	return []call{
		{method: "POST", path: "scans", serve: withQuery(s.start)},
		{method: "GET", path: "scans", serve: withQuery(s.list, "top", "cursor", "state", "action", "table", "name", "since")},
		{method: "POST", path: "scans/estimate", serve: withQuery(s.estimate)},
		{method: "GET", path: "scans/connections", serve: answerByID(e.Connections)},
		{method: "GET", path: "scans/connections/{id}/tables", serve: answerByID(e.TableNames)},
		{method: "GET", path: "scans/connections/{id}/queues", serve: answerByID(e.QueueNames)},
		{method: "GET", path: "scans/{id}", serve: answerByID(e.Status)},
		{method: "DELETE", path: "scans/{id}", serve: withQuery(s.cancel)},
		{method: "GET", path: "scans/{id}/timeline", serve: answerByID(e.Timeline)},
		{method: "GET", path: "scans/{id}/ranges", serve: answerByID(e.Ranges)},
		{method: "GET", path: "scans/{id}/members", serve: withQuery(s.members, "top", "cursor", "state")},
		{method: "GET", path: "scans/{id}/failed", serve: withQuery(s.failed, "top", "cursor")},
		{method: "POST", path: "scans/{id}/retry", serve: withQuery(s.retry)},
	}
}

// answerByID returns a handler that passes the id in the path to the function `get`, and answers with the function's
// result. The id is the id of a scan or of a connection. If the path contains no id, the id is "".
func answerByID[ID ~string, T any](get func(ctx context.Context, id ID) (T, error)) func(http.ResponseWriter, *http.Request) error {
	return withQuery(func(w http.ResponseWriter, r *http.Request, _ url.Values) error {
		found, err := get(r.Context(), ID(r.PathValue("id")))
		return answer(w, r, found, err)
	})
}

// scanID returns the id in the path. There may be no scan with this id.
func scanID(r *http.Request) ledger.ScanID { return ledger.ScanID(r.PathValue("id")) }

func (s scanAPI) failed(w http.ResponseWriter, r *http.Request, given url.Values) error {
	top, err := readTop(given, maxTop, maxFailedTop)
	if err != nil {
		return err
	}
	failed, err := s.Failed(r.Context(), scanID(r), top, given.Get("cursor"))
	linkNext(w, r, failed.Cursor)
	return answer(w, r, failed, err)
}

func (s scanAPI) members(w http.ResponseWriter, r *http.Request, given url.Values) error {
	top, err := readTop(given, defaultTop, maxTop)
	if err != nil {
		return err
	}
	list, err := s.Members(r.Context(), scanID(r), top, given.Get("cursor"), ledger.State(given.Get("state")))
	linkNext(w, r, list.Cursor)
	return answer(w, r, list, err)
}

func (s scanAPI) cancel(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	id := scanID(r)
	return writeStarted(w, r, id, s.Cancel(r.Context(), id))
}

// retry retries a scan's remaining steps. With the body {"rows":"failed"}, it also retries failed rows.
func (s scanAPI) retry(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	retry := s.Retry
	if len(body) > 0 {
		var options struct {
			Rows string `json:"rows"`
		}
		if err := input.JSON(body, &options); err != nil {
			return err
		}
		switch options.Rows {
		case "": // same as without a body
		case "failed":
			retry = s.RetryFailed
		default:
			return problem.Invalidf("rows", "%s is unknown; set \"rows\" to \"failed\", or leave it out", secret.Name(options.Rows))
		}
	}
	id := scanID(r)
	return writeStarted(w, r, id, retry(r.Context(), id))
}

// writeStarted answers a request that starts, cancels or retries a scan. If err is not nil, writeStarted only returns err.
func writeStarted(w http.ResponseWriter, r *http.Request, id ledger.ScanID, err error) error {
	if err == nil {
		writeJSON(w, r, http.StatusAccepted, struct {
			ID        ledger.ScanID `json:"id"`
			StatusURL string        `json:"statusUrl"`
		}{id, statusPath(id)})
	}
	return err
}

// statusPath returns the path of the scan's status. The path has no scheme and no host name, because only the caller knows them. Behind a TLS proxy, the
// app sees a different scheme than the caller.
func statusPath(id ledger.ScanID) string { return "/api/scans/" + string(id) }

func (s scanAPI) start(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	req, err := scanRequest(r)
	if err != nil {
		return err
	}
	once, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	id, err := s.StartOnce(r.Context(), req, claim.Sent{Key: once, Invocation: invocationID(r)})
	if err == nil {
		w.Header().Set("Location", statusPath(id))
	}
	return writeStarted(w, r, id, err)
}

func scanRequest(r *http.Request) (scans.Request, error) {
	body, err := readBody(r)
	if err != nil {
		return scans.Request{}, err
	}
	return scans.ParseRequest(body)
}

// estimate answers with the number of rows and the cost of the requested scan.
func (s scanAPI) estimate(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	req, err := scanRequest(r)
	if err != nil {
		return err
	}
	report, err := s.Estimate(r.Context(), req)
	return answer(w, r, report, err)
}

func (s scanAPI) list(w http.ResponseWriter, r *http.Request, given url.Values) error {
	top, err := readTop(given, defaultTop, maxTop)
	if err != nil {
		return err
	}
	q := status.ListQuery{
		Top: top, Cursor: given.Get("cursor"), State: ledger.State(given.Get("state")), Action: given.Get("action"),
		Table: given.Get("table"), Name: given.Get("name"),
	}
	if since := given.Get("since"); since != "" {
		now, err := s.Now(r.Context())
		if err != nil {
			return err
		}
		if q.Since, err = logtail.ParseTime(since, now); err != nil {
			return problem.Invalidf("since", "%v; escape the + of a time zone as %%2B", err)
		}
	}
	list, err := s.List(r.Context(), q)
	linkNext(w, r, list.Cursor)
	return answer(w, r, list, err)
}
