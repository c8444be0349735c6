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

// operation is a kind of request, and defines which answers to it are good.
type operation struct {
	service  string
	statuses []int
	// check, if not nil, checks the header and the body of an answer with a good status.
	check func(h http.Header, body []byte) error
}

const (
	tableService = "Table"
	queueService = "Queue"
	blobService  = "Blob"
)

// The operations whose good answers do not depend on the request: all except queries, transactions
// and reads of blobs.
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

// strangeAnswer is the error of an answer that is neither a refusal by the service nor a good answer to its operation.
// The answer may come from a proxy, or may be damaged. In both cases, the service may have carried out the request.
type strangeAnswer struct {
	service     string
	status      int
	contentType string
	why         string // "" if the status and the content type explain enough
}

func (a *strangeAnswer) Error() string {
	text := fmt.Sprintf("the answer does not look like one from the %s service: %d %s", a.service, a.status, a.contentType)
	if a.why != "" {
		text += ": " + a.why
	}
	return text
}

// strangeRefusal reports whether an error is a [strangeAnswer] that refuses or redirects the request.
func strangeRefusal(err error) bool {
	var a *strangeAnswer
	return errors.As(err, &a) && a.status >= http.StatusMultipleChoices && a.status < http.StatusInternalServerError
}

// validateAnswer returns nil for a good answer to the operation, and for a refusal by the service. A good answer has the
// required headers, and a refusal has an error code. For any other answer, the error is a strangeAnswer. id is the
// request's id.
func (o operation) validateAnswer(id string, required requiredHeaders, status int, h http.Header, body []byte) error {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	a := &strangeAnswer{service: o.service, status: status, contentType: kind}
	switch echo := h.Get(clientRequestID); {
	case echo != "" && echo != id: // the connection has delivered an earlier answer twice
		a.why = "it is the answer to another request"
	case o.service != blobService && h.Get("Content-Encoding") != "": // a blob may be stored with an encoding
		a.why = "it is compressed, although the request does not allow that"
	case status >= http.StatusBadRequest:
		if codeOf(h, body) != "" {
			return nil
		}
		a.why = "it has no error code"
	case h.Get("X-Ms-Version") == "" && required.version:
	case echo == "" && required.id:
		a.why = "it does not contain the request's id"
	case !slices.Contains(o.statuses, status):
		a.why = "no request of this kind has such an answer"
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

// clientRequestID is the header in which the services repeat the request's id.
const clientRequestID = "X-Ms-Client-Request-Id"

// endpoint records which headers a service's endpoint sends with good answers.
type endpoint struct {
	cosmos bool // Cosmos DB's answers have no version. (recordings of the tests of azure-sdk-for-python)
	// These fields record whether good answers have contained the request's id. Transactions have a field of their own, because
	// Azurite's answers to transactions do not contain the id.
	transactions, others atomic.Bool
}

// requiredHeaders are the headers that a good answer must have.
type requiredHeaders struct{ version, id bool }

func (e *endpoint) requires(x *exchange) requiredHeaders {
	return requiredHeaders{!e.cosmos, e.echoField(x).Load()}
}

// echoField returns the field of e that records whether good answers to requests such as x have contained the request's id.
func (e *endpoint) echoField(x *exchange) *atomic.Bool {
	if x.transaction {
		return &e.transactions
	}
	return &e.others
}

// codeOf returns a refusal's error code, or "".
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

// messageList returns a function that checks whether each message of a list is complete.
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
			return errors.New("there is text after the list")
		}
		for _, m := range list.Messages {
			if !complete(m) {
				return errors.New("a message is incomplete")
			}
		}
		return nil
	}
}

// transaction returns the [operation] of an entity group transaction whose operations have these kinds. If an operation
// fails, its part of the answer is stored in *failed.
func transaction(kinds []OpKind, failed **part) operation {
	return operation{tableService, []int{http.StatusAccepted}, func(h http.Header, body []byte) (err error) {
		*failed, err = readChangeset(h.Get("Content-Type"), body, kinds)
		return err
	}}
}

// part is the answer to the failed operation of a transaction.
type part struct {
	index  int // index of the failed operation, or -1 if the service does not name it
	status int
	header http.Header
	body   []byte
}

// readChangeset reads a transaction's answer. If an operation failed, the answer has only this operation's part, and
// readChangeset returns it. Otherwise, the answer has a part for each operation. The part of a written row must have
// an ETag.
func readChangeset(contentType string, body []byte, kinds []OpKind) (*part, error) {
	outer, ok := partsOf(contentType, body)
	if !ok || len(outer) != 1 {
		return nil, errors.New("it is not one complete changeset")
	}
	header, body, _ := bytes.Cut(outer[0], blankLine)
	name, contentType, _ := strings.Cut(string(header), ":")
	changes, ok := partsOf(strings.TrimSpace(contentType), body)
	if !ok || !strings.EqualFold(name, "Content-Type") {
		return nil, errors.New("its changeset is incomplete")
	}
	n := len(kinds)
	for i, change := range changes {
		_, answer, _ := bytes.Cut(change, blankLine)
		switch status := statusOf(answer); {
		case status == http.StatusNoContent || status == http.StatusCreated:
			if i < n && kinds[i] != Delete && !hasETag(answer) {
				return nil, errors.New("the answer to an operation has no ETag")
			}
		case status >= http.StatusBadRequest && len(changes) == 1:
			failed, err := readPart(answer)
			if err == nil && n == 1 && aboutRow(status) {
				failed.index = 0 // the service sends no index for a single operation
			}
			return failed, err
		default:
			return nil, fmt.Errorf("an operation was answered with the status %d", status)
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

// partsOf returns the parts of a multipart text. ok is false if the text is malformed. partsOf does not use
// mime/multipart, which would take longer than all other work for a transaction.
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

// statusOf returns the status of an HTTP answer's text, or 0.
func statusOf(answer []byte) int {
	rest, ok := bytes.CutPrefix(answer, []byte("HTTP/1.1 "))
	if !ok || len(rest) < 3 {
		return 0
	}
	status, _ := strconv.Atoi(string(rest[:3]))
	return status
}

func hasETag(answer []byte) bool {
	head, _, _ := bytes.Cut(answer, blankLine)
	for line := range bytes.SplitSeq(head, blankLine[:2]) {
		if len(line) > len(etagName) && bytes.EqualFold(line[:len(etagName)], etagName) {
			return len(bytes.TrimSpace(line[len(etagName):])) > 0
		}
	}
	return false
}

func readPart(answer []byte) (*part, error) {
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body) // if no length is stated, the body ends where the part ends
	if err != nil {
		return nil, err
	}
	if codeOf(resp.Header, body) == "" {
		return nil, errors.New("the answer to the failed operation has no error code")
	}
	return &part{index: failedIndex(body), status: resp.StatusCode, header: resp.Header, body: body}, nil
}

// failedIndex reads the failed operation's index from the beginning of the error's message.
func failedIndex(body []byte) int {
	_, message := serviceError(body)
	number, _, _ := strings.Cut(message, ":")
	if index, err := strconv.Atoi(strings.TrimSpace(number)); err == nil {
		return index
	}
	return -1
}
