package storage

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue"
)

// operation is a kind of request, by its good answers.
type operation struct {
	service  string
	statuses []int
	// check, if set, returns what is wrong with the rest of an answer of these statuses.
	check func(h http.Header, body []byte) error
}

const (
	tableService = "Table"
	queueService = "Queue"
	blobService  = "Blob"
)

// The operations of this package, but for queries, transactions, and what reads blobs: what is good
// of these depends on the request.
var (
	createTable = operation{tableService, []int{http.StatusCreated, http.StatusNoContent}, createdTable}
	listTables  = operation{tableService, []int{http.StatusOK}, tableList}
	deleteTable = operation{tableService, []int{http.StatusNoContent}, nil}
	insertRow   = operation{tableService, []int{http.StatusCreated, http.StatusNoContent}, needETag}
	changeRow   = operation{tableService, []int{http.StatusNoContent}, needETag}
	deleteRow   = operation{tableService, []int{http.StatusNoContent}, nil}

	listQueues  = operation{queueService, []int{http.StatusOK}, nil}
	createQueue = operation{queueService, []int{http.StatusCreated, http.StatusNoContent}, nil}
	putMessage  = operation{queueService, []int{http.StatusCreated}, messageList(func(azqueue.EnqueuedMessage) bool { return true })}
	getMessages = operation{queueService, []int{http.StatusOK}, messageList(func(m azqueue.DequeuedMessage) bool {
		return m.MessageID != nil && m.PopReceipt != nil && m.DequeueCount != nil && m.InsertionTime != nil && m.ExpirationTime != nil && m.TimeNextVisible != nil
	})}
	peekMessages = operation{queueService, []int{http.StatusOK}, messageList(func(m azqueue.PeekedMessage) bool {
		return m.MessageID != nil && m.DequeueCount != nil && m.InsertionTime != nil && m.ExpirationTime != nil
	})}
	updateMessage = operation{queueService, []int{http.StatusNoContent}, func(h http.Header, _ []byte) error { return needHeader(h, "X-Ms-Popreceipt") }}
	deleteMessage = operation{queueService, []int{http.StatusNoContent}, nil}
	queueLength   = operation{queueService, []int{http.StatusOK}, func(h http.Header, _ []byte) error {
		return needHeader(h, "X-Ms-Approximate-Messages-Count")
	}}

	createContainer = operation{blobService, []int{http.StatusCreated}, nil}
	putBlob         = operation{blobService, []int{http.StatusCreated}, needETag}
	deleteBlob      = operation{blobService, []int{http.StatusAccepted}, nil}
)

// strangeAnswer is the error of an answer that is not the service's, or neither a good one of its
// operation nor a refusal. A proxy may have given it, or the way may have spoilt it: the
// service may have carried the request out or not.
type strangeAnswer struct {
	service     string
	status      int
	contentType string
	why         string // "" if the status and the type say enough
}

func (a *strangeAnswer) Error() string {
	text := fmt.Sprintf("this does not look like the %s service: %d %s", a.service, a.status, a.contentType)
	if a.why != "" {
		text += ": " + a.why
	}
	return text
}

// strangeRefusal reports whether an error is a strange answer that refuses the request or
// leads elsewhere.
func strangeRefusal(err error) bool {
	var a *strangeAnswer
	return errors.As(err, &a) && a.status >= http.StatusMultipleChoices && a.status < http.StatusInternalServerError
}

// validateAnswer returns nil if an answer to a request of the id is the service's: a good one of the
// operation, or a refusal. Good answers have all that the endpoint's need, and refusals
// an error code. This is the only place that decides it.
func (o operation) validateAnswer(id string, good needs, status int, h http.Header, body []byte) error {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	a := &strangeAnswer{service: o.service, status: status, contentType: kind}
	switch echo := h.Get(clientRequestID); {
	case echo != "" && echo != id: // a connection on which an answer came twice
		a.why = "it answers another request"
	case o.service != blobService && h.Get("Content-Encoding") != "": // a blob may be stored so
		a.why = "it is compressed, for which nobody asked"
	case status >= http.StatusBadRequest:
		if codeOf(h, body) != "" {
			return nil
		}
		a.why = "it has no error code"
	case h.Get("X-Ms-Version") == "" && good.version:
	case echo == "" && good.id:
		a.why = "it does not say which request it answers"
	case !slices.Contains(o.statuses, status):
		a.why = "no answer to such a request"
	case o.check != nil:
		err := o.check(h, body)
		if err == nil {
			return nil
		}
		a.why = err.Error()
	default:
		return nil
	}
	return a
}

// clientRequestID is the header by which the services say which request they answer.
const clientRequestID = "X-Ms-Client-Request-Id"

// endpoint is what is known of a service's endpoint by its good answers.
type endpoint struct {
	cosmos bool // Cosmos DB's have no version. (recordings of the tests of azure-sdk-for-python)
	// Good answers have had the request's id. Those to transactions are noted apart: Azurite's have none.
	transactions, others atomic.Bool
}

// needs are headers that a good answer must have.
type needs struct{ version, id bool }

func (e *endpoint) needs(x *exchange) needs { return needs{!e.cosmos, e.echoes(x).Load()} }

// echoes tells whether good answers to such requests have had their ids.
func (e *endpoint) echoes(x *exchange) *atomic.Bool {
	if x.transaction {
		return &e.transactions
	}
	return &e.others
}

// codeOf returns a refusal's error code, "" if it has none.
func codeOf(h http.Header, body []byte) string {
	if code := h.Get("X-Ms-Error-Code"); code != "" {
		return code
	}
	code, _ := serviceError(body)
	return code
}

func needHeader(h http.Header, name string) error {
	if h.Get(name) == "" {
		return fmt.Errorf("it has no header %s", strings.ToLower(name))
	}
	return nil
}

func needETag(h http.Header, _ []byte) error { return needHeader(h, "ETag") }

func needJSON(h http.Header) error {
	if !strings.HasPrefix(h.Get("Content-Type"), "application/json") {
		return errors.New("it is not JSON")
	}
	return nil
}

func createdTable(_ http.Header, body []byte) error {
	if len(body) > 0 && !json.Valid(body) {
		return errors.New("it is not JSON")
	}
	return nil
}

func tableList(h http.Header, body []byte) error {
	if err := needJSON(h); err != nil {
		return err
	}
	var list struct {
		Value []struct{ TableName string } `json:"value"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return err
	}
	if list.Value == nil {
		return errNoRows
	}
	for _, t := range list.Value {
		if t.TableName == "" {
			return errors.New("a table has no name")
		}
	}
	return nil
}

// messageList returns a check of a list of messages: each must be complete.
func messageList[M any](complete func(M) bool) func(http.Header, []byte) error {
	return func(_ http.Header, body []byte) error {
		var list struct {
			XMLName  xml.Name `xml:"QueueMessagesList"`
			Messages []M      `xml:"QueueMessage"`
		}
		d := xml.NewDecoder(bytes.NewReader(body))
		if err := d.Decode(&list); err != nil {
			return err
		}
		if _, err := d.Token(); err != io.EOF {
			return errors.New("it goes on behind the list")
		}
		for _, m := range list.Messages {
			if !complete(m) {
				return errors.New("a message is incomplete")
			}
		}
		return nil
	}
}

// transaction is the operation of an entity group transaction of these operations. The answer of the one
// that failed, if one did, is put into failed.
func transaction(kinds []OpKind, failed **part) operation {
	return operation{tableService, []int{http.StatusAccepted}, func(h http.Header, body []byte) (err error) {
		*failed, err = readChangeset(h.Get("Content-Type"), body, kinds)
		return err
	}}
}

// part is the failed operation's answer within a transaction's answer.
type part struct {
	index  int // of the operation, -1 if the service does not tell
	status int
	header http.Header
	body   []byte
}

// readChangeset reads the answer to a transaction of these operations: a changeset with a part
// for each of them, or with that of the one that failed, which it returns. What was written has an ETag.
func readChangeset(contentType string, body []byte, kinds []OpKind) (*part, error) {
	outer, ok := partsOf(contentType, body)
	if !ok || len(outer) != 1 {
		return nil, errors.New("it is not one whole changeset")
	}
	header, body, _ := bytes.Cut(outer[0], blankLine)
	name, contentType, _ := strings.Cut(string(header), ":")
	changes, ok := partsOf(strings.TrimSpace(contentType), body)
	if !ok || !strings.EqualFold(name, "Content-Type") {
		return nil, errors.New("its changeset is not whole")
	}
	n := len(kinds)
	for i, change := range changes {
		_, answer, _ := bytes.Cut(change, blankLine)
		switch status := statusOf(answer); {
		case status == http.StatusNoContent || status == http.StatusCreated:
			if i < n && kinds[i] != Delete && !hasETag(answer) {
				return nil, errors.New("an operation has no etag")
			}
		case status >= http.StatusBadRequest && len(changes) == 1:
			failed, err := readPart(answer)
			if err == nil && n == 1 && aboutRow(status) {
				failed.index = 0 // the service numbers no operation that is alone
			}
			return failed, err
		default:
			return nil, fmt.Errorf("an operation has the status %d", status)
		}
	}
	if len(changes) != n {
		return nil, fmt.Errorf("it has %d parts for %d operations", len(changes), n)
	}
	return nil, nil
}

var (
	blankLine = []byte("\r\n\r\n")
	etagName  = []byte("ETag:")
)

// partsOf returns the parts of a multipart text. ok is false if it does not have its form
// up to its end. It is for texts as large as a transaction's answer, at each of which
// mime/multipart would take longer than the transaction's other work.
func partsOf(contentType string, text []byte) (parts [][]byte, ok bool) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/mixed" || params["boundary"] == "" {
		return nil, false
	}
	delimiter := []byte("\r\n--" + params["boundary"])
	rest, ok := bytes.CutPrefix(text, delimiter[2:])
	for ok {
		if end, last := bytes.CutPrefix(rest, []byte("--")); last {
			return parts, len(bytes.TrimSpace(end)) == 0
		}
		var part []byte
		part, rest, ok = bytes.Cut(rest, delimiter)
		parts = append(parts, bytes.TrimPrefix(part, []byte("\r\n")))
	}
	return nil, false
}

// statusOf returns the status of an HTTP answer's text, 0 if it has none.
func statusOf(answer []byte) int {
	rest, ok := bytes.CutPrefix(answer, []byte("HTTP/1.1 "))
	if !ok || len(rest) < 3 {
		return 0
	}
	status, _ := strconv.Atoi(string(rest[:3]))
	return status
}

// hasETag reports whether an HTTP answer's text has an ETag.
func hasETag(answer []byte) bool {
	head, _, _ := bytes.Cut(answer, blankLine)
	for line := range bytes.SplitSeq(head, blankLine[:2]) {
		if len(line) > len(etagName) && bytes.EqualFold(line[:len(etagName)], etagName) {
			return len(bytes.TrimSpace(line[len(etagName):])) > 0
		}
	}
	return false
}

// readPart reads a failed operation's answer.
func readPart(answer []byte) (*part, error) {
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body) // it need not state its length, and ends where the part does
	if err != nil {
		return nil, err
	}
	if codeOf(resp.Header, body) == "" {
		return nil, errors.New("the failed operation has no error code")
	}
	return &part{index: failedIndex(body), status: resp.StatusCode, header: resp.Header, body: body}, nil
}

// failedIndex reads the operation's index, which the service puts before a colon
// at the start of the error's message.
func failedIndex(body []byte) int {
	_, message := serviceError(body)
	number, _, _ := strings.Cut(message, ":")
	if index, err := strconv.Atoi(strings.TrimSpace(number)); err == nil {
		return index
	}
	return -1
}
