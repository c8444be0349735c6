package storage

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"tablesweep/internal/key"
)

// MayWrite checks the permission to write rows of the table, and changes nothing. `exists` is false if the table does not
// exist or is being deleted. An error means that the caller may not write, or that the service did not answer.
func (t *Table) MayWrite(ctx context.Context) (exists bool, err error) {
	err = t.mayChange(ctx, Merge)
	if HasCode(err, "TableNotFound") || BeingDeleted(err) {
		return false, nil
	}
	return err == nil, err
}

// MayDelete checks the permission to delete rows of the table, and changes nothing. A missing table is an error.
func (t *Table) MayDelete(ctx context.Context) error { return t.mayChange(ctx, Delete) }

// MayWrite checks the permission to change messages of the queue, and changes nothing. `exists` is false if the queue
// does not exist or is being deleted.
func (q *Queue) MayWrite(ctx context.Context) (exists bool, err error) {
	receipt := base64.StdEncoding.EncodeToString([]byte(rand.Text()))
	_, err = q.Update(ctx, Message{ID: uuid.NewString(), PopReceipt: receipt}, 0)
	var refusal *Error
	switch {
	case HasCode(err, "QueueNotFound"), BeingDeleted(err):
		return false, nil
	case errors.As(err, &refusal) && (refusal.Status == http.StatusNotFound || refusal.Status == http.StatusBadRequest):
		return true, nil // the queue exists, and the change is permitted, but no message has this id
	}
	return err == nil, err
}

// mayChange checks the permission to change rows. To do this, it sends a change with a random key and an ETag that no row
// has, so the change cannot succeed.
func (t *Table) mayChange(ctx context.Context, kind OpKind) error {
	if t.Cosmos() {
		return fmt.Errorf("change table %s: %w", t.name, errNotWritten)
	}
	nowhere := key.Key{Partition: "tablesweep-" + rand.Text(), Row: rand.Text()}
	err := t.Write(ctx, Op{Kind: kind, Row: Row{Key: nowhere}, IfMatch: `W/"datetime'1601-01-01T00%3A00%3A00Z'"`})
	if HasCode(err, "ResourceNotFound", "EntityNotFound", "UpdateConditionNotSatisfied") {
		return nil
	}
	return err
}
