package function

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"tablesweep/internal/catalog"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
)

// maxRecords is how many records one request inserts.
const maxRecords = 1000

// item is one of several records, or what is wrong with it.
type item struct {
	record record.Record
	err    error
}

// readRecords reads the records of a body: one, or several in an array or, of the type
// application/x-ndjson, one a line. What is wrong with single ones is not an error.
func readRecords(r *http.Request) (items []item, several bool, err error) {
	body, err := readBody(r)
	if err != nil {
		return nil, false, err
	}
	lines := false
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil {
		lines = t == "application/x-ndjson"
	}
	var texts [][]byte
	switch trimmed := bytes.TrimLeft(body, " \t\r\n"); {
	case lines:
		for line := range bytes.Lines(body) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				texts = append(texts, line)
			}
		}
	case len(trimmed) > 0 && trimmed[0] == '[':
		if texts, err = elements(body); err != nil {
			return nil, true, problem.Invalidf("", "the body is not a JSON array of records").Because(err)
		}
	default:
		one, err := record.Parse(body)
		return []item{{record: one}}, false, err
	}
	switch {
	case len(texts) == 0:
		return nil, true, problem.Invalidf("", "there is no record; send at least one")
	case len(texts) > maxRecords:
		return nil, true, problem.TooLargef("", "there are %d records, at most %d are possible; send them in several requests", len(texts), maxRecords)
	}
	for _, text := range texts {
		one, err := record.Parse(text)
		items = append(items, item{one, err})
	}
	return items, true, nil
}

// elements returns the texts of an array's values. What is wrong within them, [record.Parse]
// tells best.
func elements(body []byte) (texts [][]byte, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	_, err = dec.ReadToken() // the opening bracket
	for err == nil && dec.PeekKind() != ']' {
		var value jsontext.Value
		if value, err = dec.ReadValue(); err == nil {
			texts = append(texts, bytes.Clone(value))
		}
	}
	if err == nil {
		_, err = dec.ReadToken() // the closing one
	}
	if err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the array")
	}
	return texts, nil
}

// inserted is what a caller learns of one of several records.
type inserted struct {
	Status int         `json:"status"`
	ID     string      `json:"id,omitempty"`
	Error  *fieldError `json:"error,omitempty"`
}

// insertRecords inserts several records, and answers for each.
func insertRecords(c *catalog.Catalog, items []item, w http.ResponseWriter, r *http.Request) {
	var records []record.Record
	for _, i := range items {
		if i.err == nil {
			records = append(records, i.record)
		}
	}
	done := c.InsertAll(r.Context(), records)
	answer := make([]inserted, len(items))
	for n, i := range items {
		var one catalog.Inserted
		if one.Err = i.err; i.err == nil {
			one, done = done[0], done[1:]
		}
		answer[n] = inserted{Status: problem.Status(one.Err), ID: one.ID}
		switch {
		case one.Err != nil:
			answer[n].ID = ""
			answer[n].Error = &fieldError{problem.Of(one.Err).Field, told(one.Err)}
			if answer[n].Status >= http.StatusInternalServerError {
				zerolog.Ctx(r.Context()).Error().Err(one.Err).Int("record", n).Msg("record not inserted")
			}
		case one.Outcome == catalog.Created:
			answer[n].Status = http.StatusCreated
		}
	}
	writeJSON(w, r, http.StatusOK, "application/json", map[string]any{"results": answer})
}

// told is what a caller is told of an error: of several, all.
func told(err error) string {
	var all []string
	for _, p := range problem.All(err) {
		text := p.Detail
		if p.Err != nil && problem.Status(p) < http.StatusInternalServerError {
			text += ": " + p.Err.Error()
		}
		if p.Field != "" && len(all) > 0 {
			text = p.Field + " " + text
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return problem.Of(err).Detail
	}
	return strings.Join(all, "; ")
}
