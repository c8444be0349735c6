package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// damages are some of the ways in which a good answer can be damaged. They return the damaged body. The tests of storage have all of them, for each
// operation.
var damages = map[string]func(r *http.Response, body []byte) []byte{
	"lost": func(*http.Response, []byte) []byte { panic(http.ErrAbortHandler) },
	"a proxy's page": func(r *http.Response, _ []byte) []byte {
		r.StatusCode, r.Header = http.StatusOK, http.Header{"Content-Type": {"text/html"}}
		return []byte("<html><body>Sign in.</body></html>")
	},
	"half, as if whole": func(_ *http.Response, body []byte) []byte { return body[:len(body)/2] },
	"no rows": func(r *http.Response, body []byte) []byte {
		if strings.HasSuffix(r.Request.URL.Path, "()") {
			r.Header.Del("X-Ms-Client-Request-Id") // it could be the id of another request
			return []byte(`{"value":[]}`)
		}
		return body
	},
}

// damage returns a connection through a proxy that damages every tenth answer about tables, and the number of damaged answers.
func damage(t *testing.T, connection, name string) (string, *atomic.Int64) {
	t.Helper()
	_, rest, _ := strings.Cut(connection, "TableEndpoint=")
	endpoint, _, _ := strings.Cut(rest, ";")
	to, err := url.Parse(endpoint)
	proof.Must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: to.Scheme, Host: to.Host})
	done, answers := new(atomic.Int64), new(atomic.Int64)
	proxy.ModifyResponse = func(r *http.Response) error {
		if answers.Add(1) < 5 || r.StatusCode >= http.StatusBadRequest || rand.IntN(10) > 0 { // the first answers show that this is the service
			return nil
		}
		done.Add(1)
		body, err := io.ReadAll(r.Body)
		body = damages[name](r, body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return err
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return strings.Replace(connection, endpoint, server.URL+to.Path, 1), done
}

// hasRows reports whether a table has as many rows as wanted.
func hasRows(t *testing.T, a *storage.Account, table string, want int) bool {
	n := 0
	err := a.Table(table).All(t.Context(), storage.Query{}, func(p storage.Page) error { n += len(p.Rows); return nil })
	return err == nil && n == want
}

// TestDamagedAnswers checks that a copy with damaged answers is complete, and counts each row once.
func TestDamagedAnswers(t *testing.T) {
	t.Parallel()
	rows := manyRows(40, 2)
	for name := range damages {
		for _, mode := range []string{"replace", "fail"} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				var ends [2]string
				var done [2]*atomic.Int64
				var to *storage.Account
				for i := range ends {
					_, a, connection := serveEmulator(t, emulator.Options{Faults: "short-page p=1 rows=10"})
					if to = a; i == 0 {
						emulatortest.Table(t, a, "source", rows)
					}
					ends[i], done[i] = damage(t, connection, name)
				}
				out, _, err := inProcess(t.Context(), nil, "copy", "--from", "source", "--to", "copied", "--mode", mode, "--json", "--progress", "none", "--from-connection", ends[0], "--to-connection", ends[1])
				var r jobResult
				if err != nil || json.Unmarshal([]byte(out), &r) != nil || r.Rows != int64(len(rows)) || r.Written != r.Rows || r.Skipped+r.Failed > 0 || !hasRows(t, to, "copied", len(rows)) {
					t.Errorf("got error %v, output %s", err, out)
				}
				if done[0].Load()+done[1].Load() == 0 {
					t.Error("no answer was damaged")
				}
			})
		}
	}
}
