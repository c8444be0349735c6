package storage

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/proof"
)

// recording is a recorded request to the real service and its answer. internal/local/emulator/testdata describes the
// origin of the recordings.
type recording struct {
	Case    string
	Service string
	Request struct{ Method, Path, Query, Body string }
	Answer  struct {
		Status  int
		Headers map[string]string
		Body    string
	}
}

func (r recording) header() http.Header {
	h := http.Header{}
	for name, value := range r.Answer.Headers {
		h.Set(name, value)
	}
	return h
}

func readRecordings(t *testing.T) []recording {
	t.Helper()
	packed, err := os.Open("../local/emulator/testdata/recordings.jsonl.gz")
	proof.Must(t, err)
	defer packed.Close()
	text, err := gzip.NewReader(packed)
	proof.Must(t, err)
	var all []recording
	for d := json.NewDecoder(text); d.More(); {
		var r recording
		proof.Must(t, d.Decode(&r))
		all = append(all, r)
	}
	return all
}

var kindOf = map[string]OpKind{"POST": Insert, "PUT": Replace, "PATCH": Merge, "MERGE": Merge, "DELETE": Delete}

var batched = regexp.MustCompile(`(?m)^(POST|PUT|PATCH|MERGE|DELETE) \S+ HTTP/1.1`)

// operationOf returns the operation of a recorded request. ok is false for requests that this package does not make.
func operationOf(r recording) (o operation, ok bool) {
	q := r.Request
	under := strings.Contains(q.Path, "/messages/")
	switch {
	case r.Service == "queue" && strings.HasSuffix(q.Path, "/messages"):
		switch {
		case q.Method == http.MethodPost:
			return putMessage, true
		case q.Method == http.MethodDelete:
			return deleteMessage, true // deletes all messages
		case strings.Contains(q.Query, "peekonly"):
			return peekMessages, true
		}
		return getMessages, true
	case r.Service == "queue" && q.Method == http.MethodGet:
		return queueLength, q.Path != "/"
	case r.Service == "queue" && under && q.Method == http.MethodPut:
		return updateMessage, true
	case r.Service == "queue" && q.Method == http.MethodDelete:
		return deleteMessage, true // deletes a message or a queue
	case r.Service == "queue":
		return createQueue, true // creates a queue or sets its metadata
	case q.Path == "/Tables" && q.Method == http.MethodPost:
		return createTable, true
	case q.Path == "/Tables":
		return listTables, true
	case strings.HasPrefix(q.Path, "/Tables("):
		return deleteTable, q.Method == http.MethodDelete
	case q.Path == "/$batch":
		var kinds []OpKind
		for _, m := range batched.FindAllStringSubmatch(q.Body, -1) {
			kinds = append(kinds, kindOf[m[1]])
		}
		return transaction(kinds, new(*part)), len(kinds) > 0
	case q.Method == http.MethodGet:
		keysToo := !strings.Contains(q.Query, "select=") || strings.Contains(q.Query, "PartitionKey%2CRowKey") || strings.HasSuffix(q.Query, "select=")
		return operation{tableService, []int{http.StatusOK}, func(h http.Header, body []byte) error {
			if err := needJSON(h); err != nil {
				return err
			}
			_, err := parsePage(body)
			return err
		}}, strings.HasSuffix(q.Path, "()") && keysToo
	case q.Method == http.MethodPost:
		return insertRow, true
	case q.Method == http.MethodDelete:
		return deleteRow, true
	}
	return changeRow, true
}

// Every answer of the real service is accepted. Every answer that the connection or a proxy has damaged is refused.
func TestRecordedAnswers(t *testing.T) {
	t.Parallel()
	own, spoilt, tagless := 0, 0, 0
	for _, r := range readRecordings(t) {
		o, ok := operationOf(r)
		refused := r.Answer.Status >= 400
		if !ok && !refused { // a request that this package does not make
			if r.header().Get("X-Ms-Version") == "" {
				t.Errorf("%s: %s %s: the answer has no version", r.Case, r.Request.Method, r.Request.Path)
			}
			continue
		}
		own++
		h, body := r.header(), []byte(r.Answer.Body)
		if err := o.validateAnswer("id", requiredHeaders{version: true}, r.Answer.Status, h, body); err != nil {
			t.Errorf("%s: %s %s: %v\n%s", r.Case, r.Request.Method, r.Request.Path, err, body)
			continue
		}
		believed := func(what string, status int, h http.Header, body []byte) {
			spoilt++
			if o.validateAnswer("id", requiredHeaders{version: true}, status, h, body) == nil {
				t.Errorf("%s: %s %s: accepted with %s\n%s", r.Case, r.Request.Method, r.Request.Path, what, body)
			}
		}
		for _, status := range []int{200, 302, 400, 403, 404, 500, 503} {
			believed("a page of a proxy", status, http.Header{"Content-Type": {"text/html"}}, []byte("<html><body>Sorry</body></html>"))
		}
		other := h.Clone()
		other.Set(clientRequestID, "other")
		believed("another's id", r.Answer.Status, other, body)
		// The recordings have no ids.
		if err := o.validateAnswer("id", requiredHeaders{version: true, id: true}, r.Answer.Status, h, body); (err == nil) != refused {
			t.Errorf("%s: %s %s: without the id that other answers have: error %v", r.Case, r.Request.Method, r.Request.Path, err)
		}
		if written := h.Clone(); !refused && r.Service == "table" && h.Get("ETag") != "" {
			written.Del("ETag")
			believed("no ETag", r.Answer.Status, written, body)
			tagless++
		}
		if text := bytes.Replace(body, []byte("\r\nETag:"), []byte("\r\nTag:"), 1); len(text) < len(body) {
			believed("no ETag in a part", r.Answer.Status, h, text)
			tagless++
		}
		if from, rest, ok := bytes.Cut(body, []byte("--changesetresponse_")); ok && !refused {
			_, others, _ := bytes.Cut(rest, []byte("--changesetresponse_"))
			believed("a missing part", r.Answer.Status, h, slices.Concat(from, []byte("--changesetresponse_"), others))
		}
		without := h.Clone()
		without.Del("X-Ms-Version")
		if refused {
			believed("no error", r.Answer.Status, h, []byte("{}"))
		} else {
			believed("no version", r.Answer.Status, without, body)
			believed("a status of another operation", 206, h, body)
		}
		whole := len(bytes.TrimSpace(body))
		if o.check == nil && !refused || whole == 0 {
			continue
		}
		for _, end := range []int{0, 1, whole / 4, whole / 2, whole - 40, whole - 1} {
			// A table's name alone proves that the table was created.
			if end = max(0, end); end > 0 || !refused && r.Answer.Status != http.StatusCreated {
				believed("a part", r.Answer.Status, h, body[:end])
			}
		}
		if !refused {
			believed("text after the answer", r.Answer.Status, h, append(bytes.Clone(body), body...))
			believed("{}", r.Answer.Status, h, []byte("{}"))
		}
	}
	t.Logf("%d answers, damaged in %d ways", own, spoilt)
	if own < 350 || tagless < 100 {
		t.Errorf("only %d recorded answers belong to this package's requests, %d with an ETag", own, tagless)
	}
}
