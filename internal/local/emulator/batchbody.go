package emulator

import (
	"bytes"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// A batch is a multipart body with one part: a query in HTTP form, or a change set, which is a multipart body of
// writes. The code here parses the body in place, because with mime/multipart and net/http, parsing would take longer
// than all other work on a batch.

// batchPart is one request inside a batch.
type batchPart struct {
	method      string
	path        string // decoded; with the account
	query       string // not decoded
	accept      string
	ifMatch     string
	prefer      string
	contentType string
	contentID   string // the client's id for the request, or ""
	body        []byte
}

func parseBatchBody(contentType string, body []byte) (parts []batchPart, isQuery bool, err error) {
	sets, err := cutParts(contentType, body)
	if err != nil {
		return nil, false, err
	}
	if len(sets) != 1 {
		return nil, false, invalidInput("a batch must have one change set or one query, and nothing else")
	}
	contentType = ""
	content := eachField(sets[0], func(name, value []byte) {
		if bytes.EqualFold(name, []byte("Content-Type")) {
			contentType = string(value)
		}
	})
	if strings.EqualFold(contentType, "application/http") {
		query, err := parseBatchPart(content, "")
		if err == nil && query.method != http.MethodGet {
			err = invalidInput("a write in a batch must be in the change set")
		}
		return []batchPart{query}, true, err
	}
	requests, err := cutParts(contentType, content)
	if err != nil {
		return nil, false, err
	}
	parts = make([]batchPart, len(requests))
	for i, request := range requests {
		contentID := ""
		content := eachField(request, func(name, value []byte) {
			if bytes.EqualFold(name, []byte("Content-ID")) {
				contentID = string(value)
			}
		})
		if parts[i], err = parseBatchPart(content, contentID); err != nil {
			return nil, false, err
		}
	}
	return parts, false, nil
}

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

// cutDelimiter cuts the body at the first line that is the delimiter or the closing delimiter. Without such a line, `rest` is
// nil.
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

// eachField calls fn with each field of a header. It returns the body, which follows the header's empty line.
func eachField(b []byte, fn func(name, value []byte)) (body []byte) {
	for len(b) > 0 {
		var line []byte
		if line, b = cutLine(b); len(line) == 0 {
			break
		}
		if name, value, ok := bytes.Cut(line, []byte(":")); ok {
			fn(name, bytes.TrimSpace(value))
		}
	}
	return b
}

// parseBatchPart parses a request in HTTP form. Some clients send the Content-ID in the header of the part, and some
// clients send it in the header of the request.
func parseBatchPart(content []byte, contentID string) (p batchPart, err error) {
	line, rest := cutLine(content)
	verb, target, ok := bytes.Cut(line, []byte(" "))
	target, isHTTP := bytes.CutSuffix(target, []byte(" HTTP/1.1"))
	if !ok || !isHTTP {
		return p, invalidInput("an operation does not start with a request line")
	}
	u, err := url.Parse(string(target))
	if err != nil {
		return p, invalidInput("an operation's URL is malformed")
	}
	p.method, p.path, p.query, p.contentID = string(verb), u.Path, u.RawQuery, contentID
	p.body = eachField(rest, func(name, value []byte) {
		switch {
		case bytes.EqualFold(name, []byte("Content-Type")):
			p.contentType = string(value)
		case bytes.EqualFold(name, []byte("Accept")):
			p.accept = string(value)
		case bytes.EqualFold(name, []byte("X-HTTP-Method")):
			p.method = method(p.method, string(value))
		case bytes.EqualFold(name, []byte("If-Match")):
			p.ifMatch = string(value)
		case bytes.EqualFold(name, []byte("Prefer")):
			p.prefer = string(value)
		case bytes.EqualFold(name, []byte("Content-ID")):
			p.contentID = string(value)
		}
	})
	return p, nil
}
