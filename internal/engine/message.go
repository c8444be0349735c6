package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/problem"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/adaptive"
)

// The queue-triggered functions. They run the same engine; apart they can be
// scaled, watched and stopped each by itself.
const (
	ScanPrefix    = "ScanPrefix"    // steps over a range of partitions
	ScanPartition = "ScanPartition" // steps within one partition
	CopyRows      = "CopyRows"      // steps that read a key range again to write it
)

// Queues names each function's queue.
var Queues = map[string]string{
	ScanPrefix:    "tablesweep-scan-prefix",
	ScanPartition: "tablesweep-scan-partition",
	CopyRows:      "tablesweep-copy-rows",
}

// messageVersion is the format of [message].
const messageVersion = 1

// maxMessageBytes is the most that a message holds before it is encoded: base64
// makes 64 KiB of it, which is the service's limit.
const maxMessageBytes = 48 << 10

// message is the body of a queue message: one step of one scan.
type message struct {
	Version int       `json:"v"`
	Scan    string    `json:"scan"`
	Rows    bool      `json:"rows,omitempty"` // a range handed over to CopyRows
	Step    scan.Step `json:"step"`
}

// function names the function that the message is for.
func (m message) function() string {
	switch {
	case m.Rows:
		return CopyRows
	case m.Step.Range.Partition != nil:
		return ScanPartition
	}
	return ScanPrefix
}

// ahead returns what the step is believed to stand for, its descendants included. It goes by
// the message alone: whoever asks gets the same answer.
func (m message) ahead() adaptive.Outlook {
	if m.Rows {
		return adaptive.Pages(1)
	}
	return adaptive.Ahead(m.Step)
}

// step returns the message as the ledger keeps it. Its id is a hash of its
// content.
func (m message) step() (ledger.Step, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return ledger.Step{}, fmt.Errorf("encode message: %w", err)
	}
	body := bytes.TrimSpace(b.Bytes())
	if len(body) > maxMessageBytes {
		return ledger.Step{}, fmt.Errorf("a step's message is %d bytes, %d is the most", len(body), maxMessageBytes)
	}
	return ledger.Step{ID: stepID(body), Message: body}, nil
}

func stepID(body []byte) string {
	sum := sha256.Sum256(body)
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:15]))
}

// encode returns the text to put into a queue. The host expects base64.
func encode(body []byte) string { return base64.StdEncoding.EncodeToString(body) }

// parseMessage reads a message's body. Its errors are [problem.Invalid] or
// [problem.TooLarge] and name the field; for a message of a newer version of this program
// [problem.Stale]: its step stays pending, and an instance of that version sends it again.
func parseMessage(body []byte) (message, error) {
	if len(body) > maxMessageBytes {
		return message{}, problem.TooLargef("", "the message is %d bytes, %d is the most", len(body), maxMessageBytes)
	}
	var format struct {
		Version int `json:"v"`
	}
	if json.Unmarshal(body, &format) == nil && format.Version > messageVersion {
		return message{}, problem.Stalef("", "the message has format %d of a newer version, and this one knows format %d; the step is left to instances of that version", format.Version, messageVersion)
	}
	var m message
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, problem.Invalidf("", "the message is not a step of a scan; it was not made by this app").Because(err)
	}
	switch {
	case m.Version != messageVersion:
		return m, problem.Invalidf("v", "the message has format %d and this program knows format %d", m.Version, messageVersion)
	case m.Scan == "":
		return m, problem.Invalidf("scan", "is missing")
	}
	return m, nil
}
