package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"tablesweep/internal/key"
)

// MayWrite checks the permission to write rows of the table, and changes nothing. exists
// is false if there is no such table. An error means that writing is not allowed, or that
// the service did not answer.
func (t *Table) MayWrite(ctx context.Context) (exists bool, err error) {
	err = t.may(ctx, Merge)
	if HasCode(err, "TableNotFound") {
		return false, nil
	}
	return err == nil, err
}

// MayDelete checks the permission to delete rows of the table, and changes nothing. An
// error means that deleting is not allowed, that there is no such table, or that the
// service did not answer.
func (t *Table) MayDelete(ctx context.Context) error { return t.may(ctx, Delete) }

// may tries to do something to a row that can't exist, on a condition that can't hold.
func (t *Table) may(ctx context.Context, kind OpKind) error {
	nowhere := key.Key{Partition: "tablesweep-" + rand.Text(), Row: rand.Text()}
	err := t.Write(ctx, Op{Kind: kind, Entity: Entity{Key: nowhere}, IfMatch: `W/"datetime'1601-01-01T00%3A00%3A00Z'"`})
	var refusal *Error
	switch {
	case HasCode(err, "TableNotFound"):
		return err
	case errors.As(err, &refusal) && (refusal.Status == http.StatusNotFound || refusal.Status == http.StatusPreconditionFailed):
		return nil
	}
	return err
}
