package action

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"

	"tablesweep/internal/storage"
)

// Enqueue puts one message for each row into a queue. A row may get more than one message. A message is put again
// if the service's answer was lost, or if a command was interrupted before it wrote its checkpoint.
type Enqueue struct {
	Queue   *storage.Queue
	Message *Template
	// If Plain is set, the text is sent unchanged. Otherwise it is sent as base64, which the Functions host and the
	// storage SDKs expect by default.
	Plain bool
}

// Split makes each row a unit.
func (Enqueue) Split(rows []storage.Row) [][]storage.Row {
	units := make([][]storage.Row, len(rows))
	for i := range rows {
		units[i] = rows[i : i+1]
	}
	return units
}

// Do puts the rows' messages into the queue.
func (q Enqueue) Do(ctx context.Context, o storage.RequestOptions, rows []storage.Row) (Result, error) {
	queue := q.Queue.With(o)
	var r Result
	for _, e := range rows {
		text, err := q.message(e)
		if err == nil {
			if err = queue.Put(ctx, text); err != nil && !tooLarge(err) {
				return r, err
			}
		}
		if err != nil {
			r.Failed = append(r.Failed, Failure{Key: e.Key, Reason: err.Error()})
			continue
		}
		r.Written++
	}
	return r, nil
}

// Try returns the first row's error if none of the rows can become a message.
func (q Enqueue) Try(rows []storage.Row) error {
	var first error
	for _, e := range rows {
		_, err := q.message(e)
		if err == nil {
			return nil
		}
		first = cmp.Or(first, err)
	}
	return first
}

func tooLarge(err error) bool {
	var e *storage.Error
	return errors.As(err, &e) && (e.Status == http.StatusRequestEntityTooLarge || e.Status == http.StatusBadRequest)
}

// message returns the message to send for a row.
func (q Enqueue) message(row storage.Row) (string, error) {
	text, err := q.Message.text(row.Entity())
	if err != nil {
		return "", err
	}
	if !q.Plain {
		text = base64.StdEncoding.EncodeToString([]byte(text))
	}
	if len(text) > storage.MaxMessageBytes {
		return "", fmt.Errorf("the encoded message has %d bytes, but a queue accepts at most %d", len(text), storage.MaxMessageBytes)
	}
	return text, nil
}
