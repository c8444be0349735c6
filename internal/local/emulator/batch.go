package emulator

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator/entity"
	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/local/emulator/refusal"
	"tablesweep/internal/local/emulator/table"
)

// maxOperations is the service's limit on an entity group transaction.
// https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions
const maxOperations = 100

// batch is a parsed entity group transaction. If the batch cannot be carried out, the field `refused` contains the
// reason.
type batch struct {
	table   string
	parts   []batchPart
	writes  []write // the parsed parts; if a part is refused, only the parts before it
	refused *table.OperationError
}

func (s tableService) parseBatch(c *call) (operation, error) {
	parts, isQuery, err := parseBatchBody(c.Header.Get("Content-Type"), c.body)
	if err != nil {
		return operation{}, err
	}
	if isQuery {
		return s.parseBatchQuery(c, parts[0])
	}
	if len(parts) > maxOperations {
		return operation{}, refusal.New("InvalidInput", "The batch request operation exceeds the maximum 100 changes per change set.")
	}
	b := s.understand(parts)
	op := operation{Request: fault.Request{Kind: fault.Batch, Table: b.table, Entities: len(parts)}}
	identity := []string{"batch " + b.table}
	for _, w := range b.writes {
		identity = append(identity, string(w.kind), w.Key.Partition, w.Key.Row)
	}
	op.Identity = strings.Join(identity, "\x00")
	if len(b.writes) > 0 {
		op.Partition, op.Confined = b.writes[0].Key.Partition, true
	}
	op.run = func(now time.Time, _ fault.Plan) (response, error) { return s.runBatch(c, b, now) }
	return op, nil
}

// parseBatchQuery parses a batch that contains a query. The query is carried out as if it were sent alone. Its
// answer has the form of a batch's answer.
func (s tableService) parseBatchQuery(c *call, p batchPart) (operation, error) {
	inner := &call{
		Request: &http.Request{Host: c.Host, URL: &url.URL{Path: p.path, RawQuery: p.query}, Header: http.Header{"Accept": {p.accept}}},
		Method:  p.method, path: s.batchPath(p), id: c.id,
	}
	inner.query = inner.URL.Query()
	op, err := s.parse(inner)
	run := op.run
	if err != nil {
		run = func(time.Time, fault.Plan) (response, error) { return response{}, err }
	}
	op.run = func(now time.Time, plan fault.Plan) (response, error) {
		out := s.newBatchAnswer(c, false)
		answer, err := run(now, plan)
		if err != nil {
			return out.refused(s, c, []batchPart{p}, &table.OperationError{Index: 0, Err: err}), nil
		}
		out.part(answer, p.contentID)
		if answer.pooled {
			s.recycle(answer.body)
		}
		return out.end(), nil
	}
	return op, nil
}

// batchPath returns an operation's path without the account. Paths from Python's client already lack the account.
func (s tableService) batchPath(p batchPart) string {
	if path, ok := strings.CutPrefix(p.path, "/"+s.account+"/"); ok {
		return "/" + path
	}
	return p.path
}

// understand parses the operations. It stops at the first invalid operation.
func (s tableService) understand(parts []batchPart) batch {
	b := batch{parts: parts, writes: make([]write, 0, len(parts))}
	seen := make(map[key.Key]bool, len(parts))
	var d entity.Decoder
	for i, p := range parts {
		w, name, err := s.understandPart(p, &d)
		if err == nil {
			if i == 0 {
				b.table = name
			}
			err = b.check(name, w, seen[w.Key])
		}
		if err != nil {
			b.refused = &table.OperationError{Index: i, Err: err}
			break
		}
		seen[w.Key] = true
		b.writes = append(b.writes, w)
	}
	return b
}

func (s tableService) understandPart(p batchPart, d *entity.Decoder) (w write, name string, err error) {
	t, err := parseTarget(s.batchPath(p))
	if err != nil {
		return w, "", err
	}
	w, err = parseEntityWrite(t, p, d)
	return w, t.resource, err
}

// check refuses operations that conflict with earlier ones.
func (b *batch) check(name string, w write, duplicate bool) error {
	switch {
	case !strings.EqualFold(name, b.table):
		return invalidInput("all operations of a batch must be on the same table")
	case len(b.writes) > 0 && w.Key.Partition != b.writes[0].Key.Partition:
		return refusal.New("CommandsInBatchActOnDifferentPartitions", "All commands in a batch must operate on same entity group.")
	case duplicate:
		return refusal.New("InvalidDuplicateRow", "A command with RowKey '"+w.Key.Row+"' is already present in the batch. An entity can appear only once in a batch.")
	}
	return nil
}

// runBatch carries the batch out. If it refuses an operation, the answer still has status 202, and its only part contains the error.
func (s tableService) runBatch(c *call, b batch, now time.Time) (response, error) {
	out := s.newBatchAnswer(c, true)
	if b.refused != nil {
		return out.refused(s, c, b.parts, b.refused), nil
	}
	if len(b.parts) == 0 {
		return out.end(), nil
	}
	stored, err := s.tables.Get(b.table, now)
	if err != nil {
		return out.refused(s, c, b.parts, &table.OperationError{Index: 0, Err: err}), nil
	}
	operations := make([]table.Operation, len(b.writes))
	for i, w := range b.writes {
		operations[i] = w.Operation
	}
	rows, err := stored.Apply(now, operations)
	var refused *table.OperationError
	if errors.As(err, &refused) {
		return out.refused(s, c, b.parts, refused), nil
	}
	for i, w := range b.writes {
		out.part(s.written(c, stored.Name(), w, rows[i]), b.parts[i].contentID)
	}
	return out.end(), nil
}

// batchAnswer builds the multipart answer to a batch.
type batchAnswer struct {
	batch string // the batch's boundary
	parts string // the boundary between the parts: the change set's boundary or, without a change set, the batch's
	b     []byte
}

func (s tableService) newBatchAnswer(c *call, changeSet bool) *batchAnswer {
	a := &batchAnswer{batch: "batchresponse_" + c.id, b: s.buffer()}
	a.parts = a.batch
	if changeSet {
		a.parts = "changesetresponse_" + c.id
		a.b = append(a.b, "--"+a.batch+"\r\nContent-Type: multipart/mixed; boundary="+a.parts+"\r\n\r\n"...)
	}
	return a
}

// part appends the answer to one operation. contentID is the client's id of the operation.
func (a *batchAnswer) part(r response, contentID string) {
	a.b = append(a.b, "--"...)
	a.b = append(a.b, a.parts...)
	a.b = append(a.b, "\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 "...)
	a.b = strconv.AppendInt(a.b, int64(r.status), 10)
	a.b = append(a.b, ' ')
	a.b = append(a.b, http.StatusText(r.status)...)
	a.b = append(a.b, "\r\n"...)
	if contentID != "" {
		a.field("Content-ID", contentID)
	}
	a.b = append(a.b, "X-Content-Type-Options: nosniff\r\nCache-Control: no-cache\r\n"...)
	version := "3.0;"
	if len(r.header) > 0 && r.header[0][0] == preferenceApplied {
		a.field(preferenceApplied, r.header[0][1])
		r.header = r.header[1:]
	} else if r.status == http.StatusNoContent {
		version = "1.0;"
	}
	a.field("DataServiceVersion", version)
	if r.contentType != "" {
		a.field("Content-Type", r.contentType)
	}
	for _, pair := range r.header {
		a.field(pair[0], pair[1])
	}
	a.b = append(a.b, "\r\n"...)
	a.b = append(a.b, r.body...)
	a.b = append(a.b, "\r\n"...)
}

// field appends a line of a part's header.
func (a *batchAnswer) field(name, value string) {
	a.b = append(a.b, name...)
	a.b = append(a.b, ": "...)
	a.b = append(a.b, value...)
	a.b = append(a.b, "\r\n"...)
}

func (a *batchAnswer) refused(s tableService, c *call, parts []batchPart, e *table.OperationError) response {
	var p *refusal.Error
	if !errors.As(e.Err, &p) {
		panic("emulator: internal error: " + e.Error())
	}
	if len(parts) > 1 {
		p = refusal.New(p.Code, strconv.Itoa(e.Index)+":"+p.Message)
	}
	part := parts[e.Index]
	a.part(s.refused(c, p, parseLevel(part.accept), part.method, part.prefer), part.contentID)
	return a.end()
}

func (a *batchAnswer) end() response {
	if a.parts != a.batch {
		a.b = append(a.b, "--"+a.parts+"--\r\n"...)
	}
	a.b = append(a.b, "--"+a.batch+"--\r\n"...)
	return response{
		status:      http.StatusAccepted,
		contentType: "multipart/mixed; boundary=" + a.batch,
		body:        a.b,
		pooled:      true,
	}
}
