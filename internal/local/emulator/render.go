package emulator

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/key/odata"
	"tablesweep/internal/local/emulator/entity"
	"tablesweep/internal/local/emulator/table"
)

// metadata is the level of OData metadata in an answer.
type metadata uint8

const (
	minimalMetadata metadata = iota
	noMetadata
	fullMetadata
)

func (m metadata) contentType() string {
	name := [...]string{"minimalmetadata", "nometadata", "fullmetadata"}[m]
	return "application/json;odata=" + name + ";streaming=true;charset=utf-8"
}

// formatRequested returns the requested format of the answer: $format if present, otherwise Accept.
func formatRequested(c *call) string { return cmp.Or(c.query.Get("$format"), c.Header.Get("Accept")) }

func metadataLevel(c *call) metadata { return parseLevel(formatRequested(c)) }

func parseLevel(wanted string) metadata {
	switch {
	case strings.Contains(wanted, "odata=nometadata"):
		return noMetadata
	case strings.Contains(wanted, "odata=fullmetadata"):
		return fullMetadata
	}
	return minimalMetadata
}

type renderer struct {
	level   metadata
	columns columns
	base    string // the account's URL
	account string
	table   string
	b       []byte
	stamp   []byte            // a reused buffer
	chosen  []entity.Property // a reused slice
}

// columns are the properties that a query selects.
type columns struct {
	text    string   // the text of $select
	names   []string // the selected names, sorted; nil for all properties
	selects bool     // the query has a $select, which may be empty
}

func parseColumns(query url.Values) columns {
	c := columns{text: query.Get("$select"), selects: query.Has("$select")}
	if c.text == "" || c.text == "*" {
		return c
	}
	for name := range strings.SplitSeq(c.text, ",") {
		c.names = append(c.names, strings.TrimSpace(name))
	}
	slices.Sort(c.names)
	c.names = slices.Compact(c.names)
	return c
}

// includes reports whether the query selects a property.
func (c *columns) includes(name string) bool { return c.names == nil || slices.Contains(c.names, name) }

func (s tableService) renderer(c *call, name string, columns columns) *renderer {
	return &renderer{level: metadataLevel(c), columns: columns, base: s.base(c), account: s.account, table: name}
}

func (r *renderer) context(of string) {
	if r.level == noMetadata {
		return
	}
	if r.columns.selects {
		of += "&$select=" + r.columns.text
	}
	r.text("odata.metadata", r.base+"/$metadata#"+of)
}

// page renders a query's answer.
func (s tableService) page(c *call, name string, rows []table.Row, columns columns) response {
	r := s.renderer(c, name, columns)
	r.b = s.buffer()
	r.b = append(r.b, '{')
	r.context(name)
	r.b = append(r.b, `"value":[`...)
	for i, row := range rows {
		if i > 0 {
			r.b = append(r.b, ',')
		}
		r.b = append(r.b, '{')
		r.row(row)
		r.b = append(r.b, '}')
	}
	r.b = append(r.b, `]}`...)
	return response{status: http.StatusOK, contentType: r.level.contentType(), body: r.b, pooled: true}
}

// row renders a row as a complete answer.
func (s tableService) row(c *call, name string, row table.Row, columns columns, status int) response {
	r := s.renderer(c, name, columns)
	r.b = append(r.b, '{')
	r.context(name + "/@Element")
	r.row(row)
	r.b = append(r.b, '}')
	answer := response{status: status, contentType: r.level.contentType(), body: r.b}
	answer.set("ETag", row.ETag())
	return answer
}

func (r *renderer) row(row table.Row) {
	r.stamp = odata.AppendDateTime(r.stamp[:0], row.Ticks)
	link := ""
	if r.level == fullMetadata {
		link = entityLink(r.table, row)
		r.text("odata.type", r.account+"."+r.table)
		r.text("odata.id", r.base+"/"+link)
	}
	if r.level != noMetadata {
		r.etag()
	}
	if r.level == fullMetadata {
		r.text("odata.editLink", link)
	}
	if r.columns.includes(odata.PartitionKey) {
		r.text(odata.PartitionKey, row.PartitionKey)
	}
	if r.columns.includes(odata.RowKey) {
		r.text(odata.RowKey, row.RowKey)
	}
	if r.columns.includes(odata.Timestamp) {
		if r.level == fullMetadata {
			r.b = append(r.b, `"Timestamp@odata.type":"Edm.DateTime",`...)
		}
		r.b = append(r.b, `"Timestamp":"`...)
		r.b = append(r.b, r.stamp...)
		r.b = append(r.b, `",`...)
	}
	r.properties(row.Properties)
	if last := len(r.b) - 1; r.b[last] == ',' {
		r.b = r.b[:last]
	}
}

func (r *renderer) properties(p entity.Properties) {
	switch {
	case r.columns.names != nil:
		r.selected(p)
	case p == "":
	case r.level != noMetadata:
		r.b = append(r.b, p...)
		r.b = append(r.b, ',')
	default:
		for q := range p.All() {
			r.property(q)
		}
	}
}

// selected appends the selected properties. A property that the row lacks is null.
func (r *renderer) selected(p entity.Properties) {
	names := r.columns.names
	r.chosen = slices.Grow(r.chosen[:0], len(names))[:len(names)]
	clear(r.chosen)
	for q := range p.All() {
		if i, found := slices.BinarySearch(names, q.Name); found {
			r.chosen[i] = q
		}
	}
	for i, name := range names {
		switch {
		case r.chosen[i].Name != "":
			r.property(r.chosen[i])
		case name != odata.PartitionKey && name != odata.RowKey && name != odata.Timestamp:
			r.b, _ = jsontext.AppendQuote(r.b, name)
			r.b = append(r.b, ":null,"...)
		}
	}
}

func (r *renderer) property(q entity.Property) {
	if r.level == noMetadata {
		r.b = append(r.b, '"')
		r.b = append(r.b, q.Name...)
		r.b = append(r.b, `":`...)
		r.b = append(r.b, q.JSON...)
	} else {
		r.b = append(r.b, q.Full...)
	}
	r.b = append(r.b, ',')
}

func (r *renderer) text(name, value string) {
	r.b = append(r.b, '"')
	r.b = append(r.b, name...)
	r.b = append(r.b, `":`...)
	r.b, _ = jsontext.AppendQuote(r.b, value)
	r.b = append(r.b, ',')
}

// etag appends the row's ETag, which equals [table.Row.ETag].
func (r *renderer) etag() {
	r.b = append(r.b, `"odata.etag":"W/\"datetime'`...)
	for _, c := range r.stamp {
		if c == ':' {
			r.b = append(r.b, "%3A"...)
		} else {
			r.b = append(r.b, c)
		}
	}
	r.b = append(r.b, `'\"",`...)
}

// entityLink returns the row's URL, relative to the account's URL.
func entityLink(name string, row table.Row) string {
	return name + "(PartitionKey='" + pathKey(row.PartitionKey) + "',RowKey='" + pathKey(row.RowKey) + "')"
}

// pathKey returns a key as a part of a URL's path. Like the service, it doubles quotes and does not percent-encode
// them.
func pathKey(s string) string {
	return strings.ReplaceAll(url.PathEscape(s), "%27", "''")
}
