package storage

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"tablesweep/internal/key"
)

// Limits of an entity group transaction. (Microsoft Learn, "Performing entity
// group transactions")
const (
	MaxBatchRows  = 100
	MaxBatchBytes = 4 << 20
)

// OpKind is what an [Op] does.
type OpKind int

// What a batch can do to a row.
const (
	Insert  OpKind = iota // fails with EntityAlreadyExists
	Replace               // writes the whole row, whether it exists or not
	Merge                 // writes the given properties, whether the row exists or not
	Delete                // fails with ResourceNotFound
)

// Op is one operation of a batch.
type Op struct {
	Kind   OpKind
	Entity Entity // for Delete, just the key
	// IfMatch is the ETag that the row must have for Replace, Merge and Delete,
	// "*" for any. If it is set, the row must exist.
	IfMatch string
}

// Batch is an entity group transaction in the making: operations on rows of one
// partition, each row once, which succeed or fail together. It knows the
// service's limits.
type Batch struct {
	table    *Table
	boundary string
	body     bytes.Buffer
	rows     int
	deletes  bool // all operations are Delete
}

// Batch starts a transaction on the table.
func (t *Table) Batch() *Batch {
	b := &Batch{table: t, boundary: rand.Text()}
	fmt.Fprintf(&b.body, "--batch_%s\r\nContent-Type: multipart/mixed; boundary=changeset_%s\r\n\r\n", b.boundary, b.boundary)
	return b
}

// Rows returns the number of operations added so far.
func (b *Batch) Rows() int { return b.rows }

// Add appends an operation. It reports false, and adds nothing, if the
// transaction would grow beyond what the service takes; a first operation is
// always added, so that an entity too large is refused by the service with its
// reason.
func (b *Batch) Add(op Op) bool {
	before := b.body.Len()
	b.append(op)
	if b.rows > 0 && (b.rows == MaxBatchRows || b.body.Len() > MaxBatchBytes-1024) {
		b.body.Truncate(before)
		return false
	}
	b.deletes = op.Kind == Delete && (b.rows == 0 || b.deletes)
	b.rows++
	return true
}

func (b *Batch) append(op Op) {
	fmt.Fprintf(&b.body, "--changeset_%s\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n", b.boundary)
	method, target := "POST", b.table.account.connection.tableURL+"/"+b.table.name
	switch op.Kind {
	case Replace:
		method = "PUT"
	case Merge:
		method = "PATCH"
	case Delete:
		method = "DELETE"
	}
	if op.Kind != Insert {
		target += keyPath(op.Entity.Key)
	}
	fmt.Fprintf(&b.body, "%s %s HTTP/1.1\r\nAccept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\n", method, target)
	if op.Kind == Insert {
		b.body.WriteString("Prefer: return-no-content\r\n")
	}
	if op.Kind == Delete && op.IfMatch == "" {
		op.IfMatch = "*"
	}
	if op.IfMatch != "" {
		fmt.Fprintf(&b.body, "If-Match: %s\r\n", op.IfMatch)
	}
	if op.Kind == Delete {
		b.body.WriteString("\r\n\r\n")
		return
	}
	b.body.WriteString("Content-Type: application/json\r\n\r\n")
	b.body.Write(op.Entity.AppendJSON(b.body.AvailableBuffer()))
	b.body.WriteString("\r\n")
}

// keyPath writes a key as a URL's segment: quotes doubled, and everything but
// letters, digits and a few marks escaped.
func keyPath(k key.Key) string {
	return "(PartitionKey=" + escape(literal(k.Partition)) + ",RowKey=" + escape(literal(k.Row)) + ")"
}

func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// Do sends the transaction. If an operation is refused, none is applied, and
// the [Error] has its Index. An empty transaction sends nothing.
func (b *Batch) Do(ctx context.Context) error {
	if b.rows == 0 {
		return nil
	}
	fmt.Fprintf(&b.body, "--changeset_%s--\r\n--batch_%s--\r\n", b.boundary, b.boundary)
	x := &exchange{
		contentType: "multipart/mixed; boundary=batch_" + b.boundary,
		body:        b.body.Bytes(),
		failed:      -1,
	}
	_, err := b.table.client.SubmitTransaction(x.in(ctx), carrier, nil)
	if b.deletes {
		return wrap("delete from table "+b.table.name, x, err)
	}
	return wrap("write to table "+b.table.name, x, err)
}

// carrier is a transaction that the SDK takes; its bytes are replaced on the way.
var carrier = []aztables.TransactionAction{{
	ActionType: aztables.TransactionTypeAdd,
	Entity:     []byte(`{"PartitionKey":"p","RowKey":"r"}`),
}}

// Write sends the operations, all on one partition, as one transaction. There must
// not be more than the service takes.
func (t *Table) Write(ctx context.Context, ops ...Op) error {
	b := t.Batch()
	for _, op := range ops {
		if !b.Add(op) {
			return fmt.Errorf("write to table %s: a transaction of %d rows is too large", t.name, len(ops))
		}
	}
	return b.Do(ctx)
}
