package storage

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"tablesweep/internal/key"
)

// Limits of an entity group transaction. (Microsoft Learn, "Performing entity
// group transactions")
const (
	MaxBatchRows  = 100
	maxBatchBytes = 4 << 20
)

// OpKind is the kind of change that an [Op] makes.
type OpKind int

// The kinds of operations.
const (
	Insert  OpKind = iota // fails with EntityAlreadyExists if the row exists
	Replace               // writes the whole row, whether it exists or not
	Merge                 // writes the given properties, whether the row exists or not
	Delete                // fails with ResourceNotFound if the row does not exist
)

// Op is one operation of a batch.
type Op struct {
	Kind OpKind
	Row  Row // for Delete, only the key
	// IfMatch, if set, is the ETag that the row must have for Replace, Merge and Delete; "*" stands for any existing row.
	IfMatch string
}

// Batch builds an entity group transaction: operations on rows of one partition, which succeed or fail together. A
// batch can contain a row only once, and can be sent only once.
type Batch struct {
	table    *Table
	boundary string
	body     *bytes.Buffer
	kinds    []OpKind // kinds of the operations
	alone    bool     // the operation must be sent as a transaction of its own
	first    request  // the first operation as a plain request
	target   extent   // the part of the body that contains the first operation's URL
	json     extent
	etag     string // see [Batch.ETag]
}

// extent is the beginning and end of a part of a text.
type extent struct{ from, to int }

// Batch starts a transaction on the table.
func (t *Table) Batch() *Batch {
	b := &Batch{table: t, boundary: rand.Text(), body: transactionBuffers.get()}
	b.write("--batch_", b.boundary, "\r\nContent-Type: multipart/mixed; boundary=changeset_", b.boundary, "\r\n\r\n")
	return b
}

// With replaces the options of the transaction, and returns the transaction. At first, the transaction has the table's options.
func (b *Batch) With(o RequestOptions) *Batch {
	b.table = b.table.With(o)
	return b
}

// ETag returns the new ETag of the only row that Do wrote, or "" if the answer has none.
func (b *Batch) ETag() string { return b.etag }

// Rows returns the number of operations added so far.
func (b *Batch) Rows() int { return len(b.kinds) }

// Add appends an operation, or returns false if the transaction would exceed the service's limits. It always appends
// the first operation. If the operation's row is too large, the service refuses the row and gives the reason.
func (b *Batch) Add(op Op) bool {
	before := b.body.Len()
	b.append(op)
	// In a transaction of several rows, Azurite stores a row under a wrong key if its row key begins with a comma.
	alone := strings.HasPrefix(op.Row.Key.Row, ",") && b.table.account.connection.account == devAccount
	if len(b.kinds) > 0 && (alone || b.alone || len(b.kinds) == MaxBatchRows || b.body.Len() > maxBatchBytes-1024) {
		b.body.Truncate(before)
		return false
	}
	b.alone = alone
	b.kinds = append(b.kinds, op.Kind)
	return true
}

var methods = [...]string{Insert: http.MethodPost, Replace: http.MethodPut, Merge: http.MethodPatch, Delete: http.MethodDelete}

func (b *Batch) append(op Op) {
	if op.Kind == Delete && op.IfMatch == "" {
		op.IfMatch = "*"
	}
	method := methods[op.Kind]
	b.write("--changeset_", b.boundary, "\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n", method, " ", b.table.account.connection.tableURL)
	target := extent{from: b.body.Len()}
	b.write("/", b.table.name)
	if op.Kind != Insert {
		b.body.Write(appendKeyPath(b.body.AvailableBuffer(), op.Row.Key))
	}
	target.to = b.body.Len()
	b.write(" HTTP/1.1\r\nAccept: " + accepted + "\r\nDataServiceVersion: 3.0\r\n")
	if op.Kind == Insert {
		b.write("Prefer: " + noContent + "\r\n")
	}
	if op.IfMatch != "" {
		b.write("If-Match: ", op.IfMatch, "\r\n")
	}
	if op.Kind != Delete {
		b.write("Content-Type: application/json\r\n")
	}
	b.write("\r\n")
	json := extent{from: b.body.Len()}
	if op.Kind != Delete {
		b.body.Write(escapeSeparators(op.Row.JSON()))
	}
	json.to = b.body.Len()
	b.write("\r\n")
	if len(b.kinds) == 0 {
		b.first = request{method: method, contentType: "application/json", ifMatch: op.IfMatch}
		b.target, b.json = target, json
		if op.Row.Key.Partition == "" || op.Row.Key.Row == "" {
			b.target.to = 0
		}
	}
}

// escapeSeparators escapes U+2028 and U+2029 in JSON, because Azurite treats them as ends of lines.
func escapeSeparators(json []byte) []byte {
	if !bytes.Contains(json, []byte("\xe2\x80")) { // the first two bytes of U+2028 and U+2029
		return json
	}
	json = bytes.ReplaceAll(json, []byte("\u2028"), []byte(`\u2028`))
	return bytes.ReplaceAll(json, []byte("\u2029"), []byte(`\u2029`))
}

func (b *Batch) write(texts ...string) {
	for _, t := range texts {
		b.body.WriteString(t)
	}
}

// appendKeyPath appends the part of a row's URL that contains the key.
func appendKeyPath(b []byte, k key.Key) []byte {
	b = appendEscaped(append(b, "(PartitionKey='"...), k.Partition)
	b = appendEscaped(append(b, "',RowKey='"...), k.Row)
	return append(b, "')"...)
}

// appendEscaped appends a partition key or row key in the form that it has in a URL.
func appendEscaped(b []byte, text string) []byte {
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == '~':
			b = append(b, c)
		case c == '\'':
			b = append(b, "%27%27"...)
		default:
			b = append(b, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
	}
	return b
}

func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// maxPlainURL is the maximum length, in bytes, of a plain request's URL. Proxies may refuse longer URLs.
const maxPlainURL = 2048

// batchTarget is the path of transactions.
const batchTarget = "/$batch"

// sendsPlain reports whether to send the batch as a plain request, which costs a third of a transaction's processor
// time. Rows with empty keys need transactions, because the service may refuse empty keys in URLs.
func (b *Batch) sendsPlain() bool {
	n := b.target.to - b.target.from
	return len(b.kinds) == 1 && n >= 0 && n+len(b.table.account.connection.tableURL) <= maxPlainURL
}

// buildRequest returns the transaction or, if `plain` is true, a plain request for the only operation.
func (b *Batch) buildRequest(plain bool) request {
	if !plain {
		b.write("--changeset_", b.boundary, "--\r\n--batch_", b.boundary, "--\r\n")
		return request{method: http.MethodPost, url: batchTarget, contentType: "multipart/mixed; boundary=batch_" + b.boundary, body: b.body.Bytes()}
	}
	text := b.body.Bytes()
	b.first.url, b.first.body = string(text[b.target.from:b.target.to]), text[b.json.from:b.json.to]
	return b.first
}

// Do sends the transaction. If the service refuses an operation, it carries out no operation of the transaction, and
// the [Error] contains the refused operation's Index. If the transaction is empty, Do sends nothing.
func (b *Batch) Do(ctx context.Context) error {
	if len(b.kinds) == 0 {
		return nil
	}
	x := newRowExchange(b.table.options, operation{}, &statusBuffers)
	defer x.release()
	x.rows = float64(len(b.kinds))
	what := "delete from table "
	if slices.ContainsFunc(b.kinds, func(k OpKind) bool { return k != Delete }) {
		what = "write to table "
	}
	send := func(plain bool) error {
		x.plain, x.transaction = plain, !plain
		switch {
		case !plain:
			x.operation = transaction(b.kinds, &x.part)
		case b.kinds[0] == Insert:
			x.operation = insertRow
		case b.kinds[0] == Delete:
			x.operation = deleteRow
		default:
			x.operation = changeRow
		}
		header, err := b.table.send(ctx, x, what, b.buildRequest(plain))
		if plain && err == nil {
			b.etag = header.Get("ETag")
		}
		return err
	}
	err := send(b.sendsPlain())
	if x.plain && strangeRefusal(err) { // a proxy may refuse the key in the URL; a transaction has the key in its body
		err = send(false)
	}
	if err == nil && x.tries == 1 { // if there were several tries, an abandoned try may still be reading the body, so the buffer is not reused
		transactionBuffers.put(b.body)
	}
	b.body = nil
	return err
}

// Write sends the operations, which must fit into one transaction.
func (t *Table) Write(ctx context.Context, ops ...Op) error {
	b := t.Batch()
	for _, op := range ops {
		if !b.Add(op) {
			return fmt.Errorf("write to table %s: a transaction of %d rows is too large", t.name, len(ops))
		}
	}
	return b.Do(ctx)
}
