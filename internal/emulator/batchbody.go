package emulator

import (
	"bytes"
	"mime"
	"net/url"
	"strings"

	"tablesweep/internal/emulator/problem"
)

// A batch is a multipart body with one part, the change set, which is a multipart
// body again, whose parts are requests as they stand on the wire. It is read here,
// without copying, because mime/multipart and net/http take longer for that than all
// the rest of a batch takes.

// batchPart is one request inside a batch.
type batchPart struct {
	method  string
	path    string // decoded; with the account
	ifMatch string
	prefer  string
	body    []byte
}

// parseBatchBody cuts a batch into its requests. It takes exactly one change set.
func parseBatchBody(contentType string, body []byte) ([]batchPart, error) {
	sets, err := cutParts(contentType, body)
	if err != nil {
		return nil, err
	}
	if len(sets) != 1 {
		return nil, invalidInput("a batch has one change set and nothing else")
	}
	header, content := cutHeader(sets[0])
	contentType = header.get("Content-Type")
	if strings.EqualFold(contentType, "application/http") {
		return nil, problem.New(problem.NotImplemented, "Queries inside a batch are not implemented.")
	}
	requests, err := cutParts(contentType, content)
	if err != nil {
		return nil, err
	}
	parts := make([]batchPart, len(requests))
	for i, request := range requests {
		_, content := cutHeader(request)
		if parts[i], err = parseBatchPart(content); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// cutParts returns the parts of a multipart body.
func cutParts(contentType string, body []byte) ([][]byte, error) {
	mediaType, params, err := mime.ParseMediaType(contentType)
	if err != nil || mediaType != "multipart/mixed" || params["boundary"] == "" {
		return nil, invalidInput("the content type is not multipart/mixed with a boundary")
	}
	delimiter := []byte("--" + params["boundary"])
	var parts [][]byte
	_, rest, closed := cutDelimiter(body, delimiter)
	for !closed {
		var part []byte
		if rest == nil {
			return nil, invalidInput("a multipart body does not end with its boundary")
		}
		part, rest, closed = cutDelimiter(rest, delimiter)
		parts = append(parts, part)
	}
	return parts, nil
}

// cutDelimiter cuts the body at the first line that is the delimiter, or the closing
// delimiter. rest is nil if there is none.
func cutDelimiter(body, delimiter []byte) (part, rest []byte, closed bool) {
	for from := 0; ; {
		i := bytes.Index(body[from:], delimiter)
		if i < 0 {
			return body, nil, false
		}
		start := from + i
		from = start + len(delimiter)
		after, closed := bytes.CutPrefix(body[from:], []byte("--"))
		after = bytes.TrimLeft(after, " \t\r")
		ends := len(after) == 0 || after[0] == '\n'
		if ends && (start == 0 || body[start-1] == '\n') {
			_, rest := cutLine(after)
			return trimNewline(body[:start]), rest, closed
		}
	}
}

// cutLine cuts after the first line, which comes without its end.
func cutLine(b []byte) (line, rest []byte) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return b, nil
	}
	return trimNewline(b[:i+1]), b[i+1:]
}

func trimNewline(b []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
}

// partHeader is the lines of a header.
type partHeader []byte

// get returns the value of a field, or "".
func (h partHeader) get(name string) string {
	for rest := []byte(h); len(rest) > 0; {
		var line []byte
		line, rest = cutLine(rest)
		field, value, ok := bytes.Cut(line, []byte(":"))
		if ok && strings.EqualFold(string(field), name) {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// cutHeader cuts at the first empty line.
func cutHeader(b []byte) (header partHeader, body []byte) {
	for rest := b; len(rest) > 0; {
		var line []byte
		line, rest = cutLine(rest)
		if len(line) == 0 {
			return partHeader(b[:len(b)-len(rest)]), rest
		}
	}
	return partHeader(b), nil
}

// parseBatchPart reads a request in the form it has on the wire.
func parseBatchPart(content []byte) (batchPart, error) {
	line, rest := cutLine(content)
	method, target, ok := strings.Cut(string(line), " ")
	target, isHTTP := strings.CutSuffix(target, " HTTP/1.1")
	if !ok || !isHTTP {
		return batchPart{}, invalidInput("an operation does not start with a request line")
	}
	u, err := url.Parse(target)
	if err != nil {
		return batchPart{}, invalidInput("an operation's URL is malformed")
	}
	header, body := cutHeader(rest)
	return batchPart{method: method, path: u.Path, ifMatch: header.get("If-Match"), prefer: header.get("Prefer"), body: body}, nil
}
