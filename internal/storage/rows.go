package storage

import (
	"context"
	"net/http"
)

// rowRequest is a request of the Table service about rows.
type rowRequest struct {
	method      string
	target      string // the URL behind the account's endpoint, without a signature
	contentType string // of body
	body        []byte // must stay as it is until the request was answered at the first try
	ifMatch     string // an ETag; "" for no condition
}

// Which answers requests for rows ask for.
const (
	accepted  = "application/json;odata=minimalmetadata" // types of properties, but no links
	noContent = "return-no-content"                      // not the row that was inserted
)

// Headers of requests for rows, of queries and changes and of what inserts. They are shared, and never changed.
var (
	rowHeader    = http.Header{"X-Ms-Version": {tableVersion}, "Dataserviceversion": {"3.0"}, "Accept": {accepted}}
	insertHeader = http.Header{"X-Ms-Version": {tableVersion}, "Dataserviceversion": {"3.0"}, "Accept": {accepted}, "Prefer": {noContent}}
)

const tableVersion = "2019-02-02"

// send makes a request for rows and returns the headers of a good answer; x has the body.
// what names the request in errors, with the table's name behind it.
func (t *Table) send(ctx context.Context, x *exchange, what string, r rowRequest) (http.Header, error) {
	c := t.account.connection
	url := c.tableURL + r.target
	if c.sas != "" {
		url += pick(r.method == http.MethodGet, "&", "?") + c.sas // a query has parameters
	}
	header := rowHeader
	if r.method == http.MethodPost {
		header = insertHeader
	}
	if r.ifMatch != "" {
		header = header.Clone()
		header.Set("If-Match", r.ifMatch)
	}
	return x.do(ctx, t.account.rows, what+t.name, httpRequest{r.method, url, header, r.contentType, r.body})
}
