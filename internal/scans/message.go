package scans

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

const (
	// PoisonSuffix ends the name of a poison queue. The Functions host moves a message into this queue after the
	// message's last delivery.
	PoisonSuffix = "-poison"
	// MaxDeliveries is the maximum number of deliveries of a message. A test compares it with maxDequeueCount in
	// host.json.
	MaxDeliveries = 5
	// MessageVersion is the newest format of [Message]. A message without RowRetry and without Delete has format 1.
	MessageVersion = 2
	// MaxMessageBytes is the maximum size of a message before its encoding. Base64 turns 48 KiB into 64 KiB, the service's limit.
	MaxMessageBytes = 48 << 10
)

// The queue-triggered functions. All run the same engine, but each can be scaled, monitored and stopped separately.
const (
	ScanPrefix    = "ScanPrefix"    // runs steps that read a range of partitions
	ScanPartition = "ScanPartition" // runs steps that read within one partition
	CopyRows      = "CopyRows"      // runs steps that read rows again: to write them, to retry them, or to delete them
)

// Functions lists the queue-triggered functions, sorted.
var Functions = []string{CopyRows, ScanPartition, ScanPrefix}

// Queues maps each function to the name of its queue.
var Queues = map[string]string{
	ScanPrefix:    "tablesweep-scan-prefix",
	ScanPartition: "tablesweep-scan-partition",
	CopyRows:      "tablesweep-copy-rows",
}

// Message is the message of one step of one scan. Its JSON is the body of a queue message, and is stored in the step's pending row.
type Message struct {
	Version    int           `json:"v"` // [Message.Prepare] sets it
	Scan       ledger.ScanID `json:"scan"`
	HandedOver bool          `json:"rows,omitempty"` // the step reads a range that was handed over to CopyRows
	Step       scan.Step     `json:"step"`
	RowRetry   *RowRetry     `json:"again,omitempty"`  // if set, Step is empty, and the step retries failed rows
	Delete     *deletion     `json:"delete,omitempty"` // if set, Step is empty, and the step deletes rows that another step has read

	// [ParseMessage] and [Message.Prepare] set these fields.
	Body  []byte    `json:"-"` // the JSON
	After time.Time `json:"-"` // the earliest time to begin the step; zero means immediately

	ID ledger.StepID `json:"-"` // a hash of the body; if the step is a deletion, a hash of Delete.Of
}

type start struct {
	Version int           `json:"v"` // 1
	Scan    ledger.ScanID `json:"start"`
}

// StartOf returns the scan id that a start request's message contains. For a step's message, it returns "".
func StartOf(body []byte) ledger.ScanID {
	var s start
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if d.Decode(&s) != nil || s.Version != 1 || !s.Scan.Valid() {
		return ""
	}
	return s.Scan
}

// RowRetry selects failed rows of earlier attempts by their positions in the ledger. The step retries the rows at the
// position At. If At is "", the step retries no rows. Instead, it creates a step for each of the next positions
// after Behind. If more positions may follow, it creates one further step, whose Behind is the last position found so far.
type RowRetry struct {
	Attempt int64  `json:"attempt"` // the attempt that retries the rows
	At      string `json:"at,omitempty"`
	Behind  string `json:"behind,omitempty"`
}

// Function returns the name of the function that handles the message.
func (m Message) Function() string {
	switch {
	case m.HandedOver || m.RowRetry != nil || m.Delete != nil:
		return CopyRows
	case m.Step.Range.Partition != nil:
		return ScanPartition
	}
	return ScanPrefix
}

// Ahead estimates how much the step and all its descendants will read. Every process gets the same estimate, because
// the estimate depends only on the message.
func (m Message) Ahead() scan.Outlook {
	if m.Delete != nil {
		return scan.Outlook{}
	}
	if m.HandedOver || m.RowRetry != nil {
		return scan.Pages(1)
	}
	return adaptive.Ahead(m.Step)
}

// Prepare encodes a message before it is recorded and sent, and gives its step an id.
func (m *Message) Prepare() error {
	if m.Version = 1; m.RowRetry != nil || m.Delete != nil {
		m.Version = MessageVersion
	}
	if m.Body = JSON(m); len(m.Body) > MaxMessageBytes {
		return fmt.Errorf("a step's message has %d bytes, but at most %d are allowed", len(m.Body), MaxMessageBytes)
	}
	m.identify()
	return nil
}

func (m *Message) identify() {
	m.ID = stepID(m.Body)
	if m.Delete != nil {
		m.ID = deletionID(m.Delete.Of)
	}
}

// JSON returns the JSON of a value that is stored or sent. It does not escape <, > and &.
func JSON(v any) []byte {
	var b bytes.Buffer
	if err := lines.JSON(&b).Encode(v); err != nil {
		panic("engine: internal error: " + err.Error()) // never happens for the app's own types
	}
	return bytes.TrimSpace(b.Bytes())
}

// Pending returns the pending step of a prepared message.
func (m Message) Pending() ledger.Pending {
	return ledger.Pending{ID: m.ID, Message: m.Body, After: m.After}
}

func stepID(body []byte) ledger.StepID {
	sum := sha256.Sum256(body)
	return ledger.StepID(strings.ToLower(base32.HexEncoding.EncodeToString(sum[:15])))
}

// ParseMessage reads a message's body. Its errors are [problem.Invalid], [problem.TooLarge] and [problem.Stale]. Stale
// means that a newer version of the program made the message. In that case, the message's step stays pending until an
// instance of the newer version resends the message.
func ParseMessage(body []byte) (Message, error) {
	if len(body) > MaxMessageBytes {
		return Message{}, problem.TooLargef("", "the message has %d bytes, but at most %d are allowed", len(body), MaxMessageBytes)
	}
	var format struct {
		Version int `json:"v"`
	}
	if json.Unmarshal(body, &format) == nil && format.Version > MessageVersion {
		return Message{}, problem.Stalef("", "the message has format %d, but this version of the program knows only format %d; the step waits for an instance of a newer version", format.Version, MessageVersion)
	}
	m := Message{Body: body}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, problem.Invalidf("", "the message is not a step of a scan; this app did not make the message").Because(err)
	}
	m.identify()
	switch {
	case m.Version < 1 || (m.Version == 2) != (m.RowRetry != nil || m.Delete != nil) || m.RowRetry != nil && m.Delete != nil:
		return m, problem.Invalidf("v", "the message has format %d, but its fields do not fit that format; this app did not make the message", m.Version)
	case !m.Scan.Valid():
		return m, problem.Invalidf("scan", "is not the id of a scan")
	}
	return m, nil
}

// Encode returns the text of a queue message. The host expects base64.
func Encode(body []byte) string { return base64.StdEncoding.EncodeToString(body) }

// Send puts a prepared message into its function's queue.
func (ss *Scans) Send(ctx context.Context, m Message) error {
	hidden := time.Duration(0)
	if !m.After.IsZero() {
		now, err := ss.Now(ctx)
		if err != nil {
			return err
		}
		hidden = m.After.Sub(now)
	}
	return ss.Queues[m.Function()].PutAfter(ctx, Encode(m.Body), hidden)
}

// deletion describes the rows that a step deletes.
type deletion struct {
	Of    ledger.StepID `json:"of"` // the step that read the rows
	Pages []ReadPage    `json:"pages,omitempty"`

	Rows []storage.Row `json:"-"` // the rows of Pages, if this invocation has read them
}

func deletionID(step ledger.StepID) ledger.StepID {
	return stepID([]byte("delete the rows read by " + step))
}

// DeletionOf returns the message of a second step, which deletes the rows that m's step has read. The pages of these rows
// are listed in the ledger, not in the message.
func (m Message) DeletionOf() Message {
	return Message{Scan: m.Scan, Delete: &deletion{Of: m.ID}, ID: deletionID(m.ID)}
}

// ReadPage describes how a page was read, so that the page can be read again.
type ReadPage struct {
	Range key.Range  `json:"range"`
	Token *key.Token `json:"token,omitempty"`
	Last  key.Key    `json:"last"` // the key of the last row that the step processed
	Rows  int64      `json:"rows"` // processed rows, as the action counts them; 0 until they are counted
	// If this step has left part of the page to another step (see passOn in package step), Partitions lists the partitions that
	// this step processed itself.
	Partitions []string `json:"partitions,omitempty"`

	Span int `json:"-"` // the index of the page's span; see readResult in package step
}

// SendAt resends a pending step's message. The argument `begin` is the earliest time to begin the step; zero means immediately.
func (ss *Scans) SendAt(ctx context.Context, id ledger.ScanID, p ledger.Pending, begin time.Time) error {
	p.After = begin
	ours, err := ss.Ledger.Renew(ctx, id, p)
	if err != nil || !ours {
		return err
	}
	m, err := ParseMessage(p.Message)
	if err != nil {
		return err
	}
	m.After = begin
	return ss.Send(ctx, m)
}

// SendStart sends the message for a start request.
func (ss *Scans) SendStart(ctx context.Context, id ledger.ScanID) {
	if err := ss.Queues[ScanPrefix].Put(ctx, Encode(JSON(start{1, id}))); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Str("scan", string(id)).Msg("the message about a start request was not sent; the function Maintain will start the scan")
	}
}
