package action

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"text/template"

	"tablesweep/internal/copier"
	"tablesweep/internal/storage"
)

// Enqueue puts one message a row into a queue. A row may get more than one: a put
// whose answer is lost is repeated, and so is what was under way when a sweep was
// interrupted.
type Enqueue struct {
	Queue   *storage.Queue
	Message *template.Template // see [Template]
	// Plain sends the text as it is. Otherwise it is sent in Base64, which is what
	// the Functions host and the storage SDKs expect by default.
	Plain bool
}

// WholeRow is the template of a message that is the row as a JSON object.
const WholeRow = "{{json .}}"

// Template parses a message's template, in the syntax of text/template. A row is a
// map: {{.PartitionKey}} and {{.Name}} write a property's text, {{json .Name}} its
// JSON, and {{json .}} the whole row, with the annotations of its types. A property
// that a row doesn't have is an error for that row; {{with index . "Name"}}…{{end}}
// gets round it.
func Template(text string) (*template.Template, error) {
	return template.New("message").Option("missingkey=error").Funcs(template.FuncMap{"json": asJSON}).Parse(text)
}

// value is a property as a template sees it.
type value struct{ p storage.Property }

func (v value) String() string { return v.p.Text() }

// row is an entity as a template sees it.
type row map[string]any

// asJSON is the template function json.
func asJSON(v any) (string, error) {
	switch v := v.(type) {
	case value:
		return string(v.p.Value), nil
	case row:
		return string(v[wholeRow].(storage.Entity).AppendJSON(nil)), nil
	}
	b, err := json.Marshal(v)
	return string(b), err
}

// wholeRow is where a row keeps the entity; no property can have that name.
const wholeRow = ""

func rowOf(e storage.Entity) row {
	r := row{
		wholeRow:       e,
		"PartitionKey": value{storage.StringProperty("PartitionKey", e.Key.Partition)},
		"RowKey":       value{storage.StringProperty("RowKey", e.Key.Row)},
	}
	for _, p := range e.Properties {
		r[p.Name] = value{p}
	}
	return r
}

// Split makes every row a unit.
func (Enqueue) Split(rows []storage.Entity) [][]storage.Entity {
	units := make([][]storage.Entity, len(rows))
	for i := range rows {
		units[i] = rows[i : i+1]
	}
	return units
}

// Do puts the rows' messages.
func (q Enqueue) Do(ctx context.Context, rows []storage.Entity) (copier.Result, error) {
	var r copier.Result
	for _, e := range rows {
		text, err := q.message(e)
		if err == nil {
			if err = q.Queue.Put(ctx, text); err != nil && !tooLarge(err) {
				return r, err
			}
		}
		if err != nil {
			r.Failed = append(r.Failed, copier.Failure{Key: e.Key, Reason: err.Error()})
			continue
		}
		r.Written++
	}
	return r, nil
}

// tooLarge reports whether the service refuses a message for what it is.
func tooLarge(err error) bool {
	var e *storage.Error
	return errors.As(err, &e) && (e.Status == http.StatusRequestEntityTooLarge || e.Status == http.StatusBadRequest)
}

// message returns a row's message as it is sent.
func (q Enqueue) message(e storage.Entity) (string, error) {
	var b strings.Builder
	if err := q.Message.Execute(&b, rowOf(e)); err != nil {
		return "", err
	}
	text := b.String()
	if !q.Plain {
		text = base64.StdEncoding.EncodeToString([]byte(text))
	}
	if len(text) > storage.MaxMessageBytes {
		return "", fmt.Errorf("the message has %d bytes as sent; a queue takes %d", len(text), storage.MaxMessageBytes)
	}
	return text, nil
}
