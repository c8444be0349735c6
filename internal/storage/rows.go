package storage

import (
	"context"
	"net/http"
	"runtime"
)

// Which answers requests for rows ask for.
const (
	accepted  = "application/json;odata=minimalmetadata" // types of properties, but no links
	noContent = "return-no-content"                      // not the row that was inserted
)

// Headers of requests for rows, of queries and changes and of what inserts. They are shared, and never changed.
var (
	rowHeader    = http.Header{"X-Ms-Version": {tableVersion}, "Dataserviceversion": {"3.0"}, "Accept": {accepted}, "User-Agent": {userAgent}}
	insertHeader = http.Header{"X-Ms-Version": {tableVersion}, "Dataserviceversion": {"3.0"}, "Accept": {accepted}, "User-Agent": {userAgent}, "Prefer": {noContent}}
)

const tableVersion = "2019-02-02"

// userAgent is what an account's logs call this program.
var userAgent = "tablesweep (" + runtime.Version() + "; " + runtime.GOOS + ")"

// send makes a request for rows and returns the headers of a good answer; x has the body.
// what names the request in errors, with the table's name behind it.
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
