package emulator

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/emulator/entity"
	"tablesweep/internal/emulator/fault"
	"tablesweep/internal/emulator/problem"
	"tablesweep/internal/emulator/table"
	"tablesweep/internal/key"
)

// maxOperations is the service's limit on an entity group transaction.
// https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions
const maxOperations = 100

// batch is an understood entity group transaction. If it can't be carried out,
// refused says why.
type batch struct {
	table   string
	parts   []batchPart
	writes  []write // of the parts before the refused one
	refused *table.OperationError
}

func (s tableService) parseBatch(c *call) (operation, error) {
	parts, err := parseBatchBody(c.Header.Get("Content-Type"), c.body)
	if err != nil {
		return operation{}, err
	}
	if len(parts) == 0 {
		return operation{}, invalidInput("the batch has no operations")
	}
	if len(parts) > maxOperations {
		return operation{}, problem.New(problem.InvalidInput, "The batch request operation exceeds the maximum 100 changes per change set.")
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

// understand reads the operations up to the first that is wrong.
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
	path, ok := strings.CutPrefix(p.path, "/"+s.account+"/")
	if !ok {
		return w, "", invalidInput("an operation is on another account")
	}
	t, err := parseTarget(path)
	if err != nil {
		return w, "", err
	}
	w, err = parseEntityWrite(t, p, d)
	return w, t.resource, err
}

// check holds an operation to the rules that bind it to the ones before it.
func (b *batch) check(name string, w write, duplicate bool) error {
	switch {
	case !strings.EqualFold(name, b.table):
		return invalidInput("all operations of a batch must be on the same table")
	case len(b.writes) > 0 && w.Key.Partition != b.writes[0].Key.Partition:
		return problem.New(problem.CommandsInBatchActOnDifferentPartitions, "All commands in a batch must operate on same entity group.")
	case duplicate:
		return problem.New(problem.InvalidDuplicateRow, "A command with RowKey '"+w.Key.Row+"' is already present in the batch. An entity can appear only once in a batch.")
	}
	return nil
}

// runBatch carries the batch out. A refused operation is not an error of the whole
// request: the answer is 202, and its only part tells the error.
func (s tableService) runBatch(c *call, b batch, now time.Time) (response, error) {
	out := s.newBatchAnswer(c)
	if b.refused != nil {
		return out.refused(s, c, b.parts, b.refused), nil
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
	boundary string // of the batch; the change set's is made of it too
	b        []byte
}

func (s tableService) newBatchAnswer(c *call) *batchAnswer {
	a := &batchAnswer{boundary: "response_" + c.id, b: s.buffer()}
	a.b = append(a.b, "--batch"+a.boundary+"\r\nContent-Type: multipart/mixed; boundary=changeset"+a.boundary+"\r\n\r\n"...)
	return a
}

// part appends the answer to one operation, under the id that the client gave it.
func (a *batchAnswer) part(r response, contentID string) {
	a.b = append(a.b, "--changeset"...)
	a.b = append(a.b, a.boundary...)
	a.b = append(a.b, "\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 "...)
	a.b = strconv.AppendInt(a.b, int64(r.status), 10)
	a.b = append(a.b, ' ')
	a.b = append(a.b, http.StatusText(r.status)...)
	a.b = append(a.b, "\r\nDataServiceVersion: 3.0;\r\n"...)
	if contentID != "" {
		r.set("Content-ID", contentID)
	}
	if r.contentType != "" {
		r.set("Content-Type", r.contentType)
	}
	for _, pair := range r.header {
		a.b = append(a.b, pair[0]...)
		a.b = append(a.b, ": "...)
		a.b = append(a.b, pair[1]...)
		a.b = append(a.b, "\r\n"...)
	}
	a.b = append(a.b, "\r\n"...)
	a.b = append(a.b, r.body...)
	a.b = append(a.b, "\r\n"...)
}

func (a *batchAnswer) refused(s tableService, c *call, parts []batchPart, e *table.OperationError) response {
	var p *problem.Error
	if !errors.As(e.Err, &p) {
		panic("emulator: internal error: " + e.Error())
	}
	a.part(s.failure(c, problem.New(p.Code, strconv.Itoa(e.Index)+":"+p.Message)), parts[e.Index].contentID)
	return a.end()
}

func (a *batchAnswer) end() response {
	a.b = append(a.b, "--changeset"+a.boundary+"--\r\n--batch"+a.boundary+"--\r\n"...)
	return response{
		status:      http.StatusAccepted,
		contentType: "multipart/mixed; boundary=batch" + a.boundary,
		body:        a.b,
		pooled:      true,
	}
}
