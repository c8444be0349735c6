package emulator

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/emulator/entity"
	"tablesweep/internal/emulator/table"
	"tablesweep/internal/odata"
)

// metadata is how much OData metadata an answer carries.
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

// metadataLevel returns the level that $format or else Accept asks for.
func metadataLevel(c *call) metadata {
	wanted := c.URL.Query().Get("$format")
	if wanted == "" {
		wanted = c.Header.Get("Accept")
	}
	switch {
	case strings.Contains(wanted, "odata=nometadata"):
		return noMetadata
	case strings.Contains(wanted, "odata=fullmetadata"):
		return fullMetadata
	}
	return minimalMetadata
}

// renderer writes rows as JSON.
type renderer struct {
	level   metadata
	columns map[string]bool // nil for all
	base    string          // the account's URL
	account string
	table   string
	b       []byte
	stamp   []byte // scratch
}

func (s tableService) renderer(c *call, name string, columns map[string]bool) *renderer {
	return &renderer{level: metadataLevel(c), columns: columns, base: s.base(c), account: s.account, table: name}
}

// page renders a query's answer.
func (s tableService) page(c *call, name string, rows []table.Row, columns map[string]bool) response {
	r := s.renderer(c, name, columns)
	r.b = s.buffer()
	r.b = append(r.b, '{')
	if r.level != noMetadata {
		r.b = append(r.b, `"odata.metadata":"`+r.base+`/$metadata#`+name+`",`...)
	}
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

// row renders one row as an answer of its own.
func (s tableService) row(c *call, name string, row table.Row, columns map[string]bool, status int) response {
	r := s.renderer(c, name, columns)
	r.b = append(r.b, '{')
	if r.level != noMetadata {
		r.b = append(r.b, `"odata.metadata":"`+r.base+`/$metadata#`+name+`/@Element",`...)
	}
	r.row(row)
	r.b = append(r.b, '}')
	answer := response{status: status, contentType: r.level.contentType(), body: r.b}
	answer.set("ETag", row.ETag())
	return answer
}

// row appends the row's members.
func (r *renderer) row(row table.Row) {
	r.stamp = odata.AppendDateTime(r.stamp[:0], row.Ticks)
	if r.level == fullMetadata {
		link := entityLink(r.table, row)
		r.text("odata.type", r.account+"."+r.table)
		r.text("odata.id", r.base+"/"+link)
		r.text("odata.editLink", link)
	}
	if r.level != noMetadata {
		r.etag()
	}
	if r.wants(odata.PartitionKey) {
		r.text(odata.PartitionKey, row.PartitionKey)
	}
	if r.wants(odata.RowKey) {
		r.text(odata.RowKey, row.RowKey)
	}
	if r.wants(odata.Timestamp) {
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

// properties appends the custom properties, and a comma after the last.
func (r *renderer) properties(p entity.Properties) {
	if p == "" {
		return
	}
	if r.columns == nil && r.level != noMetadata {
		r.b = append(r.b, p...)
		r.b = append(r.b, ',')
		return
	}
	for q := range p.All() {
		switch {
		case !r.wants(q.Name):
			continue
		case r.level == noMetadata:
			r.b = append(r.b, '"')
			r.b = append(r.b, q.Name...)
			r.b = append(r.b, `":`...)
			r.b = append(r.b, q.JSON...)
		default:
			r.b = append(r.b, q.Full...)
		}
		r.b = append(r.b, ',')
	}
}

func (r *renderer) wants(name string) bool { return r.columns == nil || r.columns[name] }

// text appends a string member and a comma.
func (r *renderer) text(name, value string) {
	r.b = append(r.b, '"')
	r.b = append(r.b, name...)
	r.b = append(r.b, `":`...)
	r.b, _ = jsontext.AppendQuote(r.b, value)
	r.b = append(r.b, ',')
}

// etag appends the ETag, which [table.Row.ETag] also makes, from the stamp.
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

// entityLink returns the row's URL, relative to the account's.
func entityLink(name string, row table.Row) string {
	return name + "(PartitionKey='" + pathKey(row.PartitionKey) + "',RowKey='" + pathKey(row.RowKey) + "')"
}

// pathKey writes a key as it stands in a URL's path.
func pathKey(s string) string { return url.PathEscape(strings.ReplaceAll(s, "'", "''")) }
