package emulator

import (
	"encoding/xml"
	"maps"
	"net/http"
	"slices"
	"time"

	"tablesweep/internal/emulator/queue"
	"tablesweep/internal/emulator/refusal"
)

// messageText reads the body of a put or update. Like the service, it refuses
// characters that XML does not allow.
func messageText(body []byte) (string, error) {
	var m struct {
		XMLName     xml.Name `xml:"QueueMessage"`
		MessageText string
	}
	if err := xml.Unmarshal(body, &m); err != nil {
		return "", refusal.New(refusal.InvalidXMLDocument, "XML specified is not syntactically valid: "+err.Error())
	}
	if len(m.MessageText) > maxMessageBytes {
		return "", bodyTooLarge()
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

// metadataXML writes name-value pairs as elements, sorted by name.
type metadataXML map[string]string

// MarshalXML implements [xml.Marshaler].
func (m metadataXML) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	if err := e.EncodeToken(start); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if err := e.EncodeElement(m[name], xml.StartElement{Name: xml.Name{Local: name}}); err != nil {
			return err
		}
	}
	return e.EncodeToken(start.End())
}
