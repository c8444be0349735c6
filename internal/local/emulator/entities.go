package emulator

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/key/odata"
	"tablesweep/internal/local/emulator/entity"
	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/local/emulator/refusal"
	"tablesweep/internal/local/emulator/table"
)

// The service's limits on queries.
// https://learn.microsoft.com/rest/api/storageservices/querying-tables-and-entities
const (
	maxTop         = 1000
	maxComparisons = 15
)

// queryOptions are the OData options of a query.
type queryOptions struct {
	table.Query
	columns columns
}

func parseQueryOptions(c *call) (queryOptions, error) {
	values := c.query
	q := queryOptions{Query: table.Query{Top: maxTop}, columns: parseColumns(values)}
	for name := range values {
		if strings.HasPrefix(name, "$") && !slices.Contains([]string{"$filter", "$format", "$select", "$top"}, name) {
			return q, notImplemented()
		}
	}
	if text := values.Get("$filter"); text != "" {
		filter, err := odata.Parse(text)
		if err != nil {
			return q, invalidInput(err.Error())
		}
		if filter.Comparisons() > maxComparisons {
			return q, invalidInput("the filter has more than 15 comparisons")
		}
		q.Filter = filter
	}
	if text := values.Get("$top"); text != "" {
		top, err := strconv.Atoi(text)
		if err != nil || top < 0 || top > maxTop {
			return q, invalidInput("$top must be from 0 to 1000")
		}
		q.Top = top
	}
	return q, nil
}

// token is a continuation token: the key at which to continue, and the number of previous tokens with this key.
// Consecutive empty pages continue at the same key, so only the number distinguishes their tokens.
type token struct {
	key  key.Key
	hops int
}

const (
	nextPartition = "x-ms-continuation-NextPartitionKey"
	nextRow       = "x-ms-continuation-NextRowKey"
)

// headers returns the token's two parts. At the start of a partition, the second part is empty, as in some of the
// service's tokens.
func (t token) headers() (partition, row string) {
	partition = encodeToken(t.key.Partition + "\x00" + strconv.Itoa(t.hops))
	if t.key.Row != "" {
		row = encodeToken(t.key.Row)
	}
	return partition, row
}

func parseToken(partition, row string) (token, error) {
	if partition == "" {
		return token{}, nil
	}
	p, ok := decodeToken(partition)
	p, hops, isToken := strings.Cut(p, "\x00")
	n, err := strconv.Atoi(hops)
	r, rowOK := decodeToken(row)
	if !ok || !isToken || err != nil || !rowOK && row != "" {
		return token{}, badToken()
	}
	return token{key.Key{Partition: p, Row: r}, n}, nil
}

func badToken() error {
	return invalidInput("the continuation token does not have the form of this service's tokens")
}

func encodeToken(s string) string {
	encoded := base64.RawURLEncoding.EncodeToString([]byte(s))
	return "1!" + strconv.Itoa(len(encoded)) + "!" + encoded
}

func decodeToken(s string) (string, bool) {
	parts := strings.SplitN(s, "!", 3)
	if len(parts) != 3 || parts[0] != "1" || parts[1] != strconv.Itoa(len(parts[2])) {
		return "", false
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[2])
	return string(b), err == nil
}

// onTable returns a function that finds the table and passes it to `do`.
func (s tableService) onTable(name string, do func(*table.Table, time.Time, fault.Plan) (response, error)) run {
	return func(now time.Time, plan fault.Plan) (response, error) {
		stored, err := s.tables.Get(name, now)
		if err != nil {
			return response{}, err
		}
		return do(stored, now, plan)
	}
}

func (s tableService) parseQuery(c *call, t target) (operation, error) {
	q, err := parseQueryOptions(c)
	if err != nil {
		return operation{}, err
	}
	values := c.query
	at, err := parseToken(values.Get("NextPartitionKey"), values.Get("NextRowKey"))
	if err != nil {
		return operation{}, err
	}
	q.From = at.key
	op := operation{Request: fault.Request{
		Kind:  fault.Query,
		Table: t.resource,
		// The identity contains the token's key, but not token.hops. If a query continues after an empty page, and begins at
		// the same key as the query before it, both have the same identity, so the second counts as a retry of the first.
		Identity: strings.Join([]string{"query " + t.resource, values.Get("$filter"), values.Get("$select"), values.Get("$top"), at.key.Partition, at.key.Row}, "\x00"),
	}}
	if q.Filter != nil {
		if r := q.Filter.Range(); r.Partition != nil {
			op.Partition, op.Confined = *r.Partition, true
		}
	}
	op.run = s.onTable(t.resource, func(stored *table.Table, now time.Time, plan fault.Plan) (response, error) {
		page := s.cutPage(stored.Query(q.Query), plan)
		s.counts.results(len(page.Rows), 0)
		s.injector.Load().Charge(now, op.Request, len(page.Rows))
		r := s.page(c, stored.Name(), page.Rows, q.columns)
		r.found = len(page.Rows)
		if page.More {
			next := token{key: page.Next}
			if next.key == at.key {
				next.hops = at.hops + 1
			}
			partition, row := next.headers()
			r.set(nextPartition, partition)
			if row != "" {
				r.set(nextRow, row)
			}
		}
		return r, nil
	})
	return op, nil
}

// cutPage shortens or empties a page as the plan requires. If the page has no rows to cut off, cutPage returns it
// unchanged.
func (s tableService) cutPage(page table.Answer, plan fault.Plan) table.Answer {
	keep := len(page.Rows)
	switch {
	case plan.Empty && keep > 0:
		keep = 0
		s.injector.Load().Fired(fault.EmptyPage)
	case plan.Short && keep > max(1, plan.ShortRows):
		if keep = plan.ShortRows; keep == 0 {
			keep = 1 + int(plan.ShortDraw%uint64(len(page.Rows)-1))
		}
		s.injector.Load().Fired(fault.ShortPage)
	default:
		return page
	}
	page.Next, page.More = page.Rows[keep].Key(), true
	page.Rows = page.Rows[:keep]
	return page
}

func (s tableService) parsePoint(c *call, t target) (operation, error) {
	q, err := parseQueryOptions(c)
	if err != nil {
		return operation{}, err
	}
	op := operation{Request: entityRequest(fault.Point, t.resource, t.key)}
	op.run = s.onTable(t.resource, func(stored *table.Table, now time.Time, _ fault.Plan) (response, error) {
		row, err := stored.Get(t.key)
		if err != nil {
			return response{}, err
		}
		return s.row(c, stored.Name(), row, q.columns, http.StatusOK), nil
	})
	return op, nil
}

func entityRequest(kind fault.Kind, name string, k key.Key) fault.Request {
	return fault.Request{
		Kind: kind, Table: name, Partition: k.Partition, Confined: true, Entities: 1,
		Identity: string(kind) + " " + name + "\x00" + k.Partition + "\x00" + k.Row,
	}
}

// write is one parsed write, alone or in a batch.
type write struct {
	kind fault.Kind
	table.Operation
	prefer string
}

// parseEntityWrite parses a write. An insert's keys come from the body, and the keys of other writes come from the
// path.
func parseEntityWrite(t target, p batchPart, d *entity.Decoder) (write, error) {
	w := write{prefer: p.prefer}
	w.Key, w.IfMatch = t.key, p.ifMatch
	if strings.HasPrefix(w.IfMatch, `w/"`) {
		w.IfMatch = "W" + w.IfMatch[1:]
	}
	switch p.method {
	case http.MethodPost:
		w.kind, w.Action = fault.Insert, table.Insert
	case http.MethodPut:
		w.kind, w.Action = fault.Update, table.Replace
	case http.MethodPatch, "MERGE":
		w.kind, w.Action = fault.Merge, table.Merge
	case http.MethodDelete:
		w.kind, w.Action = fault.Delete, table.Delete
	}
	switch {
	case w.kind == "" || t.named || t.keyed == (w.Action == table.Insert):
		return w, notImplemented()
	case w.IfMatch != "" && w.IfMatch != "*" && !strings.HasPrefix(w.IfMatch, `W/"`):
		return w, invalidInput("If-Match is not an ETag")
	case w.Action == table.Delete:
		if w.IfMatch == "" {
			return w, refusal.New("MissingRequiredHeader", "An HTTP header that's mandatory for this request is not specified: If-Match.")
		}
		return w, nil
	}
	if err := checkContentType(p.contentType); err != nil {
		return w, err
	}
	e, err := d.Decode(p.body)
	if err != nil {
		return w, err
	}
	w.Properties = e.Properties
	if w.Action == table.Insert {
		if !e.HasPartition || !e.HasRow {
			return w, refusal.New("PropertiesNeedValue", "The values are not specified for all properties in the entity: the keys are missing.")
		}
		w.Key, w.IfMatch = e.Key, ""
	}
	return w, nil
}

func (s tableService) parseWrite(c *call, t target) (operation, error) {
	part := batchPart{
		method: c.Method, ifMatch: c.Header.Get("If-Match"), prefer: c.Header.Get("Prefer"),
		contentType: c.Header.Get("Content-Type"), body: c.body,
	}
	w, err := parseEntityWrite(t, part, new(entity.Decoder))
	if err != nil {
		return operation{}, err
	}
	op := operation{Request: entityRequest(w.kind, t.resource, w.Key)}
	op.run = s.onTable(t.resource, func(stored *table.Table, now time.Time, _ fault.Plan) (response, error) {
		rows, err := stored.Apply(now, []table.Operation{w.Operation})
		if err != nil {
			return response{}, err
		}
		return s.written(c, stored.Name(), w, rows[0]), nil
	})
	return op, nil
}

// written returns the answer to a successful write.
func (s tableService) written(c *call, name string, w write, row table.Row) response {
	var r response
	switch w.Action {
	case table.Delete:
		return response{status: http.StatusNoContent}
	case table.Insert:
		r = s.preferred(c, w.prefer, s.base(c)+"/"+entityLink(name, row), func(level metadata) []byte {
			return s.row(c, name, row, columns{}, http.StatusCreated).body
		})
	default:
		r = response{status: http.StatusNoContent}
	}
	r.set("ETag", row.ETag())
	return r
}
