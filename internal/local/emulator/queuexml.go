package emulator

import (
	"bytes"
	"encoding/xml"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/local/emulator/queue"
	"tablesweep/internal/local/emulator/refusal"
)

// messageText parses the body of a put or update. Like the service, it refuses characters that XML does not allow.
func messageText(body []byte) (string, error) {
	var m struct {
		XMLName     xml.Name `xml:"QueueMessage"`
		MessageText string
	}
	d := xml.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&m); err != nil {
		line, column := d.InputPos() // just after the mistake
		return "", refusal.New("InvalidXmlDocument", "XML specified is not syntactically valid.",
			[2]string{"LineNumber", strconv.Itoa(line)}, [2]string{"LinePosition", strconv.Itoa(column - 1)}, [2]string{"Reason", "Error parsing Xml content"})
	}
	if len(m.MessageText) > maxMessageBytes {
		return "", bodyTooLarge(maxMessageBytes)
	}
	return m.MessageText, nil
}

// messageXML is a message in an answer. Its fields depend on the request.
type messageXML struct {
	MessageID       string `xml:"MessageId"`
	InsertionTime   string
	ExpirationTime  string
	PopReceipt      string  `xml:",omitempty"`
	TimeNextVisible string  `xml:",omitempty"`
	DequeueCount    *int    `xml:",omitempty"`
	MessageText     *string `xml:",omitempty"`
}

func (x *messageXML) put(m queue.Message) {
	x.PopReceipt = m.PopReceipt
	x.TimeNextVisible = httpTime(m.Visible)
}

func (x *messageXML) peeked(m queue.Message) {
	x.DequeueCount = &m.DequeueCount
	x.MessageText = &m.Text
}

func (x *messageXML) received(m queue.Message) {
	x.put(m)
	x.peeked(m)
}

func messageList(messages []queue.Message, fill func(*messageXML, queue.Message)) response {
	list := struct {
		XMLName  xml.Name     `xml:"QueueMessagesList"`
		Messages []messageXML `xml:"QueueMessage"`
	}{Messages: make([]messageXML, len(messages))}
	for i, m := range messages {
		list.Messages[i] = messageXML{MessageID: m.ID, InsertionTime: httpTime(m.Inserted), ExpirationTime: httpTime(m.Expires)}
		fill(&list.Messages[i], m)
	}
	return xmlResponse(http.StatusOK, list)
}

func httpTime(t time.Time) string { return t.UTC().Format(http.TimeFormat) }

type elements [][2]string

func sortedElements(pairs map[string]string) *elements {
	all := make(elements, 0, len(pairs))
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		all = append(all, [2]string{name, pairs[name]})
	}
	return &all
}

// MarshalXML implements [xml.Marshaler].
func (all elements) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	if err := e.EncodeToken(start); err != nil {
		return err
	}
	for _, pair := range all {
		if err := e.EncodeElement(pair[1], xml.StartElement{Name: xml.Name{Local: pair[0]}}); err != nil {
			return err
		}
	}
	return e.EncodeToken(start.End())
}

type errorXML elements

// MarshalXML implements [xml.Marshaler].
func (x errorXML) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	start.Name.Local = "Error"
	return elements(x).MarshalXML(e, start)
}

const xmlHead = "\ufeff" + `<?xml version="1.0" encoding="utf-8"?>`

func xmlResponse(status int, v any) response {
	b, err := xml.Marshal(v)
	if err != nil {
		panic("emulator: internal error: " + err.Error())
	}
	text := unreferenced.Replace(string(b))
	return response{status: status, contentType: "application/xml", body: closed(append([]byte(xmlHead), text...))}
}

// The package encoding/xml writes quotes, apostrophes, tabs and line feeds as numeric references. unreferenced turns
// these references back into the characters. The service escapes only &, <, > and carriage returns, and Microsoft's
// JavaScript SDK does not decode numeric references.
var unreferenced = strings.NewReplacer("&#34;", `"`, "&#39;", "'", "&#x9;", "\t", "&#xA;", "\n")

// closed writes elements without content as <Name />, a form that encoding/xml cannot write.
func closed(document []byte) []byte {
	empty := []byte("></")
	var b []byte
	for {
		i := bytes.Index(document, empty)
		if i < 0 {
			return append(b, document...)
		}
		name := document[bytes.LastIndexByte(document[:i], '<')+1 : i]
		rest := document[i+len(empty):]
		if after, ok := bytes.CutPrefix(rest, append(bytes.Clone(name), '>')); ok {
			b = append(b, document[:i]...)
			b = append(b, " />"...)
			document = after
		} else {
			b = append(b, document[:i+1]...)
			document = document[i+1:]
		}
	}
}
