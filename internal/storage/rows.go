package storage

import (
	"context"
	"net/http"
	"runtime"
)

// Values of the headers that select the form of an answer.
const (
	accepted  = "application/json;odata=minimalmetadata" // with the types of properties, but without links
	noContent = "return-no-content"                      // without the inserted row
)

// Headers of requests for rows: queries, changes and inserts. All requests share these headers, so they are never changed.
var (
	rowHeader    = http.Header{"X-Ms-Version": {tableVersion}, "Dataserviceversion": {"3.0"}, "Accept": {accepted}, "User-Agent": {userAgent}}
	insertHeader = http.Header{"X-Ms-Version": {tableVersion}, "Dataserviceversion": {"3.0"}, "Accept": {accepted}, "User-Agent": {userAgent}, "Prefer": {noContent}}
)

const tableVersion = "2019-02-02"

// userAgent names this program in an account's logs.
var userAgent = "tablesweep (" + runtime.Version() + "; " + runtime.GOOS + ")"

// send makes a request for rows, and returns the headers of a good answer. The answer's body is in x.answer. Errors
// describe the request by the argument `what` and the table's name.
func (t *Table) send(ctx context.Context, x *exchange, what string, r request) (http.Header, error) {
	c := t.account.connection
	r.url = c.withSAS(c.tableURL + r.url)
	if r.header = rowHeader; r.method == http.MethodPost {
		r.header = insertHeader
	}
	if r.ifMatch != "" {
		r.header = r.header.Clone()
		r.header.Set("If-Match", r.ifMatch)
	}
	return x.do(ctx, t.account.rows, what+t.name, r)
}
