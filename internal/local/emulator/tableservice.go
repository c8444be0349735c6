package emulator

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/key"
	"tablesweep/internal/key/odata"
	"tablesweep/internal/local/emulator/entity"
	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/local/emulator/refusal"
	"tablesweep/internal/local/emulator/table"
)

// tableService is the part of the pipeline for the Table service.
type tableService struct{ *Emulator }

// maxBody is the limit on an entity group transaction, the largest request of all.
// https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions
func (s tableService) maxBody() int64 { return 4 << 20 }

func (s tableService) headers(h http.Header, _ *call, _ int) {
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
}

func (s tableService) failure(c *call, p *refusal.Error) response {
	return s.refused(c, p, metadataLevel(c), c.Method, c.Header.Get("Prefer"))
}

// refused returns the answer to a failed request, alone or in a batch.
func (s tableService) refused(c *call, p *refusal.Error, level metadata, method, prefer string) response {
	b, _ := jsontext.AppendQuote([]byte(`{"odata.error":{"code":`), p.Code)
	b = append(b, `,"message":{"lang":"en-US","value":`...)
	b, _ = jsontext.AppendQuote(b, p.Message+c.trace(time.Now()))
	r := response{status: p.Status(), contentType: level.contentType(), body: append(b, `}}}`...)}
	if method == http.MethodPost && prefer != "" {
		r.set(preferenceApplied, prefer)
	}
	return r
}

// preferenceApplied is the name of a header. If a response has this header, it must be the first in response.header,
// because the code that writes answers to batches looks for it only there.
const preferenceApplied = "Preference-Applied"

// method returns a request's method. A POST may tunnel another method, as in older .NET SDKs.
func method(sent, tunneled string) string {
	tunnels := []string{"MERGE", http.MethodPatch, http.MethodPut, http.MethodDelete}
	if sent == http.MethodPost && slices.Contains(tunnels, tunneled) {
		return tunneled
	}
	return sent
}

func (s tableService) parse(c *call) (operation, error) {
	c.Method = method(c.Method, c.Header.Get("X-HTTP-Method"))
	if c.query.Has("comp") || c.path == "" || c.path == "/" {
		return operation{}, notImplemented()
	}
	if c.path == "/$batch" {
		if c.Method != http.MethodPost {
			return operation{}, wrongVerb(c)
		}
		return s.parseBatch(c)
	}
	if format := formatRequested(c); strings.Contains(format, "application/atom+xml") && !strings.Contains(format, "json") && !strings.Contains(format, "*/*") {
		return operation{}, noAtom()
	}
	t, err := parseTarget(c.path)
	switch {
	case err != nil:
		return operation{}, err
	case strings.EqualFold(t.resource, "Tables"):
		return s.parseTables(c, t)
	case t.named:
		return s.parseNamed(t)
	case c.Method == http.MethodGet && t.keyed:
		return s.parsePoint(c, t)
	case c.Method == http.MethodGet:
		return s.parseQuery(c, t)
	}
	return s.parseWrite(c, t)
}

func notImplemented() error {
	return refusal.New("NotImplemented", "The requested operation is not implemented on the specified resource.")
}

func wrongVerb(c *call) error {
	return refusal.New("UnsupportedHttpVerb", "The resource doesn't support the specified HTTP verb "+c.Method+".")
}

func invalidInput(why string) error {
	return refusal.New("InvalidInput", "One of the request inputs is not valid: "+why+".")
}

func noAtom() error { return refusal.New("AtomFormatNotSupported", "Atom format is not supported.") }

// checkContentType refuses bodies whose content type is not JSON.
func checkContentType(contentType string) error {
	const json = "application/json"
	mediaType, _, _ := strings.Cut(contentType, ";")
	switch mediaType = strings.TrimSpace(mediaType); {
	case strings.EqualFold(mediaType, json):
		return nil
	case strings.EqualFold(mediaType, "application/atom+xml"):
		return noAtom()
	}
	return refusal.New("MediaTypeNotSupported", "The media type provided in the Content-Type header is not supported: "+strconv.Quote(contentType)+".")
}

// target is a parsed path: /resource, /resource(), /resource('name') or /resource(PartitionKey='…',RowKey='…').
type target struct {
	resource string
	name     string // the name in resource('name'); "" unless the field `named` is true
	named    bool
	key      key.Key // the key in resource(PartitionKey='…',RowKey='…'); empty unless the field `keyed` is true
	keyed    bool
}

func parseTarget(path string) (target, error) {
	resource, args, hasArgs := strings.Cut(strings.TrimPrefix(path, "/"), "(")
	t := target{resource: resource}
	if strings.Contains(resource, "/") {
		return t, invalidInput("the path names no table")
	}
	if !hasArgs || args == ")" {
		return t, nil
	}
	args, closed := strings.CutSuffix(args, ")")
	if !closed {
		return t, invalidInput("the path's parenthesis is not closed")
	}
	if name, rest, ok := odata.CutQuoted(args); ok && rest == "" {
		t.name, t.named = name, true
		return t, nil
	}
	t.keyed = true
	var err error
	if t.key, err = parseKey(args); err != nil {
		return t, err
	}
	return t, nil
}

// parseKey parses PartitionKey='…',RowKey='…', in either order.
func parseKey(args string) (key.Key, error) {
	keys := make(map[string]string, 2)
	for {
		name, rest, _ := strings.Cut(args, "=")
		value, rest, ok := odata.CutQuoted(rest)
		if !ok {
			return key.Key{}, invalidInput("a key in the path is not quoted")
		}
		name = strings.TrimSpace(name)
		if err := entity.CheckKey(name, value); err != nil {
			return key.Key{}, err
		}
		keys[name] = value
		if rest == "" {
			break
		}
		if args, ok = strings.CutPrefix(rest, ","); !ok {
			return key.Key{}, invalidInput("a quote in a key of the path is not doubled")
		}
	}
	p, hasPartition := keys[odata.PartitionKey]
	r, hasRow := keys[odata.RowKey]
	if len(keys) != 2 || !hasPartition || !hasRow {
		return key.Key{}, invalidInput("the path needs PartitionKey and RowKey")
	}
	return key.Key{Partition: p, Row: r}, nil
}

// parseNamed returns an operation that refuses the path /resource('name'), because the path of a row needs two keys.
func (s tableService) parseNamed(t target) (operation, error) {
	return operation{
		Request: fault.Request{Kind: fault.Query, Table: t.resource},
		run: s.onTable(t.resource, func(*table.Table, time.Time, fault.Plan) (response, error) {
			return response{}, invalidInput("the path needs PartitionKey and RowKey")
		}),
	}, nil
}

func (s tableService) parseTables(c *call, t target) (operation, error) {
	op := operation{Request: fault.Request{Kind: fault.Tables, Table: t.name, Entities: 1, Identity: c.Method + " tables " + t.name}}
	switch {
	case t.keyed:
		return op, invalidInput("a table is named by Tables('name')")
	case c.Method == http.MethodPost && !t.named:
		if err := checkContentType(c.Header.Get("Content-Type")); err != nil {
			return op, err
		}
		var body struct{ TableName string }
		if err := json.Unmarshal(c.body, &body); err != nil {
			return op, invalidInput("the body is not a JSON object with a TableName")
		}
		op.Table = body.TableName
		op.Identity += body.TableName
		op.run = func(now time.Time, _ fault.Plan) (response, error) {
			created, err := s.tables.Create(body.TableName, now)
			if err != nil {
				return response{}, err
			}
			location := s.base(c) + "/Tables('" + created.Name() + "')"
			return s.preferred(c, c.Header.Get("Prefer"), location, func(level metadata) []byte {
				return s.tableEntry(c, created.Name(), level, true)
			}), nil
		}
	case c.Method == http.MethodDelete && t.named:
		op.run = func(now time.Time, plan fault.Plan) (response, error) {
			if err := s.tables.Delete(t.name, now, plan.Deletion); err != nil {
				return response{}, err
			}
			s.deleting(plan)
			return response{status: http.StatusNoContent}, nil
		}
	case c.Method == http.MethodGet && t.named:
		op.run = func(now time.Time, _ fault.Plan) (response, error) {
			stored, err := s.tables.Get(t.name, now)
			if err != nil {
				return response{}, refusal.New("ResourceNotFound", "The specified resource does not exist.")
			}
			level := metadataLevel(c)
			return response{status: http.StatusOK, contentType: level.contentType(), body: s.tableEntry(c, stored.Name(), level, true)}, nil
		}
	case c.Method == http.MethodGet:
		return s.parseTableQuery(c, op)
	default:
		return op, wrongVerb(c)
	}
	return op, nil
}

// preferred answers a request that has created a resource. The answer contains the resource, unless the client's header Prefer asks for an answer
// without content. prefer is the value of this header. location is the resource's URL.
func (s tableService) preferred(c *call, prefer, location string, render func(metadata) []byte) response {
	if prefer == "return-no-content" {
		r := response{status: http.StatusNoContent}
		r.set(preferenceApplied, prefer)
		r.set("Location", location)
		r.set("DataServiceId", location)
		return r
	}
	level := metadataLevel(c)
	r := response{status: http.StatusCreated, contentType: level.contentType(), body: render(level)}
	if prefer != "" {
		r.set(preferenceApplied, prefer)
	}
	r.set("Location", location)
	return r
}

// nameRow is a table's name in the form of a row, for filters.
type nameRow string

func (n nameRow) Property(name string) (odata.Value, bool) {
	return odata.Value{Type: odata.String, Text: string(n)}, name == "TableName"
}

const nextTable = "x-ms-continuation-NextTableName"

func (s tableService) parseTableQuery(c *call, op operation) (operation, error) {
	q, err := parseQueryOptions(c)
	if err != nil {
		return op, err
	}
	from, ok := "", true
	if token := c.query.Get("NextTableName"); token != "" {
		from, ok = decodeToken(token)
	}
	if !ok {
		return op, badToken()
	}
	op.Identity += c.URL.RawQuery
	op.run = func(time.Time, fault.Plan) (response, error) {
		level := metadataLevel(c)
		r := response{status: http.StatusOK, contentType: level.contentType()}
		if level != noMetadata {
			r.body = append(r.body, `{"odata.metadata":"`+s.base(c)+`/$metadata#Tables","value":[`...)
		} else {
			r.body = append(r.body, `{"value":[`...)
		}
		count := 0
		for _, name := range s.tables.Names() {
			if from != "" && strings.ToLower(name) < strings.ToLower(from) ||
				q.Filter != nil && !q.Filter.Match(nameRow(name)) {
				continue
			}
			if count == q.Top {
				if q.Top > 0 {
					r.set(nextTable, encodeToken(name))
				}
				break
			}
			if count++; count > 1 {
				r.body = append(r.body, ',')
			}
			r.body = append(r.body, s.tableEntry(c, name, level, false)...)
		}
		r.body = append(r.body, `]}`...)
		return r, nil
	}
	return op, nil
}

// tableEntry renders a table: as a whole answer if `alone` is true, otherwise as an item of the list of tables.
func (s tableService) tableEntry(c *call, name string, level metadata, alone bool) []byte {
	b := []byte{'{'}
	if alone && level != noMetadata {
		b = append(b, `"odata.metadata":"`+s.base(c)+`/$metadata#Tables/@Element",`...)
	}
	if level == fullMetadata {
		b = append(b, `"odata.type":"`+s.account+`.Tables","odata.id":"`+s.base(c)+`/Tables('`+name+`')","odata.editLink":"Tables('`+name+`')",`...)
	}
	return append(b, `"TableName":"`+name+`"}`...)
}
